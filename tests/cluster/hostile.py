"""Objects that an API server may store and that are hostile to those who read them, as JSON."""

import json
from typing import Any, Final

DEEP: Final = b"[" * 2000 + b"]" * 2000

HOSTILE: Final[dict[str, tuple[bytes, bytes]]] = {
    "deep": (b'"managedFields": []', b'"managedFields": ' + DEEP),
    "deep objects": (b'"managedFields": []', b'"managedFields": ' + b'{"f:a":' * 3000 + b"{}" + b"}" * 3000),
    "nearly too deep": (b'"managedFields": []', b'"managedFields": ' + b"[" * 940 + b"]" * 940),
    "half a character": (b'"managedFields": []', rb'"managedFields": ["\ud800"]'),
    "no characters": (b'"managedFields": []', b'"managedFields": ["\xff\xfe"]'),
    "beyond int64": (b'"managedFields": []', b'"managedFields": [99999999999999999999, 1e999, ' + b"9" * 5000 + b"]"),
    "huge": (b'"managedFields": []', b'"managedFields": ["' + b"x" * 2**20 + b'"]'),
    "labels of another type": (b'"labels": {}', b'"labels": ["a", 1]'),
    "labels that are no characters": (b'"labels": {}', b'"labels": {"a": "\xc3("}'),
    "numbers as labels": (b'"labels": {}', b'"labels": {"a": 99999999999999999999}'),
    "annotations of another type": (b'"annotations": {}', b'"annotations": 1e999'),
}
"""What is replaced in an object, by what."""

UNHARMED: Final = frozenset({"nearly too deep", "no characters", "beyond int64", "huge"})
"""Those in parts that nobody reads, where a decoder may pass over them."""


def stored(name: str, namespace: str = "team", **rest: Any) -> dict[str, Any]:
    """An object with metadata in which anything can be replaced."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "7"}
    return {"metadata": {**metadata, "labels": {}, "annotations": {}, "managedFields": []}, "spec": {}, **rest}


def hostile(how: str, name: str = "odd", namespace: str = "team", **rest: Any) -> bytes:
    """A hostile object, as it is sent."""
    before, after = HOSTILE[how]
    text = json.dumps(stored(name, namespace, **rest)).encode()
    assert before in text
    return text.replace(before, after)


def listed(*items: bytes) -> bytes:
    """A list of objects, as it is sent."""
    return b'{"kind":"List","metadata":{"resourceVersion":"5"},"items":[' + b",".join(items) + b"]}"


def sent(kind: str, item: bytes) -> bytes:
    """An event of a watch, as it is sent."""
    return b'{"type":"' + kind.encode() + b'","object":' + item + b"}"
