"""Whole devices: whether asking for them is a way out of what a share is denied for."""

from webhook.admission.decision import Plan
from webhook.admission.overrides import overrides_of
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.writing import NoEquivalent, write
from webhook.request import ALL, Request


def or_whole(plan: Plan, vendor: Vendor) -> str:
    """Return the end of a remedy that offers whole devices; empty where the vendor serves none."""
    whole = _expresses(vendor, plan.policy) or _left_to_its_plugin(plan, vendor)
    return ", or request whole devices" if whole else ""


def _expresses(vendor: Vendor, policy: Policy) -> bool:
    try:
        write(vendor, Request(1, ALL, ALL), {}, policy.largest_card, "")
    except NoEquivalent:
        return False
    return True


def _left_to_its_plugin(plan: Plan, vendor: Vendor) -> bool:
    """Whether a count alone in the name of a plain device plugin would be left to it."""
    overrides = overrides_of(plan.pod, plan.context, plan.policy)
    return (
        overrides.bare.whole
        and overrides.pod_target is None
        and any(each.same_family(vendor) and key.plain for each in plan.policy.in_force for key in each.keys.values())
    )
