"""Keys of requests in objects at places where nothing reads them.

A pod that is made of the object has nothing of them: it is judged, and allowed, as one that requests nothing.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from webhook.labels import keys_of
from webhook.mapping.document.problem import FieldPath, path_text
from webhook.mapping.model.policy import Policy
from webhook.mapping.notation import NameSet
from webhook.reasons import Finding, Reason
from webhook.workloads import Spot, children, matches

MOST: Final = 8
"""The most keys of an object that are reported."""

MAX_PARTS: Final = 8192
"""The most mappings and lists of a pod that are searched, and the most keys of its object: honest ones have some hundred."""

_AMOUNTS: Final = frozenset({"limits", "requests"})
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_OF_NODES: Final = frozenset(
    {
        "nodeSelector",
        "affinity",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
        "metadata",
        "labels",
        "annotations",
    }
)
"""Fields beside the containers with names of labels, or with what is looked at elsewhere."""
_NOTHING: Final = (None, False, 0, "0", "")
_OWN: Final = {key: place for place in ("label", "annotation") for key in keys_of("pod", place)}


class Stray(NamedTuple):
    """A key that nothing reads.

    Attributes:
        path: its path in the object.
        finding: what is wrong, and where it belongs.
    """

    path: FieldPath
    finding: Finding


def strays(data: Any, spots: Collection[Spot], policy: Policy) -> Iterator[Stray]:
    """Yield the keys in an object that nothing reads where they are, each once."""
    paths = {spot.path for spot in spots}
    for spot in spots:
        yield from _in_metadata(data, spot, policy)
        yield from _in_spec(data, spot, paths, policy)
        yield from _uncounted(data, spot, policy)
    yield from _above(data, spots, policy)


def _uncounted(data: Any, spot: Spot, policy: Policy) -> Iterator[Stray]:
    """Yield the name of a request in whose template the controller counts no device."""
    counted, around = spot.counted, spot.path[:-1]
    if counted is None or next(matches(_at(data, around), counted.at), None) is not None:
        return
    # It looks at the limits of the first container.
    limits = _at(data, (*spot.spec, "containers", 0, "resources", "limits"))
    names = [
        str(name) for name, amount in children(limits) if amount not in _NOTHING and policy.resources.owners(str(name))
    ]
    if names and not any(name in NameSet.of(counted.names) for name in names) and spot.path[-1] == "template":
        right = path_text((*around, *counted.at[:-1]))
        why = f"{counted.by} counts no device in {names[0]}, before its pods are changed"
        message = f"{why}: set {counted.at[-1]} in {right}"
        yield Stray(around, Finding(Reason.KEY_IGNORED, message, None, f"resource {names[0]}"))


def _above(data: Any, spots: Iterable[Spot], policy: Policy) -> Iterator[Stray]:
    """Yield labels and annotations of an object, or of one inside it, that its pods do not get."""
    apart = [spot for spot in spots if spot.apart]
    had = {each for spot in apart for each in _texts(spot.pod().get("metadata"))}
    for path, spot in _metadata_above(apart).items():
        for field, key in _texts(_at(data, path)):
            if (field, key) not in had:
                yield from _of_pod((*path, field, key), spot, policy)


def _metadata_above(spots: Sequence[Spot]) -> dict[FieldPath, Spot]:
    """Where the objects around pods have metadata, each with the first pod inside it."""
    depths = [(spot, depth) for spot in reversed(spots) for depth in range(len(spot.root), len(spot.path))]
    return {(*spot.path[:depth], "metadata"): spot for spot, depth in depths}


def _texts(metadata: Any) -> list[tuple[str, str]]:
    """The labels and annotations in metadata, each with its field."""
    return [
        (field, str(key))
        for field in ("labels", "annotations")
        if isinstance(metadata, dict) and isinstance(metadata.get(field), dict)
        for key in itertools.islice(metadata[field], MAX_PARTS)
    ]


def _in_metadata(data: Any, spot: Spot, policy: Policy) -> Iterator[Stray]:
    """Yield labels and annotations in a field of a pod's metadata that does not exist, such as ``annotation``."""
    for field, texts in children(_at(data, spot.metadata)):
        name = str(field)
        if not isinstance(texts, dict) or name in {"labels", "annotations"} or not name.startswith(("label", "annot")):
            continue
        for key in map(str, texts):
            yield from _of_pod((*spot.metadata, name, key), spot, policy)


