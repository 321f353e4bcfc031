"""Finds what requests GPUs in an object outside of every pod that was found in it: nothing judges that."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from webhook.cli.manifests.workloads import KubeObject, PodPlace, inner_objects, pod_places
from webhook.mapping.document.problem import FieldPath, path_text
from webhook.workloads import children, known_workloads, matches

IsKey: TypeAlias = Callable[[str], bool]
"""Whether a name is a resource name of a vendor."""

_NAME: Final = re.compile(r"[\w.-]+/[\w.-]+")
_NOTHING: Final = (None, False, 0, "0", "")


def unjudged(obj: KubeObject, places: Sequence[PodPlace], is_key: IsKey) -> Iterator[str]:
    """Yield a message for each request in an object that is in no pod.

    Args:
        obj: the object.
        places: its pods.
        is_key: says which keys request something.

    Raises:
        ManifestError: an object inside it is none.
    """
    if (obj.group, obj.kind) == ("", "Pod"):
        return
    known = known_workloads().get((obj.group, obj.kind))
    if known is not None and not known.requests:
        return
    judged = {own for place in places for _, own in place.parts}
    inner = dict(inner_objects(obj, known)) if known is not None else {}
    for path, each in inner.items():
        yield from (f"{path_text(path)}: {text}" for text in unjudged(each, pod_places(each, ()), is_key))
    spec = {key: value for key, value in obj.data.items() if key not in {"metadata", "status"}}
    for path in _keys(spec, (), {*judged, *inner}, is_key):
        yield f"not judged: {path_text(path)} is outside of every pod template and pod spec found in it"
    for pattern in () if known is None else known.counts:
        for path, value in matches(obj.data, pattern):
            if value not in _NOTHING:
                yield f"not judged: {path_text(path)} requests GPUs without a resource name"
    for pattern in () if known is None else known.texts:
        for path, value in matches(obj.data, pattern):
            names = filter(is_key, _NAME.findall(value)) if isinstance(value, str) else ()
            yield from (f"not judged: {path_text(path)} contains {name}" for name in dict.fromkeys(names))


def _keys(value: Any, path: FieldPath, judged: set[FieldPath], is_key: IsKey) -> Iterator[FieldPath]:
    if path in judged:
        return
    for key, child in children(value):
        if isinstance(child, dict | list):
            yield from _keys(child, (*path, key), judged, is_key)
        elif isinstance(key, str) and child not in _NOTHING and is_key(key):
            yield (*path, key)
