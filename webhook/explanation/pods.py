"""What `decide` does to a pod, told in every detail: the same steps over the same inputs once more, with their inner results.

A pure function, and no part of any review: what it costs is paid by whoever asks for an explanation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from webhook.admission.collect import ContainerRequest, collect
from webhook.admission.context import Context
from webhook.admission.decision import Decision
from webhook.admission.eligibility import enforcement_of, skip_reason
from webhook.admission.engine import apply_plan, decide, make_plan
from webhook.admission.left_alone import Left
from webhook.admission.overrides import (
    Overrides,
    defaults_for,
    namespace_defaults,
    override_source,
    overrides_of,
    target_of,
)
from webhook.admission.plan import Plan
from webhook.admission.resolve import resolve
from webhook.admission.settle import Settled, settle
from webhook.admission.survey import ContainerKeys, Survey, survey
from webhook.explanation.correction import correction
from webhook.explanation.edits import placed, shim_shown
from webhook.explanation.keys import meaning, rounded, share_of, word_shown, written
from webhook.explanation.model import (
    ContainerExplained,
    DenialExplained,
    FindingExplained,
    PodExplained,
    ShownKey,
)
from webhook.explanation.worth import worth
from webhook.finding import Denied, Finding
from webhook.labels import MODE, ROLLOUT, TARGET
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.result import Reading
from webhook.pod import Pod
from webhook.quantity import QuantityError, parse_quantity
from webhook.reasons import Reason

_LOST: Final = {
    Reason.WORD_NOT_CARRIED,
    Reason.HINT_NOT_CARRIED,
    Reason.DIMENSION_DROPPED,
    Reason.ONE_CARD_LOST,
    Reason.OWNED_STRIPPED,
    Reason.GUARD_STRIPPED,
    Reason.WORD_IGNORED,
}
_SHOWN: Final = {Reason.DEFAULT_FILLED, Reason.ROUNDED, Reason.ROUNDED_DOWN, Reason.CORRECTED, Reason.LIMIT_ADDED}
"""What meaning and roundings of a container say already."""

POD_TARGET: Final = f"the pod's annotation {TARGET}"
"""What to call the pod's order of a target."""

_BY: Final[Mapping[str, str]] = {
    "namespace": f"the namespace's annotation {TARGET}",
    "settings": "the setting `target`",
    "itself": "nobody says otherwise",
}


def explain(pod: Pod, context: Context, policy: Policy, ordered: str = POD_TARGET) -> PodExplained:
    """What becomes of a pod that is being created, and why.

    Args:
        pod: as for `decide`.
        context: as for `decide`.
        policy: as for `decide`.
        ordered: what to call the pod's order of a target, where the manifest has none (an option, say).
    """
    decision = decide(pod, context, policy)
    firm = enforcement_of(pod, context)
    rollout = context.namespace.labels.get(ROLLOUT)
    explained = PodExplained(
        namespace=context.namespace.name,
        mode=firm.mode.value if rollout is None else f"{firm.mode.value}, rollout {rollout} %",
        code=decision.reason.code,
        outcome=decision.reason.value.title,
        meaning=decision.reason.value.meaning,
        allowed=decision.allowed,
        policy=policy.digest,
    )
    if skip_reason(pod, context, policy) is not None:
        return explained
    # In `warn` and `audit` nothing is written; what would be is what there is to explain.
    labels = {key: value for key, value in context.namespace.labels.items() if key not in {MODE, ROLLOUT}}
    enforced = replace(context, namespace=replace(context.namespace, labels=labels))
    would = decide(pod, enforced, policy)
    work, containers = _containers(pod, enforced, policy, ordered)
    return replace(
        explained,
        containers=containers,
        placed=placed(work) if work is not None else (),
        findings=tuple(_finding(finding) for finding in dict.fromkeys((*firm.findings, *would.warnings))),
        denial=_denial(pod, enforced, policy, would, decision),
    )


def _denial(pod: Pod, context: Context, policy: Policy, would: Decision, decision: Decision) -> DenialExplained | None:
    if would.denial is None:
        return None
    reason = would.denial.reason.value
    instead = correction(pod, context, policy, would.denial)
    return DenialExplained(_finding(would.denial), reason.status, reason.remedy, not decision.allowed, instead)


def _finding(finding: Finding) -> FindingExplained:
    return FindingExplained(
        code=finding.reason.code,
        title=finding.reason.value.title,
        message=finding.message,
        container=finding.container,
        field=finding.field,
        value=finding.value,
        lost=finding.reason in _LOST,
        shown=finding.reason in _SHOWN,
    )


