"""Ours and the mutating webhooks of other systems on one pod, in every order that an API server may call them in.

The pods are those of `tests/keys`: whatever is allowed without another webhook is allowed beside it, ours changes
nothing any more when it is called again, and what the other one wrote for its own pod is still there.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml

from tests.depth import few_or_all, partners
from tests.strict_patch import apply_strictly
from tests.test_any_to_any import CONTEXT, STANDBY, TARGET, VENDORS, policy_for
from tests.test_keys import WORDS, pod_of
from webhook.admission import decide
from webhook.finding import Finding
from webhook.mapping.model.memo import Memo
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.reasons import Reason

from .pod import DeniedThereError, Json, StandIn, containers, with_defaults
from .stand_ins import nobody, stand_ins

OVERRIDES = ("oTo", "ToTo", "SoSo", "oSTo", "SToSTo")
"""`o` is ours, `S` the webhook of the pod's own system, `T` that of the target's: with `IfNeeded` a second round follows."""
NOT_THERE = {Reason.NO_EQUIVALENT, Reason.READ_BACK_DIFFERS, Reason.GUARDED, Reason.TWINS_DIFFER}
"""Why a pod is not translated that its own system's webhook saw first: it asks for something else now, such as a whole device,
or is bound to its own scheduler, such as by variables from a ConfigMap that only that one makes.
"""
PLAIN = {name for name, key in STANDBY.items() if key == "nvidia.com/gpu"}
"""Vendors of the plain device plugin: HAMi's webhook would take their pods for its own."""
ELSEWHERE = {"nvidia.com/vgpu-core", "nvidia.com/vgpu", "nvidia.com/gpualloc"}
"""Names that the system whose webhook stands in does not know: those of its first versions, or of another configuration."""
DENIED_THERE = "denied there: gpu-memory.limit annotation conflicts"
"""A limit above the request is a hint here: from `kai` to `nvfractions`, which nobody needs, KAI itself says what is wrong."""


class Ours:
    """Our webhook under one policy; what it made of a pod is remembered, for orders begin alike."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._seen: dict[str, tuple[str, Finding | None]] = {}

    def __call__(self, text: str) -> tuple[str, Finding | None]:
        """A pod afterwards, and why it is denied."""
        if text not in self._seen:
            decision = decide(decode_pod(text.encode()), CONTEXT, self.policy)
            stored = json.dumps(apply_strictly(json.loads(text), decision.patch)) if decision.patch else text
            self._seen[text] = stored, decision.denial
        return self._seen[text]

    def webhooks(self, vendor: str) -> dict[str, StandIn]:
        """The stand-ins of a vendor's system; annotations of NvFractions are read in that mode only."""
        found = stand_ins(self.policy.vendors[vendor].place.scheduler)
        return {name: one for name, one in found.items() if vendor != "nvfractions" or "NvFractions" in name}


def excepting(policy: Policy) -> Policy:
    """The policy with what an administrator sets here who chose `gpuCorePolicy: disable` there; `check` says so."""
    settings = policy.settings.model_copy(update={"guard_exceptions": {"GPU_CORE_UTILIZATION_POLICY": ["disable"]}})
    return replace(policy, settings=settings, memo=Memo())


def native_pods(vendor: str) -> Iterator[tuple[Json, Ours]]:
    """The pods of the vendor's own examples, each with ours as the cluster configures it."""
    plain = Ours(excepting(policy_for(vendor)))
    for case in yaml.safe_load((WORDS / f"{vendor}.yaml").read_text()):
        changes = json.dumps({"extends": vendor, **case["with"]}) if "with" in case else ""
        if ELSEWHERE.isdisjoint(case.get("limits", {})):
            yield pod_of(case), Ours(excepting(policy_for(vendor, changes))) if changes else plain


def set_apart(pod: Json) -> Json:
    """The pod with the label that keeps HAMi's webhook from it: where nvidia.com/gpu is another's, it is told so."""
    metadata = {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "hami.io/webhook": "ignore"}}
    return {**pod, "metadata": metadata}


