"""The search over siblings covers every field that is decoded; what is remembered of one pod is never taken for another."""

import dataclasses
import typing
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import pytest

from tests.fuzz.draw import Draw
from tests.fuzz.generate import case_of
from tests.fuzz.remembered import sibling_findings
from tests.fuzz.siblings import FIELDS
from tests.fuzz.trial import Trial
from webhook.admission import Context, Namespace, decide
from webhook.pod import Container, Pod, decode_pod

SEED = 23
LOOKED_AT = 500
"""Pods that are generated; of those of which something is remembered, siblings are drawn."""
SETUPS_OF = {
    "spec.tolerations": 16,
    "spec.nodeSelector": 16,
    "spec.affinity": 14,
    "context.user": 16,
    "spec.runtimeClassName": 16,
    "spec.containers.image": 22,
    "spec.containers.command": 22,
    "spec.containers.args": 22,
    "spec.containers.restartPolicy": 22,
    "context.imageVolumes": 21,
}
"""Where a field matters by what is configured; elsewhere a mapping without it is as good."""


@cache
def trials(setup: int | None) -> list[Trial]:
    """Trials of pods whose decision is remembered, by one of `SETUPS`, or by that which was drawn."""
    found = []
    for number in range(LOOKED_AT):
        case = case_of(SEED, number)
        try:
            trial = Trial(case if setup is None else replace(case, setup=setup))
            decide(decode_pod(trial.raw), trial.context, trial.policy)
        except msgspec.DecodeError:
            continue
        if len(trial.policy.memo):
            found.append(trial)
        trial.policy.forget()
    return found


@pytest.mark.parametrize("field", FIELDS)
def test_siblings_are_decided_alike_after_one_another(field: str) -> None:
    """The property itself, for each field, by a few pods."""
    draw = Draw(1)
    found = [each for trial in trials(SETUPS_OF.get(field))[:12] for each in sibling_findings(trial, draw, field)]
    assert not found


def test_every_field_that_is_decoded_has_siblings() -> None:
    """A field that is added to the view of a pod, or to the circumstances of its review, is drawn, too."""
    decoded = {
        name
        for name in decoded_fields(Pod, "")
        if name != "spec" and not name.startswith("spec.containers.securityContext.")
    }
    of_context = {f"context.{field.name}" for field in msgspec.structs.fields(Context)} - {"context.namespace"}
    of_namespace = {f"context.namespace.{field.name}" for field in dataclasses.fields(Namespace)}
    snake = {
        name: name.replace("podSecurityDefault", "pod_security_default").replace("imageVolumes", "image_volumes")
        for name in FIELDS
    }
    assert {*snake.values()} == decoded | of_context | of_namespace


def decoded_fields(struct: Any, path: str) -> Iterator[str]:
    """The fields of a decoded object by their names on the wire, containers by theirs, other lists as a whole."""
    for field in msgspec.structs.fields(struct):
        here = f"{path}.{field.encode_name}".lstrip(".")
        yield here
        inner = next((each for each in (field.type, *typing.get_args(field.type)) if _is_struct(each)), None)
        if here == "spec.containers":
            inner = Container
        elif here in {"spec.os", "metadata.ownerReferences", "spec.resourceClaims"} or here.endswith(".claims"):
            inner = None
        if inner is not None and here != "spec.initContainers":
            yield from decoded_fields(inner, here)


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)
