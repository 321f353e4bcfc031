"""Pods beyond the bounds of `eligibility`: those that request devices are denied, all others let through.

Devices are hidden from these, too, in few steps for each container, with a status that names none: whoever adds a request
later to a pod beyond the bounds has it denied.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from webhook.admission.claims import counts
from webhook.admission.decision import Decision, untouched
from webhook.admission.hide import HIDING, Hiding, hiding_of
from webhook.mapping.model.policy import Policy
from webhook.patch import Operation
from webhook.pod import ENV, Container, Metadata, Pod, Resources, entries, present
from webhook.reasons import Finding, Reason

MAX_HIDDEN: Final = 24 * 1024
"""The most containers from which devices are hidden. With that variable in each, a pod with more exceeds the 1.5 MiB of an
object in etcd (its ``--max-request-bytes``)."""

MAX_ANNOTATIONS: Final = 128 * 1024
"""The most characters of annotations beside which a status is written that may list a thousand containers: the API server
refuses more than 256 KiB in all (``TotalAnnotationSizeLimitB``)."""

MAX_NAMES: Final = 8 * 1024
"""The most extended resources, labels or annotations that are looked at: no pod has so many, and with more it requests."""

_encode: Final = msgspec.json.Encoder().encode


def requests_something(pod: Pod, policy: Policy) -> bool:
    """Return whether a pod of any size may request devices: it has a key with another number than 0, or claims."""
    spec = pod.spec
    containers = spec.containers if spec.init_containers is None else [*spec.init_containers, *spec.containers]
    resources = [each.resources for each in containers if each.resources is not None]
    if spec.resource_claims or any([each.claims for each in resources]):
        return True
    return _requests_by_keys(pod.metadata, policy) or _requests_resources(resources, policy)


def _requests_by_keys(metadata: Metadata, policy: Policy) -> bool:
    """Whether a label or annotation is a key, or there are too many to tell."""
    for texts, read in ((metadata.labels, policy.labels), (metadata.annotations, policy.annotations)):
        possible = read.possible(texts or ())
        if len(possible) > MAX_NAMES or any(map(read.owners, possible)):
            return True
    return False


def _requests_resources(resources: Iterable[Resources], policy: Policy) -> bool:
    """Whether a container has a key with another number than 0, or there are too many resources to tell."""
    sides = [side for each in resources for side in (each.limits, each.requests) if side]
    every = {name for name in itertools.chain(*sides) if "/" in name}
    if len(every) > MAX_NAMES:
        return True
    hiding = _hiding(policy)
    hidden = {*([] if hiding is None else hiding.resources.among(every))}
    possible = {*policy.resources.possible(every), *hidden}
    counted = (name for side in sides for name in possible.intersection(side) if counts(side[name]))
    return any(name in hidden or policy.resources.owners(name) for name in counted)


def _hiding(policy: Policy) -> Hiding | None:
    return hiding_of(policy) if policy.settings.hide_devices else None


def crowded(pod: Pod, policy: Policy) -> Finding | None:
    """Return what keeps a status of hidden devices out of a pod: annotations that leave it no room; None if nothing does."""
    annotations = pod.metadata.annotations
    if not policy.settings.hide_devices or not annotations:
        return None
    size = sum(map(len, annotations)) + sum(map(len, annotations.values()))
    message = f"annotations of {size} characters leave no room for a status"
    return Finding(Reason.TOO_MANY, message, field="metadata.annotations") if size > MAX_ANNOTATIONS else None


def beyond(excess: Finding, pod: Pod, policy: Policy) -> Decision | None:
    """Return the decision on a pod beyond the bounds that requests nothing; None for one that has to be denied."""
    hiding = _hiding(policy)
    metadata, containers, init = pod.metadata, pod.spec.containers, pod.spec.init_containers or []
    if requests_something(pod, policy) or (hiding is not None and len(containers) + len(init) > MAX_HIDDEN):
        return None
    if hiding is None or any(hiding.keys.among(texts or ()) for texts in (metadata.labels, metadata.annotations)):
        return untouched(Reason.NO_GPU_KEYS)
    operations = [
        *_hidden("/spec/containers", containers, hiding.variables),
        *_hidden("/spec/initContainers", init, hiding.variables),
    ]
    if not operations:
        return untouched(Reason.NO_GPU_KEYS)
    message = (
        f"no container requests a device: {' and '.join(hiding.variables)} hides those of the node ({excess.message})"
    )
    return Decision(
        allowed=True,
        reason=Reason.CHANGED,
        patch_json=_encode(operations),
        notes=(Finding(Reason.HIDDEN, message),),
        status_json=_encode({"policy": policy.digest, "containers": {}}).decode(),
        audit={"reasons": Reason.HIDDEN.code},
    )


def _hidden(path: str, containers: Iterable[Container], variables: Mapping[str, str]) -> Iterator[Operation]:
    """The operations that hide devices from containers, few calls for each."""
    entries = [({"name": name, "value": value}, name.encode()) for name, value in variables.items()]
    for index, container in enumerate(containers):
        raw, env = container.env, f"{path}/{index}/env"
        if not present(raw):
            yield {"op": "add", "path": env, "value": [entry for entry, _ in entries]}
            continue
        text = bytes(raw)
        for entry, name in entries:
            last = _last(raw, entry["name"]) if name in text or b"\\" in text else None
            if last is None:
                yield {"op": "add", "path": f"{env}/-", "value": entry}
            elif last >= 0:
                yield {"op": "add", "path": f"{env}/{last}/value", "value": entry["value"]}


def _last(raw: msgspec.Raw, name: str) -> int | None:
    """The index of the variable that counts; None without one, -1 for one that hides, or whose reference no value replaces."""
    own = [(index, entry) for index, entry in enumerate(entries(raw, ENV)) if entry.name == name]
    if not own:
        return None
    index, entry = own[-1]
    return -1 if present(entry.value_from) or entry.value in HIDING else index