def _containers(
    pod: Pod, context: Context, policy: Policy, ordered: str
) -> tuple[Plan | None, tuple[ContainerExplained, ...]]:
    """The containers that ask, and the work on the pod if it came to its end."""
    seen = survey(pod, policy)
    given = overrides_of(pod, context, policy)
    try:
        asking = collect(seen.keys, policy)
    except Denied:
        return None, tuple(_unread(seen, policy))
    settled: dict[int, Settled] = {}
    work: Plan | None = None
    if seen.refusal is None and seen.asks:
        try:
            resolution = resolve(seen.keys, given, policy)
            settled = {one.requested.position: one for one in resolution.settled}
            work = make_plan(pod, context, policy, seen, resolution)
            apply_plan(work, resolution)
        except Denied:
            work = None
    teller = _Teller(given, policy, ordered)
    return work, tuple(teller.container(one, settled.get(one.position), work) for one in asking)


def _unread(seen: Survey, policy: Policy) -> Iterator[ContainerExplained]:
    """Containers with keys that cannot even be collected: two vendors', or no quantities."""
    for container in seen.keys.containers:
        asked = tuple(_unread_words(container, policy))
        vendors = dict.fromkeys(policy.resources.owners(one.key)[0].vendor for one in asked)
        if asked:
            yield ContainerExplained(container.name, container.init, " and ".join(vendors), asked)


def _unread_words(container: ContainerKeys, policy: Policy) -> Iterator[ShownKey]:
    for key, limit, request in container.resources:
        owner = policy.resources.owners(key)[0]
        text = limit if limit is not None else request or ""
        try:
            vendor = policy.vendors[owner.vendor]
            says = worth(vendor, vendor.keys[owner.key_name], parse_quantity(text))
        except QuantityError as error:
            says = error.why
        if request is not None and limit is not None and request != limit:
            text = f"{limit} in limits, {request} in requests"
        yield ShownKey(key, text, "resource", says)


class _Teller:
    """Tells of containers under the orders of one pod."""

    __slots__ = ("_given", "_ordered", "_policy")

    def __init__(self, given: Overrides, policy: Policy, ordered: str) -> None:
        self._given = given
        self._policy = policy
        self._ordered = ordered

    def container(self, one: ContainerRequest, settled: Settled | None, work: Plan | None) -> ContainerExplained:
        """What became of one container, as far as it got."""
        left: str | None = None
        if settled is None:
            try:
                found = settle(one, self._given, self._policy)
                if isinstance(found, Left):
                    left = found.why
                else:
                    settled = found
            except Denied:
                pass
        reading = settled.reading if settled is not None else None if left is not None else self._reading(one)
        keys = reading.form.keys if reading is not None else one.vendor.keys
        explained = ContainerExplained(
            one.name,
            one.keys.init,
            one.vendor.name,
            tuple(word_shown(one.vendor, keys[said.key_name], said) for said in one.all_key_values.values()),
            unchanged=left,
        )
        if reading is None:
            return explained
        explained = replace(explained, form=reading.form.name, meaning=tuple(meaning(one, reading)))
        if settled is None:
            return explained
        explained = replace(explained, target=settled.target.name, because=self._because(one.vendor))
        if work is None:  # refused: nothing is written
            return explained
        return replace(
            explained,
            request=share_of(settled.reading.request),
            allocation=share_of(settled.request),
            written=tuple(written(settled)),
            removed=(*(key for key, number in settled.resources.items() if number is None), *settled.dropped),
            rounded=rounded(settled),
            shim=shim_shown(work, one.position),
        )

    def _reading(self, one: ContainerRequest) -> Reading | None:
        """What the keys mean, where they mean something that the target cannot say."""
        try:
            target, _ = target_of(one.vendor, self._given, self._policy)
            namespace, _ = namespace_defaults(self._given, self._policy)
            defaults, _ = defaults_for(one.vendor, target, namespace)
            home = target is one.vendor
            return read(one.vendor, one.key_values, defaults, self._policy.largest_card, one.name, home=home)
        except Denied:
            return None

    def _because(self, vendor: Vendor) -> str:
        origin = override_source(vendor, self._given, self._policy)
        if origin == "pod":
            return self._ordered
        return f"`translateTo` of the mapping {vendor.name}" if origin == "mapping" else _BY[origin]
