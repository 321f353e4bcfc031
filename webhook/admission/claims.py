"""Resource claims of Dynamic Resource Allocation (DRA): recognized and left unchanged, never written here.

A claim is an entry of ``spec.resourceClaims`` to which a container refers under ``resources.claims``, or an extended resource
that names a DeviceClass. The scheduler accounts for what it allocates, and knows nothing of shares: in one container, claim
and share would each have a GPU of their own.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from webhook.admission.plan import Plan
from webhook.finding import Finding, deny
from webhook.mapping.model.policy import Policy
from webhook.patch import Slot
from webhook.pod import DEVICE_CLASS, Container, Pod, QuantityText
from webhook.quantity import QuantityError, parse_quantity
from webhook.reasons import Reason
from webhook.text import shorten

MOST_SHOWN: Final = 2
"""The most containers with claims that a message names."""


def claims_of(container: Container, served: Collection[str] = ()) -> tuple[str, ...]:
    """Return what a container claims, without repetition: names of the pod's claims, and resource names of device classes.

    The name of a device class is never a key of a mapping: its domain belongs to Kubernetes.

    Args:
        container: a container of a pod.
        served: other resource names that device classes serve, if they are known.
    """
    resources = container.resources
    if resources is None:
        return ()
    claims = [claim.name for claim in resources.claims or ()]
    for side in (resources.limits or {}, resources.requests or {}):
        names = [name for name in side if name.startswith(DEVICE_CLASS) or name in served]
        claims.extend(sorted(name for name in names if _counts(side[name])) if names else ())
    return tuple(dict.fromkeys(claims)) if claims else ()


def requested_key(container: Container, policy: Policy) -> str | None:
    """Return a key of a mapping among the resources of a container, with a number other than 0."""
    resources = container.resources
    sides = () if resources is None else (resources.limits or {}, resources.requests or {})
    requested = {name for side in sides for name, number in side.items() if _counts(number)}
    return min((name for name in policy.resources.possible(requested) if policy.resources.owners(name)), default=None)


def nothing_requested(pod: Pod, claims: Mapping[str, tuple[str, ...]], *, left: bool = False) -> Reason:
    """Return why a pod is left unchanged: another system serves its keys, its devices are claimed, or it has none.

    Args:
        pod: the pod.
        claims: what its containers claim, by their paths.
        left: whether a container requests devices in keys that are left to their own system.
    """
    if left:
        return Reason.LEFT
    return Reason.RESOURCE_CLAIMS if pod.spec.resource_claims or claims else Reason.NO_GPU_KEYS


def check_claims(plan: Plan) -> None:
    """Deny a claim beside a GPU request in one container; report claims of other containers, once.

    Raises:
        Denied: `Reason.CLAIM_BESIDE_REQUEST`, unless the setting `resourceClaims` only warns.
    """
    claiming = [(slot, plan.claims[slot.path][0]) for slot in plan.slots if slot.path in plan.claims]
    requesting = dict(_requesting(plan))
    if not requesting:
        return
    for slot, claim in claiming:
        if slot.path in requesting and plan.policy.settings.resource_claims == "deny":
            message = (
                f"{requesting[slot.path]} beside the resource claim {_shown(claim)}: two systems would each allocate a GPU: "
                "keep one of them; if the claim is for other hardware, set `resourceClaims: warn`"
            )
            raise deny(Reason.CLAIM_BESIDE_REQUEST, message, container=slot.name, field=f"claims[{claim}]")
    plan.findings.append(Finding(Reason.CLAIM_LEFT_UNCHANGED, _left_alone(claiming), field="spec.resourceClaims"))


def _left_alone(claiming: Sequence[tuple[Slot, str]]) -> str:
    places = [f"{_shown(claim)} in container {_shown(slot.name)}" for slot, claim in claiming[:MOST_SHOWN]]
    more = [f"{len(claiming) - MOST_SHOWN} more"] if len(claiming) > MOST_SHOWN else []
    named = ", ".join([*places, *more]) or "used by no container"
    return f"the pod's resource claims ({named}) were left unchanged: what they allocate is not counted"


def _requesting(plan: Plan) -> Iterator[tuple[str, str]]:
    """The containers that request a GPU in the keys of a mapping: their paths, each with a key."""
    for allocation in plan.allocations:
        yield (
            allocation.slot.path,
            requested_key(allocation.slot.container, plan.policy) or f"a GPU in the keys of {allocation.source.name}",
        )
    for slot, _ in plan.left_alone:
        key = requested_key(slot.container, plan.policy)
        if key is not None:
            yield slot.path, key


def _counts(text: QuantityText) -> bool:
    """Whether a quantity requests anything; the API server denies an invalid one."""
    try:
        return parse_quantity(str(text)) != 0
    except QuantityError:
        return True


def _shown(name: str) -> str:
    """A name from the pod, cut for messages: honest names are not longer."""
    return shorten(name, 63)
