"""Ours and the mutating webhooks of other systems on one pod, in every order that an API server may call them in.

The pods are those of `tests/keys`: whatever is allowed without another webhook is allowed beside it, ours changes
nothing any more when it is called again, and what the other one wrote for its own pod is still there.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest

from tests.decided import CONTEXT
from tests.decisions.any_to_any import SOURCES, STANDBY, TARGET, VENDORS, policy_for
from tests.decisions.test_keys import CASES, pod_of
from tests.depth import few_or_all, one_in, partners
from tests.naming import each_of
from tests.strict_patch import apply_strictly
from webhook.admission import decide
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.pod import decode_pod
from webhook.reasons import Finding, Reason

from .hami import hami
from .pod import DeniedThereError, Json, StandIn, containers, with_defaults
from .stand_ins import nobody, stand_ins

OVERRIDES = ("oTo", "ToTo", "SoSo", "oSTo", "SToSTo")
"""`o` is ours, `S` the webhook of the pod's own system, `T` that of the target's: with `IfNeeded` a second round follows."""
CORES = "nvidia.com/gpucores"
"""HAMi's webhook writes 100 of it beside a count alone: a whole device, where ours alone would have filled in a size."""
HIDING = ("void", "none", "")
"""Values of `*_VISIBLE_DEVICES` that show a container none of its devices."""
PLAIN = {name for name, key in STANDBY.items() if key == "nvidia.com/gpu"}
"""Vendors of the plain device plugin: HAMi's webhook would take their pods for its own."""
ELSEWHERE = {"nvidia.com/vgpu-core", "nvidia.com/vgpu", "nvidia.com/gpualloc", "enpu"}
"""Names and modes that the system whose webhook stands in does not know: those of other versions, or of another configuration.

Pods with them are only beside the webhooks of other systems: that of their own would be configured for the name.
"""
PAIRED = "910C"
"""The chip that the stand-in for HAMi always pairs; cases without `superPod` say so in the document."""
MAX_ELSEWHERE = 12
"""How many pods of a vendor in `tests/keys` have such names, at most: twelve of ascend, five of nvidia, one of another."""
MIN_ALLOWED = {"mps": 2, "timeslicing": 3}
"""Of a hundred pods, each for each target, so many are allowed alone, at least: the others are denied whatever is beside.

Of other vendors 10: these two have shares without amounts, which few others can express.
"""


class Outcome(NamedTuple):
    """How our webhook has a pod stored, why it is denied, the codes of its warnings, whether anything is requested."""

    stored: str
    denial: Finding | None
    codes: frozenset[str]
    requests: bool


class Ours:
    """Our webhook under one policy; what it made of a pod is remembered, for orders begin alike."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._seen: dict[str, Outcome] = {}

    def __call__(self, text: str) -> Outcome:
        if text not in self._seen:
            decision = decide(decode_pod(text.encode()), CONTEXT, self.policy)
            stored = json.dumps(apply_strictly(json.loads(text), decision.patch)) if decision.patch else text
            codes = frozenset(finding.reason.code for finding in decision.warnings)
            self._seen[text] = Outcome(stored, decision.denial, codes, bool(decision.status.get("containers")))
        return self._seen[text]

    def webhooks(self, vendor: str) -> dict[str, StandIn]:
        """The stand-ins of a vendor's system; annotations of NvFractions are read in that mode only."""
        found = stand_ins(self.policy.vendors[vendor].place.scheduler)
        return {name: stand_in for name, stand_in in found.items() if vendor != "nvfractions" or "NvFractions" in name}


def excepting(policy: Policy) -> Policy:
    """The policy with what an administrator sets here who chose `gpuCorePolicy: disable` there; `check` says so."""
    settings = policy.settings.model_copy(update={"guard_exceptions": {"GPU_CORE_UTILIZATION_POLICY": ["disable"]}})
    return replace(policy, settings=settings)


