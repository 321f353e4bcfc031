"""The search over siblings: it covers every field that is decoded, and finds each fact that the memory could forget."""

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import pytest

from tests.depth import one_in
from tests.fuzz.draw import Draw
from tests.fuzz.forgetting import FACTS, WAYS, forgotten
from tests.fuzz.generate import case_of
from tests.fuzz.remembered import borrowed, pair, sibling_findings
from tests.fuzz.siblings import FIELDS
from tests.fuzz.trial import RaisedError, Trial, encode
from webhook.admission import Context, Namespace, decide, engine
from webhook.admission.decision import Facts, facts_of
from webhook.mapping.model.policy import Policy
from webhook.pod import Container, Pod, decode_pod

SEED = 23
LOOKED_AT = 500
"""Pods that are generated; of those of which something is remembered, siblings are drawn."""
ROUNDS = 6
"""Pairs of siblings of each pod."""
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
COARSER = "a missing one is remembered apart from an empty one, and both are decided alike"
ASIDE = "asked beside the memory, for every pod"
NEVER = "no decision reads it"
NO_LOSS: Mapping[tuple[str, str], str] = {
    ("metadata.name", "value"): ASIDE,  # the roll-out
    ("metadata.generateName", "value"): ASIDE,
    ("metadata.ownerReferences", "content"): ASIDE,
    ("metadata.ownerReferences", "absence"): ASIDE,
    ("metadata.namespace", "value"): NEVER,  # the review's counts
    ("context.namespace.name", "value"): ASIDE,
    ("context.namespace.annotations", "others"): NEVER,
    ("spec.os", "value"): ASIDE,
    ("spec.containers.envFrom", "absence"): COARSER,
    ("spec.containers.volumeDevices", "absence"): COARSER,
    ("spec.containers.resources.claims", "absence"): COARSER,
    ("spec.containers.securityContext", "absence"): COARSER,
    ("spec.containers.command", "absence"): COARSER,
    ("spec.containers.args", "absence"): COARSER,
    ("spec.initContainers", "absence"): COARSER,
    ("spec.resourceClaims", "absence"): COARSER,
    ("spec.affinity", "absence"): COARSER,
    ("spec.schedulingGates", "absence"): COARSER,
}
"""What may be forgotten, and why no decision is borrowed for it."""


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


def first_loss(field: str, way: str) -> tuple[str | None, bool]:
    """What is wrong when a fact is forgotten, or None; and whether it is a fact at all.

    Only pairs that then have the same facts are decided on: nothing else can be borrowed.
    """
    draw, fact = Draw(len(field)), False

    def forgetful(pod: Pod, context: Context, policy: Policy) -> Facts | None:
        facts, fewer = facts_of(pod, context, policy), facts_of(*forgotten(pod, context, field, way), policy)
        return facts and msgspec.structs.replace(facts, key=None if fewer is None else fewer.key)

    def key(facts: Facts | None) -> bytes | None:
        return None if facts is None else facts.key

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "facts_of", forgetful)
        for trial in trials(SETUPS_OF.get(field)) * (1 if (field, way) in NO_LOSS else ROUNDS):
            two = pair(trial, draw, field)
            try:
                known = [(decode_pod(encode(each.pod)), each.context) for each in two]
            except msgspec.DecodeError:
                continue
            kept = [key(facts_of(pod, context, trial.policy)) for pod, context in known]
            left = [key(forgetful(pod, context, trial.policy)) for pod, context in known]
            fact = fact or kept != left
            if left[0] is None or left[0] != left[1] or kept[0] == kept[1]:
                continue
            try:
                found = next(borrowed(*two, trial.policy, field), None)
            except RaisedError as error:
                return str(error), fact
            if found is not None:
                return found.detail, fact
    return None, fact


@pytest.mark.parametrize("fact", one_in(6, FACTS), ids="-".join)
def test_forgotten_fact_is_found(fact: tuple[str, str]) -> None:
    """Whatever is taken out of what is remembered of a pod, a sibling shows it, or it is said why it need not."""
    loss, counts = first_loss(*fact)
    assert (loss is None) == (fact in NO_LOSS), loss
    if NO_LOSS.get(fact) in {ASIDE, NEVER}:
        assert not counts


@pytest.mark.parametrize("field", FIELDS)
def test_siblings_are_decided_alike_after_one_another(field: str) -> None:
    """The property itself, for each field, by a few pods."""
    draw = Draw(1)
    found = [each for trial in trials(SETUPS_OF.get(field))[:12] for each in sibling_findings(trial, draw, field)]
    assert not found


def test_every_field_that_is_decoded_has_siblings() -> None:
    """A field that is added to the view of a pod, or to the circumstances of its review, is drawn and forgotten, too."""
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
    assert WAYS.keys() == {*FIELDS}
    assert {*NO_LOSS} <= {*FACTS}


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
