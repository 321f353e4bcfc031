"""Siblings of a pod: the same template and circumstances with one field changed, to what another generated pod has there.

What is remembered of a pod must not be taken for its sibling wherever the change matters. Every field that is decoded of the
pod, init containers as containers, and every circumstance of its review is one of `FIELDS`.
"""

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import msgspec

from tests.fuzz.draw import Draw
from tests.fuzz.generate import Case, case_of
from tests.fuzz.trial import NAMESPACE, Json, Trial, all_containers, context_of, decode, encode
from webhook.admission import Context, Namespace
from webhook.pod import Container, Pod

SEED = 23
POOL = 400
"""Pods from which values are taken, ..."""
STORED = 100
"""... and so many of them also as they are stored: pods are copied from those that run."""

OTHERS: Mapping[str, tuple[Any, ...]] = {
    "metadata": ({},),
    "metadata.namespace": ("team", "other"),
    "spec.containers.args": ([], ["/mine"]),
    "spec.containers.command": (["/mine"],),
    "spec.containers.image": ("mine",),
    "spec.containers.restartPolicy": ("Always", "Never"),
    "spec.containers.terminationMessagePath": ("/usr/local/vgpu-shim/libvgpu.so", "/etc/ld.so.preload"),
    "spec.hostIPC": (True, False),
    "spec.os": ({"name": "linux"}, {"name": "windows"}),
    "spec.shareProcessNamespace": (True, False),
    "context.user": ("alice", "system:serviceaccount:hami:scheduler"),
    "context.image_volumes": (True, False),
    "context.pod_security_default": ("privileged", "baseline", "restricted"),
    "context.namespace.name": ("other", "kube-system"),
}
"""What hardly any generated pod has."""
WHOLE = ("spec.os", "metadata.ownerReferences", "spec.resourceClaims")
"""Objects and lists that are changed as a whole."""


class Sibling(NamedTuple):
    """A pod as JSON, with the circumstances of its review, likewise."""

    pod: Json
    context: Json

    def arguments(self) -> tuple[bytes, Context]:
        """What it is decided by, beside the policy."""
        context = {**self.context, "namespace": Namespace(**self.context["namespace"])}
        return encode(self.pod), Context(**context)


def sibling_of(case: Case) -> Sibling:
    """The pod of a case."""
    context = msgspec.structs.asdict(context_of(case))
    namespace = {"name": NAMESPACE, "labels": case.labels, "annotations": case.annotations}
    return Sibling(case.pod, {**context, "namespace": namespace})


def _decoded(struct: Any, path: str) -> Iterator[str]:
    """The fields of a decoded object by their names on the wire, containers by theirs, other lists as a whole."""
    for field in msgspec.structs.fields(struct):
        here = f"{path}.{field.encode_name}".lstrip(".")
        yield here
        inner = next((each for each in (field.type, *typing.get_args(field.type)) if _is_struct(each)), None)
        if here == "spec.containers":
            inner = Container
        elif here in {*WHOLE, "spec.initContainers"} or here.endswith((".claims", ".securityContext")):
            inner = None
        if inner is not None:
            yield from _decoded(inner, here)


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)


FIELDS = (
    *(name for name in _decoded(Pod, "") if name != "spec"),
    *(f"context.namespace.{field.name}" for field in dataclasses.fields(Namespace)),
    *(f"context.{field.name}" for field in msgspec.structs.fields(Context) if field.name != "namespace"),
)


def _holders(sibling: Sibling, field: str) -> list[Json]:
    """The objects that may have a field: one, or several of the containers."""
    place = field.rpartition(".")[0]
    if place.startswith("context"):
        return [sibling.context if place == "context" else sibling.context["namespace"]]
    if not place.startswith("spec.containers"):
        return [sibling.pod.get(place) or {} if place else sibling.pod]
    containers = all_containers(sibling.pod)
    if place == "spec.containers":
        return containers
    return [container["resources"] for container in containers if container.get("resources")]


@cache
def _pool() -> list[Sibling]:
    cases = [case_of(SEED, number) for number in range(POOL)]
    found = list(map(sibling_of, cases))
    for case in cases[:STORED]:
        with suppress(msgspec.DecodeError):
            found.append(sibling_of(replace(case, pod=Trial(case).stored)))
    return found


@cache
def _values(field: str) -> list[Any]:
    """What the pods of the pool have there, as often as they have it."""
    name = field.rpartition(".")[2]
    return [each[name] for sibling in _pool() for each in _holders(sibling, field) if name in each]


def has(sibling: Sibling, field: str) -> bool:
    """Whether it has a field."""
    return any(field.rpartition(".")[2] in each for each in _holders(sibling, field))


def marked(sibling: Sibling) -> Sibling:
    """With a scheduler's mark, as copied from a pod that runs: some users may write it."""
    metadata = sibling.pod["metadata"]
    annotations = {**(metadata.get("annotations") or {}), "hami.io/vgpu-node": "n"}
    return sibling._replace(pod={**sibling.pod, "metadata": {**metadata, "annotations": annotations}})


def changed(draw: Draw, field: str, sibling: Sibling) -> Sibling:
    """A sibling with one change to a field: without it, or with another value; of a map also one entry less, or another."""
    made = Sibling(decode(encode(sibling.pod)), decode(encode(sibling.context)))
    place, _, name = field.rpartition(".")
    if place == "spec.containers.resources":
        container = draw.pick(all_containers(made.pod))
        container["resources"] = holder = container.get("resources") or {}
    else:
        holder = draw.pick(_holders(made, field))
    values, others = _values(field), OTHERS.get(field, ())
    value = draw.pick(others if others and (not values or draw.chance(0.5)) else values)
    own, odd = holder.get(name), draw.random()
    if own and isinstance(own, dict) and odd < 0.2:
        del own[draw.pick(list(own))]
    elif own and isinstance(own, dict) and isinstance(value, dict) and value and odd < 0.5:
        key = draw.pick(list(value))
        own[draw.pick((key, draw.pick(list(own))))] = value[key]
    elif odd < 0.75 or field.startswith("context"):
        holder[name] = value
    else:
        holder.pop(name, None)
    return made
