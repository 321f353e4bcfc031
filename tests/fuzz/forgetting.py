"""What a pod looks like to somebody who forgets one thing of it: to show that the search over siblings finds a forgotten fact.

Said of the decoded pod, not of the form in which facts are kept: it holds whatever becomes of that.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from tests.fuzz.misspelled import PREFIX
from tests.fuzz.siblings import FIELDS, LEVEL
from webhook.admission import Context, Namespace
from webhook.pod import Metadata, Pod, Resources, SecurityContext, present

Forgetting = Callable[[Any], Any]
"""What is left of a field's value."""


def _value(_: Any) -> None:
    return None


def _content(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return msgspec.Raw(b"[]") if present(value) else value
    return None if value is None else type(value)()


def _absence(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return value if present(value) else msgspec.Raw(b"[]")
    return value


def _numbers(value: Any) -> Any:
    return value and dict.fromkeys(value, "1")


def _without(wanted: Callable[[str], bool]) -> Forgetting:
    return lambda texts: {key: text for key, text in texts.items() if not wanted(key)}


def _absent_as(empty: Callable[[], Any]) -> Forgetting:
    return lambda value: empty() if value is None else value


MAP: Mapping[str, Forgetting] = {"content": _content, "values": _numbers, "absence": _absent_as(dict)}
LIST: Mapping[str, Forgetting] = {"content": _content, "absence": _absent_as(list)}
RAW: Mapping[str, Forgetting] = {"content": _content, "absence": _absence}
RAW_TEXT: Mapping[str, Forgetting] = {"value": lambda _: msgspec.Raw(b"")}
TEXT: Mapping[str, Forgetting] = {"value": _value}

WAYS: Mapping[str, Mapping[str, Forgetting]] = {
    "metadata": {"absence": replace},  # NO_METADATA is told by its identity
    "metadata.name": TEXT,
    "metadata.generateName": TEXT,
    "metadata.namespace": TEXT,
    "metadata.labels": MAP,
    "metadata.annotations": MAP,
    "metadata.ownerReferences": LIST,
    "spec.containers": {"number": lambda containers: containers[:1]},
    "spec.containers.name": {"value": lambda _: ""},
    "spec.containers.resources": {"absence": _absent_as(Resources)},
    "spec.containers.resources.limits": MAP,
    "spec.containers.resources.requests": MAP,
    "spec.containers.resources.claims": LIST,
    "spec.containers.env": RAW,
    "spec.containers.envFrom": RAW,
    "spec.containers.volumeMounts": RAW,
    "spec.containers.volumeDevices": RAW,
    "spec.containers.securityContext": {"value": _value, "absence": _absent_as(SecurityContext)},
    "spec.containers.image": RAW_TEXT,
    "spec.containers.command": RAW,
    "spec.containers.args": RAW,
    "spec.containers.restartPolicy": RAW_TEXT,
    "spec.initContainers": {"number": lambda found: found and found[:1], "absence": _absent_as(list)},
    "spec.volumes": RAW,
    "spec.schedulerName": TEXT,
    "spec.runtimeClassName": TEXT,
    "spec.nodeName": TEXT,
    "spec.nodeSelector": MAP,
    "spec.tolerations": RAW,
    "spec.affinity": RAW,
    "spec.schedulingGates": RAW,
    "spec.hostPID": {"value": _value},
    "spec.hostIPC": {"value": _value},
    "spec.shareProcessNamespace": {"value": _value},
    "spec.os": {"value": _value},
    "spec.resourceClaims": LIST,
    "context.namespace.name": {"value": lambda _: ""},
    "context.namespace.labels": {
        "level": _without(lambda key: key == LEVEL),
        "ours": _without(lambda key: key.startswith(PREFIX)),
    },
    "context.namespace.annotations": {
        "ours": _without(lambda key: key.startswith(PREFIX)),
        "others": _without(lambda key: not key.startswith(PREFIX)),
    },
    "context.podSecurityDefault": {"value": lambda _: "privileged"},
    "context.user": {"value": lambda _: ""},
    "context.imageVolumes": {"value": lambda _: True},
}
"""By field, every way in which it can be forgotten."""
FACTS = tuple((field, way) for field in FIELDS for way in WAYS[field])


def forgotten(pod: Pod, context: Context, field: str, way: str) -> tuple[Pod, Context]:
    """A pod and its circumstances without one thing."""
    root, *path = field.split(".")
    forget = WAYS[field][way]
    if root == "context":
        return pod, _in_context(context, path, forget)
    return _in_struct(pod, [root, *path], forget), context


def _in_context(context: Context, path: list[str], forget: Forgetting) -> Context:
    if path[0] != "namespace":
        return replace(context, **{_attribute(path[0]): forget(getattr(context, _attribute(path[0])))})
    old = context.namespace
    parts = {name: getattr(old, name) for name in ("name", "labels", "annotations")}
    return replace(context, namespace=Namespace(**{**parts, path[1]: forget(parts[path[1]])}))


def _in_struct(struct: Any, path: list[str], forget: Forgetting) -> Any:
    """A decoded object without what stands at a path, in each member of a list; what is absent has no members."""
    if struct is None:
        return None
    if isinstance(struct, list):
        return [_in_struct(member, path, forget) for member in struct]
    name = _attribute(path[0])
    if len(path) == 1:
        return replace(struct, **{name: forget(getattr(struct, name))})
    members = {name: _in_struct(getattr(struct, name), path[1:], forget)}
    if path[0] == "containers":
        members["init_containers"] = _in_struct(struct.init_containers, path[1:], forget)
    if isinstance(struct, Pod) and members.get("metadata") == Metadata() and struct.metadata == Metadata():
        return struct  # nothing to forget, and NO_METADATA is told by its identity
    return replace(struct, **members)


def _attribute(name: str) -> str:
    return re.sub("[A-Z]+", lambda found: f"_{found[0].lower()}", name)
