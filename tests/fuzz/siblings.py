"""Siblings of a pod: the same template with one thing changed, by a catalogue that covers every field that is decoded.

What is remembered of a pod must not be taken for its sibling wherever the change matters. `CHANGES` has an entry for each
field of the pod and of the circumstances of its review; ``test_remembered.py`` demands it.
"""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import msgspec

from tests.fuzz.belongings import NAMES as BELONGINGS
from tests.fuzz.draw import Draw
from tests.fuzz.environment import (
    DEVICE_CLASS,
    GUARDED,
    HINTS,
    KAI_MAPS,
    LOADER,
    MARKS,
    MOUNTS,
    PATHS,
    SCHEDULERS,
    SOURCES,
    SWITCHES,
    VALUES,
    VOLUMES,
    card_by_affinity,
)
from tests.fuzz.generate import DEFAULTS
from tests.fuzz.misspelled import NAMES, PREFIX, misspelled_key
from tests.fuzz.oracle.names import EXACT
from tests.fuzz.requests import NAMES as VENDORS
from tests.fuzz.trial import Json, all_containers
from webhook.admission import Context, Namespace
from webhook.mapping.load import builtin


class Sibling(NamedTuple):
    """A pod as JSON, with the circumstances of its review."""

    pod: Json
    context: Context


Change = Callable[[Draw, Sibling], Sibling]
"""Changes one thing; the pod is the caller's to change."""

