"""Resource claims of Dynamic Resource Allocation (DRA): recognized and left unchanged, never written here.

A claim is an entry of ``spec.resourceClaims`` to which a container refers under ``resources.claims``, or an extended resource
that names a DeviceClass. The scheduler accounts for what it allocates, and knows nothing of shares: in one container, claim
and share would each have a GPU of their own.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from webhook.admission.decision import Plan
from webhook.mapping.model.policy import Policy
from webhook.pod import DEVICE_CLASS, Container, Pod, QuantityText
from webhook.quantity import QuantityError, parse_quantity
from webhook.reasons import Finding, Reason, deny
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


def of_other_devices(claim: str, policy: Policy) -> bool:
    """Return whether the setting `otherDeviceClasses` has the device class that a resource name of `claims_of` names."""
    return claim.startswith(DEVICE_CLASS) and claim.removeprefix(DEVICE_CLASS) in policy.settings.other_device_classes


def check_claims(plan: Plan) -> None:
    """Deny a device class beside a GPU request in one container; report other claims, once.

    A resource name names the class that it claims. A claim names only a template or an object, which a pod does not contain:
    it may be for a network device, so it is reported and not denied.

    Raises:
        Denied: `Reason.CLAIM_BESIDE_REQUEST`, unless the setting `resourceClaims` only warns.
    """
    requesting = dict(_requesting(plan))
    if not requesting:
        return
    claiming: list[_Claiming] = []
    for slot in plan.slots:
        claims = [claim for claim in plan.claims.get(slot.path, ()) if not of_other_devices(claim, plan.policy)]
        beside = requesting.get(slot.path)
        device_class = next((claim for claim in claims if claim.startswith(DEVICE_CLASS)), None)
        if beside and device_class and plan.policy.settings.resource_claims == "deny":
            message = (
                f"{beside} beside {_shown(device_class)}: two systems would each allocate a GPU: keep one of them; "
                "if the class is of other devices, add it to the setting `otherDeviceClasses`"
            )
            raise deny(Reason.CLAIM_BESIDE_REQUEST, message, container=slot.name, field=f"claims[{device_class}]")
        if claims:
            claiming.append(_Claiming(claims[0], slot.name, beside))
    if claiming or plan.pod.spec.resource_claims:
        plan.findings.append(
            Finding(Reason.CLAIM_LEFT_UNCHANGED, _left_unchanged(claiming), field="spec.resourceClaims")
        )


class _Claiming(NamedTuple):
    """A container with a claim, and the key of its GPU request, if it has one."""

    claim: str
    container: str
    beside: str | None


def _left_unchanged(claiming: Sequence[_Claiming]) -> str:
    """One sentence for all containers: those with a request first, which may get two GPUs."""
    first = sorted(claiming, key=lambda each: each.beside is None)
    places = [f"{_shown(each.claim)} in container {_shown(each.container)}" for each in first[:MOST_SHOWN]]
    more = [f"{len(claiming) - MOST_SHOWN} more"] if len(claiming) > MOST_SHOWN else []
    named = ", ".join([*places, *more]) or "used by no container"
    message = f"the pod's resource claims ({named}) were left unchanged: what they allocate is not counted"
    if first and first[0].beside:
        return (
            f"{message}; if the claim beside {first[0].beside} is for a GPU, the container gets two: keep one of them"
        )
    return message


def _requesting(plan: Plan) -> Iterator[tuple[str, str]]:
    """The containers that request a GPU in the keys of a mapping: their paths, each with a key."""
    for allocation in plan.allocations:
        yield (
            allocation.slot.path,
            requested_key(allocation.slot.container, plan.policy) or f"a GPU in the keys of {allocation.source.name}",
        )
    for slot, _, _ in plan.left_alone:
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