def ordered(pod: Json, target: str | None, scheduler: str | None = None) -> str:
    """The pod on order for a target, for a scheduler."""
    annotations = {**pod["metadata"]["annotations"], **({} if target is None else {TARGET: target})}
    spec = {**pod["spec"], **({} if scheduler is None else {"schedulerName": scheduler})}
    return json.dumps({"metadata": {**pod["metadata"], "annotations": annotations}, "spec": spec})


def lost(before: Json, after: Json) -> list[Any]:
    """What a pod had and has no longer: annotations, variables, volumes."""
    kept = after["metadata"].get("annotations", {})
    missing: list[Any] = [
        key for key, text in before["metadata"].get("annotations", {}).items() if kept.get(key) != text
    ]
    missing += [one for one in before["spec"].get("volumes", ()) if one not in after["spec"].get("volumes", ())]
    for was, now in zip(containers(before), containers(after), strict=False):
        missing += [one for one in was.get("env", ()) if one not in now.get("env", ())]
    return missing


@dataclass(frozen=True, slots=True)
class Beside:
    """A pod between ours and others.

    Attributes:
        ours: our webhook.
        home: whether the pod stays with its own system, so that all that is written for it has to stay.
        webhooks: the others, by the letter of an order.
    """

    ours: Ours
    home: bool
    webhooks: Mapping[str, StandIn]

    def fault(self, sent: str, order: str) -> str | None:
        """What is wrong where they are called in an order, on a pod that ours allows; None if all is well."""
        text, calls = sent, 0
        for name in order:
            if name != "o":
                try:
                    text = json.dumps(with_defaults(self.webhooks[name](json.loads(text))))
                except DeniedThereError as denial:
                    return f"denied there: {denial}: {text}" if name == "T" and calls and not self.home else None
                continue
            stored, denied = self.ours(text)
            calls += 1
            if denied is not None:
                other = calls == 1 and order[0] != "o" and denied.reason in NOT_THERE and not self.home
                return None if other else f"call {calls} denies, {denied.text}: {text}"
            if calls > 1 and stored != text:
                return f"call {calls} changes it: {text} to {stored}"
            if self.home and (missing := lost(json.loads(text), json.loads(stored))):
                return f"lost: {missing}: {text}"
            text = stored
        return None


def targets_of(source: str, ours: Ours, most: int) -> Iterator[str | None]:
    """Nobody, and so many targets as far as a webhook is called with them."""
    yield None
    for target in partners(source, VENDORS, most):
        if ours.webhooks(source) or ours.webhooks(target):
            yield target


def faults(source: str, most: int) -> Iterator[tuple[str, str]]:
    """Every native pod of a vendor, every target, each way in which the other webhook may be configured, every order."""
    for pod, ours in native_pods(source):
        at_home = ours.webhooks(source)
        for target in targets_of(source, ours, most):
            there = at_home if target is None else ours.webhooks(target)
            sent = set_apart(pod) if {source, target} & PLAIN else pod
            if ours(ordered(sent, target))[1] is not None:
                continue
            for first, second in pairs(at_home, there):
                webhooks = {"S": at_home.get(first, nobody), "T": there.get(second, nobody)}
                beside = Beside(ours, target is None, webhooks)
                for order in OVERRIDES:
                    scheduler = ours.policy.vendors[source].place.scheduler if order[0] != "o" else None
                    if fault := beside.fault(ordered(sent, target, scheduler), order):
                        yield f"{source} to {target}: {order}, S {first!r}, T {second!r}", fault


@few_or_all
@pytest.mark.parametrize("source", VENDORS)
def test_every_order(source: str, most: int) -> None:
    """No denial, no second change, nothing lost."""
    found = dict(faults(source, most))
    unexpected = {case: fault for case, fault in found.items() if not fault.startswith(DENIED_THERE)}
    assert not unexpected, f"{len(unexpected)}: {json.dumps(unexpected, indent=1)[:6000]}"


def pairs(at_home: dict[str, StandIn], there: dict[str, StandIn]) -> Iterator[tuple[str, str]]:
    """Each configuration of either system, beside the other's first; one system has the same in both places."""
    first = [next(iter(one), "") for one in (at_home, there)]
    if common := [(name, name) for name in at_home if name in there]:
        yield from common
        return
    yield from ((name, first[1]) for name in at_home or [""])
    yield from ((first[0], name) for name in list(there)[1:])