def native_pods(vendor: str) -> Iterator[tuple[Json, Ours, dict[str, StandIn]]]:
    """The pods of the vendor's own examples, each with ours as the cluster configures it, and its system's webhook."""
    plain = Ours(excepting(policy_for(vendor)))
    for case in CASES[vendor]:
        changes = json.dumps({"extends": vendor, **case["with"]}) if "with" in case else ""
        ours = Ours(excepting(policy_for(vendor, changes))) if changes else plain
        said = {*case.get("limits", {}), *case.get("annotations", {}).values()}
        known = ELSEWHERE.isdisjoint(said) and PAIRED not in changes
        yield pod_of(case), ours, ours.webhooks(vendor) if known else {}


def set_apart(pod: Json) -> Json:
    """The pod with the label that excludes it from HAMi's webhook."""
    metadata = {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "hami.io/webhook": "ignore"}}
    return {**pod, "metadata": metadata}


def ordered(pod: Json, target: str | None, scheduler: str | None = None) -> str:
    """The pod on order for a target, for a scheduler."""
    annotations = {**pod["metadata"]["annotations"], **({} if target is None else {TARGET: target})}
    spec = {**pod["spec"], **({} if scheduler is None else {"schedulerName": scheduler})}
    return json.dumps({"metadata": {**pod["metadata"], "annotations": annotations}, "spec": spec})


def lost(before: Json, after: Json) -> list[Any]:
    """What a pod had and has no longer: annotations, variables, volumes."""
    carried = after["metadata"].get("annotations", {})
    missing: list[Any] = [
        key for key, text in before["metadata"].get("annotations", {}).items() if carried.get(key) != text
    ]
    missing += [
        volume for volume in before["spec"].get("volumes", ()) if volume not in after["spec"].get("volumes", ())
    ]
    for was, now in zip(containers(before), containers(after), strict=False):
        missing += [variable for variable in was.get("env", ()) if variable not in now.get("env", ())]
    return missing


def whole_by_hami(sent: str, seen: str) -> bool:
    """Whether HAMi's webhook has made a whole device of a count alone: the only thing that it says otherwise than ours."""
    pairs = zip(containers(json.loads(sent)), containers(json.loads(seen)), strict=True)
    return any(
        CORES not in was["resources"].get("limits", {}) and now["resources"].get("limits", {}).get(CORES) == "100"
        for was, now in pairs
    )


def hidden(text: str, vendor: Vendor) -> bool:
    """Whether a variable that the kubelet puts after the device plugin's shows a container none of its devices."""
    name = "ASCEND_VISIBLE_DEVICES" if vendor.family == "ascend" else "NVIDIA_VISIBLE_DEVICES"
    if vendor.family not in {"ascend", "nvidia"}:
        return False
    last = [
        [
            variable.get("value", "")
            for variable in container.get("env", ())
            if variable["name"] == name and "valueFrom" not in variable
        ]
        for container in containers(json.loads(text))
    ]
    return any(values and values[-1] in HIDING for values in last)


@dataclass(frozen=True, slots=True)
class Beside:
    """A pod between ours and others.

    Attributes:
        ours: our webhook.
        source: the vendor in whose keys the pod requests.
        target: the one that it is ordered for; None: it stays with its own system, so that all that is written for it stays.
        webhooks: the others, by the letter of an order.
    """

    ours: Ours
    source: str
    target: str | None
    webhooks: Mapping[str, StandIn]

    @property
    def home(self) -> bool:
        return self.target is None

    @property
    def vendor(self) -> Vendor:
        return self.ours.policy.vendors[self.target or self.source]

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
            stored, denied, codes, requests = self.ours(text)
            calls += 1
            if denied is not None:
                # The user's own pod with what HAMi writes is a whole device, too, and denied as well: nobody may be
                # given less.
                right = calls == 1 and denied.reason is Reason.NO_EQUIVALENT and whole_by_hami(sent, text)
                return None if right and not self.home else f"call {calls} denies, {denied.text}: {text}"
            if calls > 1 and stored != text:
                return f"call {calls} changes it: {text} to {stored}"
            if self.home and (missing := lost(json.loads(text), json.loads(stored))):
                return f"lost: {missing}: {text}"
            if requests and hidden(text, self.vendor) and Reason.DEVICES_HIDDEN.code not in codes:
                return f"call {calls} does not report that nothing is seen: {text}"
            if not self.home and calls == 1 and hidden(stored, self.vendor) and stored != text:
                return f"what is translated sees nothing: {stored}"
            if not self.home and self.vendor.place.scheduler != "kai-scheduler" and "-shared-gpu" in stored:
                return f"what KAI alone makes is left: {stored}"
            text = stored
        return None


