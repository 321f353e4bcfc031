"""One case, decided: what is stored, and what a second pass makes of that."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from tests.fuzz.generate import Case
from tests.fuzz.misspelled import PREFIX
from tests.fuzz.oracle.reading import Read, read_pod
from tests.fuzz.policies import SETUPS, Setup, policy_of
from tests.strict_patch import apply_in_place
from webhook.admission import Context, Decision, Namespace, decide
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod

Json = dict[str, Any]
T = TypeVar("T")

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode
NAMESPACE = "team"


@dataclass(frozen=True, slots=True)
class Finding:
    """A property that does not hold.

    Attributes:
        rule: which, in a few keys; the same rule broken by the same vendor counts as one finding.
        detail: what was seen.
        vendor: in whose keys it was asked, where that matters.
    """

    rule: str
    detail: str
    vendor: str = ""


class RaisedError(Exception):
    """The engine raised; the message says what and where."""


def called(function: Callable[..., T], *arguments: Any) -> T:
    """What a function of the engine returns.

    Raises:
        RaisedError: it raised anything but that something in the pod cannot be decoded.
    """
    try:
        return function(*arguments)
    except msgspec.DecodeError:
        raise
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise RaisedError(f"{type(error).__name__}: {error} at {at.filename}:{at.lineno}") from error


def decided(pod: bytes, context: Context, policy: Policy) -> Decision:
    """What is decided on a pod in JSON; raises as `called`."""
    return called(decide, decode_pod(pod), context, policy)


class Trial:
    """A case with the decision on it; everything else is computed on first use."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.raw = encode(case.pod)
        self.context = context_of(case)
        self.decision = decided(self.raw, self.context, self.policy)

    @property
    def setup(self) -> Setup:
        """What is configured."""
        return SETUPS[self.case.setup]

    @property
    def policy(self) -> Policy:
        """The policy that is in force."""
        return policy_of(self.case.setup)

    @property
    def skipped(self) -> bool:
        """Whether the pod is none of the webhook's business, by the rules of ``docs/behavior.md``, Which pods."""
        labels, metadata = self.case.labels, self.case.pod["metadata"]
        if labels.get(f"{PREFIX}inject") != "enabled" or self.case.pod["spec"].get("os"):
            return True
        if "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
            return True
        out = (metadata.get("labels") or {}).get(f"{PREFIX}inject") == "disabled"
        return out and labels.get(f"{PREFIX}opt-out") != "forbidden"

    @cached_property
    def enforced(self) -> bool:
        """Whether decisions are enforced: by the namespace's mode, and for a workload within the roll-out."""
        return self.case.labels.get(f"{PREFIX}mode", "enforce") == "enforce" and "VGW111" not in self.codes

    @property
    def guarded(self) -> bool:
        """Whether the namespace lets the guard act."""
        return self.case.annotations.get(f"{PREFIX}guard") not in {"allow", "audit"}

    @cached_property
    def keys(self) -> dict[str, str]:
        """The labels and annotations of the pod."""
        metadata = self.case.pod["metadata"]
        return {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}

    @cached_property
    def stored(self) -> Json:
        """The pod as the API server would store it.

        Raises:
            PatchError: the patch does not apply.
        """
        pod: Json = decode(self.raw)
        apply_in_place(pod, self.decision.patch)
        return pod

    @cached_property
    def second(self) -> Decision:
        """The decision on what is stored."""
        return decided(encode(self.stored), self.context, self.policy)

    @cached_property
    def before(self) -> list[Read]:
        """The containers as they were sent, as the oracle takes them."""
        return read_pod(self.case.pod, self.setup.cluster)

    @cached_property
    def after(self) -> list[Read]:
        """The containers as they are stored, as the oracle takes them."""
        return read_pod(self._without_installer, self.setup.cluster)

    @cached_property
    def codes(self) -> frozenset[str]:
        """The codes of the warnings."""
        return frozenset(finding.reason.code for finding in self.decision.warnings)

    def entry(self, container: str) -> Json:
        """What the status annotation says of a container."""
        found: Json = (self.decision.status.get("containers") or {}).get(container) or {}
        return found

    def written(self, container: str) -> Json:
        """The keys that were written for a container, by the status annotation."""
        found: Json = self.entry(container).get("written") or {}
        return found

    def containers(self) -> list[tuple[Json, Json]]:
        """Each container as it was sent and as it is stored, init containers first; without the one that brings the shim."""
        return list(zip(all_containers(self.case.pod), all_containers(self._without_installer), strict=True))

    @property
    def _without_installer(self) -> Json:
        """What is stored without the init container that brings the shim, the first one, unless it was sent."""
        spec = self.stored["spec"]
        first, *others = spec.get("initContainers") or [{"name": ""}]
        if first["name"] != INSTALLER or any(each["name"] == INSTALLER for each in all_containers(self.case.pod)):
            return self.stored
        return {**self.stored, "spec": {**spec, "initContainers": others}}


INSTALLER = "vgpu-shim"
"""The init container that brings the shim, the first one of a pod."""


def context_of(case: Case) -> Context:
    """The namespace of a case and its user."""
    return Context(Namespace(NAMESPACE, case.labels, case.annotations), "privileged", case.user)


def all_containers(pod: Json) -> list[Json]:
    """Init containers and containers."""
    return [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
