"""What a denial tells people to do other than write: pods in which they have removed, kept, moved or split what it names."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.mapping.model.policy import Policy
from webhook.pod import DEVICE_CLASS
from webhook.reasons import Finding

Json = dict[str, Any]

MOST: Final = 32
"""How often the same is done to one pod, with what is named next."""

_REMOVED: Final = re.compile(r"(?:remove (?:it|them)\b|drop `privileged`)(?! to get)")
_LEFT_OUT: Final = re.compile(r"leave it out")
_ALL: Final = re.compile(r"^(.*) requests no device, (.*) a share of one: .* or remove (?:both|all)")
_SPELLINGS: Final = re.compile(r"^(\S+): \S+ and (\S+): \S+ are two spellings of one key: keep one")
_VENDORS: Final = re.compile(r"is a key of (\S+), \S+ of (\S+): keep the keys of one vendor")
_ONE: Final = re.compile(r"keep the request of one|request in one container")
_CLAIM: Final = re.compile(r"keep one of them")
_MOVED: Final = re.compile(r"move the request to a container")
_SAME: Final = re.compile(r"request the same in each")
_SPLIT: Final = re.compile(r"split the pod")
_ABOUT_SEVERAL: Final = re.compile(
    "|".join(each.pattern for each in (_SPELLINGS, _VENDORS, _ONE, _CLAIM, _SAME, _SPLIT))
)
_NAMED: Final = re.compile(r"(?:annotation|label|nodeSelector) (\S+)")
_FIELD: Final = re.compile(r"([\w.]+)\[(.*)\]", re.DOTALL)


class Act(NamedTuple):
    """What a message tells people to do, and the pods in which they have done it, each of which is to be accepted."""

    text: str
    pods: list[Json]


def acts(pod: Json, denial: Finding, policy: Policy) -> Iterator[Act]:
    """All that a denial tells people to do other than write."""
    done = _Pod(pod, denial, policy)
    ways: Mapping[re.Pattern[str], Callable[[re.Match[str]], list[Json]]] = {
        _REMOVED: lambda _: [done.without(denial.field or "".join(_NAMED.findall(denial.message)[:1]))],
        _LEFT_OUT: lambda _: [done.without(denial.field or "".join(_NAMED.findall(denial.message)[:1]))],
        _ALL: lambda match: [done.without_keys(re.findall(r"(\S+): ", f"{match[1]} {match[2]}"))],
        _SPELLINGS: lambda match: [done.without_keys([each]) for each in match.groups()],
        _VENDORS: lambda match: [done.without_vendor(each) for each in match.groups()],
        _ONE: lambda _: [done.only(each, others=True) for each in done.requesting()],
        _CLAIM: lambda _: [done.without_claims(), done.without_keys(done.keys())],
        _MOVED: lambda _: [done.moved()],
        _SAME: lambda _: [done.alike()],
        _SPLIT: lambda _: [done.only(each, others=False) for each in done.requesting()],
    }
    message = denial.message.partition("; even then, ")
    for pattern, act in ways.items():
        match = pattern.search(message[0])
        if match is not None and not message[2]:
            yield Act(match[0], act(match))


def in_vain(
    pod: Json, denial: Finding, policy: Policy, decided: Callable[[Json], Finding | None]
) -> Iterator[tuple[str, Finding]]:
    """Each thing that is to be done, with why the pod is denied all the same.

    What is kept can be denied for itself, which says what to do then; but not for what else there is in the pod.
    """
    for act in acts(pod, denial, policy):
        for each in act.pods:
            again = _done(each, denial, policy, decided)
            if again is None or again.message in denial.message:  # which is told at once
                continue
            if _REMOVED.search(act.text) or _ABOUT_SEVERAL.search(again.message):
                yield act.text, again


def _done(
    pod: Json, denial: Finding, policy: Policy, decided: Callable[[Json], Finding | None], left: int = MOST
) -> Finding | None:
    """Why a pod is denied when what is named next, for the same reason, is removed, too."""
    again = decided(pod)
    if again is None or not left or again.reason is not denial.reason or again.message == denial.message:
        return again
    further = [each for act in acts(pod, again, policy) if _REMOVED.match(act.text) for each in act.pods]
    return _done(further[0], again, policy, decided, left - 1) if further else again


class _Pod:
    """A pod, and what may be done to it."""

    def __init__(self, pod: Json, denial: Finding, policy: Policy) -> None:
        self._pod, self._container, self._policy = pod, denial.container, policy

    def without(self, field: str) -> Json:
        """The pod without a field, as a finding names it."""
        found = _FIELD.fullmatch(field.removeprefix("annotation ").removeprefix("label "))
        path, name = (found[1], found[2]) if found else (field.rpartition(" ")[2], "")
        pod = self.without_keys([name or path])
        if path == "spec.volumes":
            pod["spec"]["volumes"] = [each for each in pod["spec"]["volumes"] if each["name"] != name]
        elif path.startswith("spec."):
            pod["spec"].pop(path.removeprefix("spec.").partition(".")[0], None)
        for container in self._containers(pod):
            self._strip(container, path, name)
        return pod

    @staticmethod
    def _strip(container: Json, path: str, name: str) -> None:
        if path in {"env", "volumeMounts", "volumeDevices"}:
            names = ("name", "mountPath", "devicePath")
            entries = container.get(path) or []
            container[path] = [each for each in entries if all(each.get(key) != name for key in names)]
        elif path.startswith("securityContext."):
            (container.get("securityContext") or {}).pop(path.split(".")[1], None)
        else:
            container.pop(path, None)

    def without_keys(self, keys: "list[str] | tuple[str | Any, ...]") -> Json:
        """The pod without resources, labels and annotations."""
        pod = copy.deepcopy(self._pod)
        texts = [pod["metadata"].get(each) or {} for each in ("labels", "annotations")]
        for side in [*self._sides(pod), *texts, pod["spec"].get("nodeSelector") or {}]:
            for key in keys:
                side.pop(key, None)
        return pod

    def without_claims(self) -> Json:
        """The pod without claims of devices, also by the names of classes."""
        pod = self.without_keys(
            [key for side in self._sides(self._pod) for key in side if key.startswith(DEVICE_CLASS)]
        )
        for each in self._containers(pod):
            each["resources"].pop("claims", None)
        return pod

    def without_vendor(self, vendor: str) -> Json:
        """The pod without the keys of a vendor."""
        places = (self._policy.resources, self._policy.labels, self._policy.annotations)
        metadata = self._pod["metadata"]
        texts = [*self._sides(self._pod), *(metadata.get(each) or {} for each in ("labels", "annotations"))]
        keys = [key for side in texts for key in side]
        return self.without_keys(
            [key for key in keys if any(each.vendor == vendor for names in places for each in names.owners(key))]
        )

    def keys(self) -> list[str]:
        """The resource names that request in the container."""
        return [key for side in self._sides(self._pod) for key in side if self._policy.resources.owners(key)]

    def requesting(self) -> list[str]:
        """The containers that request."""
        return [each["name"] for each in self._every(self._pod) if self._requests(each)]

    def only(self, name: str, *, others: bool) -> Json:
        """The pod in which only this container requests; without the `others`, or with them."""
        pod = copy.deepcopy(self._pod)
        for place in ("initContainers", "containers"):
            kept = pod["spec"].get(place) or []
            for each in kept:
                if each["name"] != name:
                    each.pop("resources", None)
            if not others:
                pod["spec"][place] = [each for each in kept if each["name"] == name]
        if not pod["spec"]["containers"]:
            pod["spec"]["containers"] = [{"name": "other", "image": "i"}]
        return pod

    def moved(self) -> Json:
        """The pod with the requests of an init container in its first container."""
        pod = copy.deepcopy(self._pod)
        first = pod["spec"]["containers"][0]
        for each in pod["spec"]["initContainers"]:
            if each["name"] == self._container:
                first["resources"] = each.pop("resources")
        return pod

    def alike(self) -> Json:
        """The pod in which all that request do as the first of them."""
        pod = copy.deepcopy(self._pod)
        requesting = [each for each in self._every(pod) if self._requests(each)]
        for each in requesting:
            each["resources"] = copy.deepcopy(requesting[0]["resources"])
        return pod

    @staticmethod
    def _every(pod: Json) -> list[Json]:
        return [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]

    def _containers(self, pod: Json) -> list[Json]:
        return [each for each in self._every(pod) if self._container in {None, each["name"]}]

    def _sides(self, pod: Json) -> list[Json]:
        sides = [
            (each.get("resources") or {}).get(side) for each in self._containers(pod) for side in ("limits", "requests")
        ]
        return [side for side in sides if side]

    def _requests(self, container: Json) -> bool:
        sides = [(container.get("resources") or {}).get(side) or {} for side in ("limits", "requests")]
        return any(self._policy.resources.owners(key) for side in sides for key in side)