ABSENT = object()
KEY = re.compile(r"[A-Za-z0-9._/-]{1,80}")
SELECTED = ("nvidia.com/gpu.product", "gpu", "cloud.google.com/gke-gpu-sharing-strategy", "p.example.com/selector")
LEVEL = "pod-security.kubernetes.io/enforce"
TOLERATIONS: tuple[Any, ...] = (
    None,
    [],
    [{"operator": "Exists"}],
    [{"key": "mine", "operator": "Exists"}],
    [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
)
AFFINITIES: tuple[Any, ...] = (ABSENT, None, {}, {"nodeAffinity": {"futureField": 1}})
OF_SYSTEMS = tuple({name.partition("=")[0].replace("*", "x"): None for names in BELONGINGS.values() for name in names})
GATES: tuple[Any, ...] = (ABSENT, None, [], [{"name": "mine"}], [{"name": name} for name in OF_SYSTEMS])
POD_CLAIMS: tuple[Any, ...] = (ABSENT, None, [], [{"name": "own", "resourceClaimName": "c"}], [{"name": "nic"}])
CLAIMS: tuple[Any, ...] = (ABSENT, None, [], [{"name": "own"}], [{"name": "nic", "request": "r"}])
ENV_FROM: tuple[Any, ...] = (
    ABSENT,
    None,
    [],
    [{"configMapRef": {"name": "c"}}],
    [{"secretRef": {"name": "s"}}],
    [{"configMapRef": {"name": "p-abcdefg-shared-gpu-0-evar"}}],
)
OWNERS: tuple[Any, ...] = (ABSENT, None, [], [{"kind": "ReplicaSet", "name": "d-5d8f", "controller": True}])


@cache
def document_keys() -> tuple[str, ...]:
    """Whatever in the built-in documents could be a key of a pod, with its variable parts filled in."""
    texts = {text for document in builtin().values() for text in _texts(document.data)}
    filled = {re.sub(r"\{[^{}]*\}", "a", text).replace("*", "a") for text in texts}
    return tuple(sorted(key for key in filled if KEY.fullmatch(key)))


def _texts(data: object) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(data, list):
        for value in data:
            yield from _texts(value)
    elif isinstance(data, str):
        yield data


def changed(draw: Draw, field: str, sibling: Sibling) -> Sibling:
    """A sibling with one change to a field; what is given stays as it is."""
    return CHANGES[field](draw, copied(sibling))


def copied(sibling: Sibling) -> Sibling:
    """The same, to be changed."""
    return sibling._replace(pod=msgspec.json.decode(msgspec.json.encode(sibling.pod)))


def marked(draw: Draw, sibling: Sibling) -> Sibling:
    """A pod with a scheduler's mark, as copied from one that runs."""
    annotations = sibling.pod["metadata"].get("annotations") or {}
    sibling.pod["metadata"]["annotations"] = {**annotations, draw.pick(("hami.io/vgpu-node", *MARKS)): "n"}
    return sibling


def _put(parent: Json, key: str, value: Any) -> None:
    if value is ABSENT:
        parent.pop(key, None)
    else:
        parent[key] = value


def _in(place: str, key: str, values: tuple[Any, ...], draw: Draw, sibling: Sibling) -> Sibling:
    """One of these values for a key of the pod's metadata or specification."""
    _put(sibling.pod[place], key, draw.pick(values))
    return sibling


def _in_container(key: str, values: tuple[Any, ...], draw: Draw, sibling: Sibling) -> Sibling:
    _put(_container(draw, sibling), key, draw.pick(values))
    return sibling


def _in_installer(key: str, values: tuple[Any, ...], draw: Draw, sibling: Sibling) -> Sibling:
    """One of these values for a key of the init container that brings the shim, which is added if missing."""
    containers = sibling.pod["spec"].get("initContainers") or []
    if not any(each["name"] == INSTALLER["name"] for each in containers):
        sibling.pod["spec"]["initContainers"] = [copy.deepcopy(INSTALLER), *containers]
    found = next(each for each in sibling.pod["spec"]["initContainers"] if each["name"] == INSTALLER["name"])
    _put(found, key, draw.pick(values))
    return sibling


def _container(draw: Draw, sibling: Sibling) -> Json:
    found: Json = draw.pick(all_containers(sibling.pod))
    return found


def _metadata(draw: Draw, sibling: Sibling) -> Sibling:
    if draw.chance(0.7):
        sibling.pod.pop("metadata", None)
    else:
        sibling.pod["metadata"] = {}
    return sibling


def _mapping(place: str, key: str, draw: Draw, sibling: Sibling) -> Sibling:
    """A map of texts without one of its keys, with another value for one, with one more, empty or without the map."""
    parent = sibling.pod[place]
    entries: dict[str, str] = dict(parent.get(key) or {})
    odd = draw.random()
    if odd < 0.15:
        _put(parent, key, draw.pick((ABSENT, None, {})))
        return sibling
    if entries and odd < 0.4:
        del entries[draw.pick(list(entries))]
    elif entries and odd < 0.65:
        entries[draw.pick(list(entries))] = _text(draw)
    else:
        entries[_key(draw, place)] = _text(draw)
    parent[key] = entries
    return sibling


def _text(draw: Draw) -> str:
    kind = draw.random()
    if kind < 0.4:
        return draw.pick(VALUES)
    return draw.pick(("T4", "A100", "1", "2", "gpu-limiter") if kind < 0.8 else ("nobody", *VENDORS))


def _key(draw: Draw, place: str) -> str:
    odd = draw.random()
    if place == "spec" and odd < 0.7:
        return draw.pick(SELECTED)
    if odd < 0.3:
        return draw.pick(document_keys())
    if odd < 0.4:
        return misspelled_key(draw)
    if odd < 0.5:
        return f"{PREFIX}{draw.pick(NAMES)}"
    switches = tuple(key for _, key, _ in SWITCHES)
    if odd < 0.7 and place == "metadata":
        return draw.pick(("tensor-fusion.ai/disable-features", "p.example.com/label", "aliyun.com/gpu-count"))
    placed = ("p.example.com/label", "p.example.com/annotation")
    return draw.pick((*MARKS, *HINTS, *switches, *placed, KAI_MAPS, "app", "gpu-memory", "aliyun.com/gpu-count"))


def _containers(draw: Draw, sibling: Sibling) -> Sibling:
    """The containers in another order, one more, or one less."""
    containers = sibling.pod["spec"]["containers"]
    odd = draw.random()
    if odd < 0.3 and len(containers) > 1:
        containers.reverse()
    elif odd < 0.5 and len(containers) > 1:
        containers.pop()
    elif odd < 0.75:
        containers.insert(draw.pick((0, len(containers))), {"name": "more", "image": "i"})
    else:
        containers.append({**containers[0], "name": "more"})
    return sibling


def _init_containers(draw: Draw, sibling: Sibling) -> Sibling:
    """Without init containers, without the list of them, with one more, or with one of the containers as one."""
    spec = sibling.pod["spec"]
    found = spec.get("initContainers") or []
    odd = draw.random()
    if odd < 0.4:
        _put(spec, "initContainers", draw.pick((ABSENT, None, [])))
    elif odd < 0.7:
        spec["initContainers"] = [*found, {"name": "more", "image": "i"}]
    elif len(spec["containers"]) > 1:
        spec["initContainers"] = [*found, spec["containers"].pop()]
    else:
        spec["initContainers"] = [*found, {**spec["containers"][0], "name": "more"}]
    return sibling


def _name(draw: Draw, sibling: Sibling) -> Sibling:
    _container(draw, sibling)["name"] = draw.pick(("main", "c1", "c0", ""))
    return sibling


def _resources(draw: Draw, sibling: Sibling) -> Sibling:
    container = _container(draw, sibling)
    _put(container, "resources", draw.pick((ABSENT, None, {}, {"limits": {}, "requests": {}}, {"futureField": 1})))
    return sibling


def _side(side: str, draw: Draw, sibling: Sibling) -> Sibling:
    """One side of a container's resources with another number, without one, with one more, empty, or without it."""
    resources = _resources_of(draw, sibling)
    entries = dict(resources.get(side) or {})
    odd = draw.random()
    if odd < 0.2:
        _put(resources, side, draw.pick((ABSENT, None, {})))
        return sibling
    if entries and odd < 0.4:
        del entries[draw.pick(list(entries))]
    elif entries and odd < 0.8:
        name = draw.pick(list(entries))
        entries[name] = draw.pick((f"{entries[name]}0", "1", "2", "0", "x", 1, 1.5, 50))
    else:
        entries[draw.pick((*EXACT, "cpu", f"{DEVICE_CLASS}gpu.nvidia.com"))] = draw.pick(("1", "2", "0"))
    resources[side] = entries
    return sibling


def _claims(draw: Draw, sibling: Sibling) -> Sibling:
    _put(_resources_of(draw, sibling), "claims", draw.pick(CLAIMS))
    return sibling


def _resources_of(draw: Draw, sibling: Sibling) -> Json:
    container = _container(draw, sibling)
    resources: Json = container.get("resources") or {}
    container["resources"] = resources
    return resources


def _env(draw: Draw, sibling: Sibling) -> Sibling:
    """The variables of a container without one, with one more at either end, none, or without the list of them."""
    container = _container(draw, sibling)
    env = list(container.get("env") or [])
    odd = draw.random()
    if odd < 0.3:
        _put(container, "env", draw.pick((ABSENT, None, [])))
        return sibling
    if env and odd < 0.5:
        env.pop(draw.whole(0, len(env) - 1))
    else:
        name = draw.pick((*LOADER, *GUARDED, *GUARDED))
        value = draw.pick(PATHS) if name in LOADER else draw.pick(VALUES)
        entry = {"name": name, "value": value} if draw.chance(0.8) else {"name": name, "valueFrom": draw.pick(SOURCES)}
        env.insert(draw.pick((0, len(env))), entry)
    container["env"] = env
    return sibling


def _mounts(draw: Draw, sibling: Sibling) -> Sibling:
    _put(_container(draw, sibling), "volumeMounts", draw.pick((ABSENT, None, [], *([mount] for mount in MOUNTS))))
    return sibling


def _devices(draw: Draw, sibling: Sibling) -> Sibling:
    device = {"name": "v", "devicePath": draw.pick(("/dev/x", "/etc/ld.so.preload", "/usr/local/vgpu/libvgpu.so"))}
    _put(_container(draw, sibling), "volumeDevices", draw.pick((ABSENT, None, [], [device])))
    return sibling


def _security(draw: Draw, sibling: Sibling) -> Sibling:
    values: tuple[Any, ...] = (
        ABSENT,
        None,
        {},
        {"privileged": True},
        {"privileged": False},
        {"capabilities": {"add": ["SYS_MODULE"]}},
    )
    _put(_container(draw, sibling), "securityContext", draw.pick(values))
    return sibling


def _volumes(draw: Draw, sibling: Sibling) -> Sibling:
    by_kai = [{"name": "v", "configMap": {"name": "p-abcdefg-shared-gpu-0"}}]
    _put(sibling.pod["spec"], "volumes", draw.pick((ABSENT, *VOLUMES, by_kai)))
    return sibling


def _affinity(draw: Draw, sibling: Sibling) -> Sibling:
    value = draw.pick(AFFINITIES) if draw.chance(0.3) else card_by_affinity(draw)
    _put(sibling.pod["spec"], "affinity", value)
    return sibling


def _namespace_labels(draw: Draw, sibling: Sibling) -> Sibling:
    """The namespace with another level of Pod Security, another label of ours, or one less."""
    labels = dict(sibling.context.namespace.labels)
    odd = draw.random()
    if odd < 0.4:
        labels[LEVEL] = draw.pick(("privileged", "baseline", "restricted", "wrong"))
    elif labels and odd < 0.6:
        labels.pop(draw.pick(list(labels)))
    elif odd < 0.8:
        labels[f"{PREFIX}{draw.pick(('mode', 'rollout', 'opt-out', 'inject'))}"] = draw.pick(
            ("warn", "audit", "0", "50", "forbidden", "wrong")
        )
    else:
        labels[misspelled_key(draw)] = draw.pick(VALUES)
    return _with_namespace(sibling, labels=labels)


def _namespace_annotations(draw: Draw, sibling: Sibling) -> Sibling:
    """The namespace with another target, delivery, guard or default, a misspelled annotation, or one less."""
    annotations = dict(sibling.context.namespace.annotations)
    odd = draw.random()
    if annotations and odd < 0.2:
        annotations.pop(draw.pick(list(annotations)))
    elif odd < 0.4:
        annotations[f"{PREFIX}target"] = draw.pick((*VENDORS, "nobody"))
    elif odd < 0.55:
        annotations[f"{PREFIX}shim"] = draw.pick(("hostPath", "none", "csi"))
    elif odd < 0.7:
        annotations[f"{PREFIX}guard"] = draw.pick(("deny", "strip", "allow", "audit", "wrong"))
    elif odd < 0.9:
        dimension = draw.pick(tuple(DEFAULTS))
        annotations[f"{PREFIX}default-{dimension}"] = draw.pick(DEFAULTS[dimension])
    else:
        annotations[misspelled_key(draw)] = draw.pick(VALUES)
    return _with_namespace(sibling, annotations=annotations)


def _namespace_name(draw: Draw, sibling: Sibling) -> Sibling:
    return _with_namespace(sibling, name=draw.pick(("other", "kube-system")))


def _with_namespace(sibling: Sibling, **parts: Any) -> Sibling:
    old = sibling.context.namespace
    given = {"name": old.name, "labels": old.labels, "annotations": old.annotations, **parts}
    return sibling._replace(context=msgspec.structs.replace(sibling.context, namespace=Namespace(**given)))


def _pod_security_default(draw: Draw, sibling: Sibling) -> Sibling:
    level = draw.pick(("privileged", "baseline", "restricted"))
    return sibling._replace(context=msgspec.structs.replace(sibling.context, pod_security_default=level))


def _image_volumes(draw: Draw, sibling: Sibling) -> Sibling:
    served = draw.chance(0.5)
    return sibling._replace(context=msgspec.structs.replace(sibling.context, image_volumes=served))


def _user(draw: Draw, sibling: Sibling) -> Sibling:
    user = draw.pick(("", "alice", *USERS))
    return sibling._replace(context=msgspec.structs.replace(sibling.context, user=user))


USERS = ("system:serviceaccount:kube-system:hami-scheduler", "system:serviceaccount:hami:scheduler")
"""The schedulers of pods, one of which may write marks in a policy."""

INSTALLER: Json = {
    "name": "vgpu-shim",
    "image": "registry.example/shim",
    "command": ["/copy", "/usr/local/vgpu-shim"],
    "volumeMounts": [{"name": "vgpu-shim", "mountPath": "/usr/local/vgpu-shim"}],
}
"""As one of `SETUPS` has it."""

CHANGES: Mapping[str, Change] = {
    "metadata": _metadata,
    "metadata.name": partial(_in, "metadata", "name", (ABSENT, None, "", "q")),
    "metadata.generateName": partial(_in, "metadata", "generateName", (ABSENT, None, "q-")),
    "metadata.namespace": partial(_in, "metadata", "namespace", (ABSENT, None, "team", "other")),
    "metadata.labels": partial(_mapping, "metadata", "labels"),
    "metadata.annotations": partial(_mapping, "metadata", "annotations"),
    "metadata.ownerReferences": partial(_in, "metadata", "ownerReferences", OWNERS),
    "spec.containers": _containers,
    "spec.containers.name": _name,
    "spec.containers.resources": _resources,
    "spec.containers.resources.limits": partial(_side, "limits"),
    "spec.containers.resources.requests": partial(_side, "requests"),
    "spec.containers.resources.claims": _claims,
    "spec.containers.env": _env,
    "spec.containers.envFrom": partial(_in_container, "envFrom", ENV_FROM),
    "spec.containers.volumeMounts": _mounts,
    "spec.containers.volumeDevices": _devices,
    "spec.containers.securityContext": _security,
    "spec.containers.image": partial(_in_installer, "image", ("registry.example/shim", "mine", ABSENT)),
    "spec.containers.command": partial(
        _in_installer, "command", (["/copy", "/usr/local/vgpu-shim"], ["/mine"], [], ABSENT)
    ),
    "spec.containers.args": partial(_in_installer, "args", (ABSENT, [], ["/mine"])),
    "spec.containers.restartPolicy": partial(_in_installer, "restartPolicy", (ABSENT, "Always")),
    "spec.initContainers": _init_containers,
    "spec.volumes": _volumes,
    "spec.schedulerName": partial(_in, "spec", "schedulerName", (ABSENT, None, *SCHEDULERS)),
    "spec.runtimeClassName": partial(_in, "spec", "runtimeClassName", (ABSENT, None, "", "nvidia", "kata")),
    "spec.nodeName": partial(_in, "spec", "nodeName", (ABSENT, None, "", "node-1")),
    "spec.nodeSelector": partial(_mapping, "spec", "nodeSelector"),
    "spec.tolerations": partial(_in, "spec", "tolerations", (ABSENT, *TOLERATIONS)),
    "spec.affinity": _affinity,
    "spec.schedulingGates": partial(_in, "spec", "schedulingGates", GATES),
    "spec.hostPID": partial(_in, "spec", "hostPID", (ABSENT, None, True, False)),
    "spec.hostIPC": partial(_in, "spec", "hostIPC", (ABSENT, None, True, False)),
    "spec.shareProcessNamespace": partial(_in, "spec", "shareProcessNamespace", (ABSENT, None, True, False)),
    "spec.os": partial(_in, "spec", "os", (ABSENT, None, {"name": "linux"}, {"name": "windows"})),
    "spec.resourceClaims": partial(_in, "spec", "resourceClaims", POD_CLAIMS),
    "context.namespace.name": _namespace_name,
    "context.namespace.labels": _namespace_labels,
    "context.namespace.annotations": _namespace_annotations,
    "context.podSecurityDefault": _pod_security_default,
    "context.user": _user,
    "context.imageVolumes": _image_volumes,
}
"""A change for every field that is decoded of a pod, init containers as containers, and for what else decides."""
FIELDS = tuple(CHANGES)