def _in_spec(data: Any, spot: Spot, others: Collection[FieldPath], policy: Policy) -> Iterator[Stray]:
    """Yield keys below a pod's fields that are in no container's amounts."""
    shape, spec = spot.shape, _at(data, spot.spec)
    patterns = (*((kind, "*") for kind in _CONTAINERS), *shape.containers)
    found = itertools.chain.from_iterable(matches(spec, pattern) for pattern in patterns)
    containers = [path for path, _ in itertools.islice(found, MAX_PARTS)]
    amounts = {(*path, "resources") for path in containers}
    amounts |= {path for pattern in shape.resources for path, _ in matches(spec, pattern)}
    usual: FieldPath = next((each for each in shape.containers if "*" not in each), ("containers", 0))
    first = min(amounts, default=(*usual, "resources"), key=len)
    inner = {path[len(spot.spec) :] for path in others if path[: len(spot.spec)] == spot.spec}
    for at in _keys_below(spec, amounts, inner):
        if policy.resources.owners(str(at[-1])):
            own = next(((*path, "resources") for path in containers if at[: len(path)] == path), first)
            yield _stray((*spot.spec, *at), "resource", (*spot.spec, *own, "limits"))
        else:
            yield from _of_pod((*spot.spec, *at), spot, policy)


def _keys_below(spec: Any, amounts: Collection[FieldPath], others: Collection[FieldPath]) -> Iterator[FieldPath]:
    """The paths of keys with a domain below a pod's fields that are in no amounts, and in no pod of its own."""
    left: list[tuple[FieldPath, Any]] = [((), spec)]
    for _ in range(MAX_PARTS):
        if not left:
            break
        path, value = left.pop()
        read = _AMOUNTS if path in amounts else _OF_NODES if not path else ()
        members = [(key, each) for key, each in itertools.islice(children(value), MAX_PARTS) if key not in read]
        for key, child in members:
            if isinstance(child, dict | list):
                left += [((*path, key), child)] if child and (*path, key) not in others else []
            elif isinstance(key, str) and "/" in key and child not in _NOTHING:
                yield (*path, key)


def _of_pod(path: FieldPath, spot: Spot, policy: Policy) -> Iterator[Stray]:
    """Yield a key at a path, if it would be read in the labels or annotations of a pod."""
    place = _place(str(path[-1]), policy)
    if place is not None:
        yield _stray(path, place, (*spot.metadata, f"{place}s"))


def _place(key: str, policy: Policy) -> str | None:
    """Where on a pod a label or annotation is read that requests, or that the webhook or a scheduler obeys; None: nowhere."""
    if key in _OWN:
        return _OWN[key]
    if policy.labels.owners(key):
        return "label"
    return "annotation" if policy.annotations.owners(key) or policy.marks.hint(key) else None


def _at(data: Any, path: FieldPath) -> Any:
    """The value at a path; None if there is none."""
    for part in path:
        known = isinstance(data, dict) or (isinstance(data, list) and isinstance(part, int) and part < len(data))
        data = (data.get(part) if isinstance(data, dict) else data[part]) if known else None
    return data


def _stray(path: FieldPath, place: str, right: FieldPath) -> Stray:
    message = f"nothing reads {path[-1]} in {path_text(path[:-1])}: write it in {path_text(right)}"
    return Stray(path, Finding(Reason.MISPLACED_KEY, message, None, f"{place} {path[-1]}"))