def targets_of(source: str, ours: Ours, at_home: Mapping[str, StandIn], most: int) -> Iterator[str | None]:
    """Nobody, and so many targets as far as a webhook is called with them."""
    yield None
    for target in partners(source, VENDORS, most):
        if at_home or ours.webhooks(target):
            yield target


def same_system(policy: Policy, one: str, other: str) -> bool:
    """Whether two vendors are served by the same scheduler, and so by the same webhook."""
    return policy.vendors[one].place.scheduler == policy.vendors[other].place.scheduler


def faults(source: str, most: int, tally: Counter[str]) -> Iterator[tuple[str, str]]:
    """Every native pod of a vendor, every target, each way in which the other webhook may be configured, every order.

    Counts what is tried, and what is left out and why.
    """
    for pod, ours, at_home in native_pods(source):
        elsewhere = bool(ours.webhooks(source)) and not at_home
        tally["pods that their own system's webhook does not know"] += elsewhere
        for target in targets_of(source, ours, at_home, most):
            if elsewhere and target is not None and same_system(ours.policy, source, target):
                tally["targets of that system"] += 1
                continue
            away = at_home if target is None else ours.webhooks(target)
            sent = set_apart(pod) if {source, target} & PLAIN else pod
            denied = ours(ordered(sent, target)).denial is not None
            tally["denied alone" if denied else "allowed alone"] += 1
            if denied:
                continue
            for first, second in pairs(at_home, away):
                webhooks = {"S": at_home.get(first, nobody), "T": away.get(second, nobody)}
                beside = Beside(ours, source, target, webhooks)
                for order in OVERRIDES:
                    tally["orders"] += 1
                    scheduler = ours.policy.vendors[source].place.scheduler if order[0] != "o" else None
                    if fault := beside.fault(ordered(sent, target, scheduler), order):
                        yield f"{source} to {target}: {order}, S {first!r}, T {second!r}", fault


@few_or_all
@pytest.mark.parametrize("source", one_in(2, SOURCES))
def test_every_order(source: str, most: int) -> None:
    """No denial, no second change, nothing lost; and what is left out is said, and little."""
    tally = Counter[str]()
    found = dict(faults(source, most, tally))
    sys.stdout.write(f"{source}: {', '.join(f'{number} {what}' for what, number in tally.items())}\n")
    assert tally["pods that their own system's webhook does not know"] <= MAX_ELSEWHERE
    assert 100 * tally["allowed alone"] >= MIN_ALLOWED.get(source, 10) * (
        tally["allowed alone"] + tally["denied alone"]
    )
    assert tally["orders"] >= len(OVERRIDES) * tally["allowed alone"] > 0
    assert not found, f"{len(found)}: {json.dumps(found, indent=1)[:6000]}"


@each_of("target", VENDORS)
def test_whole_card_by_hami(target: str) -> None:
    """What HAMi's webhook makes of a count alone is denied where the user's own pod that says the same is denied."""
    ours = Ours(policy_for("nvidia"))
    plain = pod_of({"limits": {"nvidia.com/gpu": 1}})
    by_user = pod_of({"limits": {"nvidia.com/gpu": 1, CORES: 100}})
    seen = with_defaults(hami(plain))
    denials = [ours(ordered(pod, None if target == "nvidia" else target)).denial for pod in (seen, by_user)]
    assert denials[0] == denials[1]


def pairs(at_home: dict[str, StandIn], away: dict[str, StandIn]) -> Iterator[tuple[str, str]]:
    """Each configuration of either system, beside the other's first; one system has the same in both places."""
    first = [next(iter(each), "") for each in (at_home, away)]
    if common := [(name, name) for name in at_home if name in away]:
        yield from common
        return
    yield from ((name, first[1]) for name in at_home or [""])
    yield from ((first[0], name) for name in list(away)[1:])
