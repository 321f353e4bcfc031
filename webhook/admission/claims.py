"""Resource claims of Dynamic Resource Allocation (DRA): those of users are left unchanged, ours are written and read again.

Ours are made from templates. The name of one is the hash of its content, which the pod's status describes: so whoever reads
both knows the request again, without the template.

A claim is an entry of ``spec.resourceClaims`` to which a container refers under ``resources.claims``, or an extended resource
that names a DeviceClass. The scheduler accounts for what it allocates, and knows nothing of shares: in one container, claim
and share would each have a GPU of their own.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from webhook.admission.decision import ClaimedContainer, Plan, status_in
from webhook.labels import CLAIM
from webhook.mapping.model.keys import Key
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.reading import read
from webhook.mapping.values import KeyValue
from webhook.mapping.writing import (
    MAX_SELECTED,
    REQUEST,
    DeviceRequest,
    claim_number,
    request_names,
    same_request,
    template_of,
)
from webhook.patch import Slot
from webhook.pod import DEVICE_CLASS, Claim, Container, Metadata, Pod, PodClaim, QuantityText
from webhook.reasons import Denied, Finding, Reason, deny
from webhook.request import (
    CLAIM_NAME,
    CLAIM_PREFIX,
    MAX_DEVICES,
    MAX_VALUE,
    TEMPLATE_NAME,
    ClaimTemplate,
    Number,
    QuantityError,
    number_in,
)
from webhook.text import shorten

if TYPE_CHECKING:  # which reads the claims of a pod
    from webhook.admission.settle import Settled

MAX_CLAIM: Final = 63
"""The most characters of a claim's name in a pod, a DNS label."""

MAX_OBJECT_NAME: Final = 253
"""The most characters of an object's name, a DNS subdomain."""

MAX_OWN: Final = 1024
"""The most claims that are read in a status: a pod has at most as many containers."""

MAX_WRITTEN: Final = 4096
"""The most characters of a value in it: the longest list of selected devices has half as many."""

MOST_SHOWN: Final = 2
"""The most containers with claims that a message names."""


def claims_of(container: Container) -> tuple[str, ...]:
    """Return what a container claims, without repetition: names of the pod's claims, and resource names of device classes.

    The name of a device class is never a key of a mapping: its domain belongs to Kubernetes.
    """
    claims = [claim.name for claim in container.claims]
    for side in container.sides:
        claims += sorted(name for name in side if name.startswith(DEVICE_CLASS) and counts(side[name]))
    return tuple(dict.fromkeys(claims))


def requested_key(container: Container, policy: Policy) -> str | None:
    """Return a key of a mapping among the resources of a container, with a number other than 0."""
    requested = {name for side in container.sides for name, number in side.items() if counts(number)}
    return min((name for name in policy.resources.possible(requested) if policy.resources.owners(name)), default=None)


def nothing_requested(pod: Pod, claims: Mapping[str, tuple[str, ...]], *, left: bool = False) -> Reason:
    """Return why a pod is left unchanged: another system serves its keys, its devices are claimed, or it has none."""
    if left:
        return Reason.LEFT
    return Reason.RESOURCE_CLAIMS if pod.spec.resource_claims or claims else Reason.NO_GPU_KEYS


def _resources_of(classes: Collection[str]) -> set[str]:
    """The resource names that request device classes."""
    return {f"{DEVICE_CLASS}{name}" for name in classes}


def check_claims(plan: Plan) -> None:
    """Deny a device class of GPUs beside a GPU request in one container; report other claims, once.

    A resource name names the class that it claims. A claim names only a template or an object, which a pod does not contain:
    like a class that no mapping names, it may be for a network device, so it is reported and not denied.
    """
    requesting = _requesting(plan)
    if not requesting:
        return
    others = _resources_of(plan.policy.settings.other_device_classes)
    claiming: list[tuple[str | None, str, str]] = []
    for slot in plan.slots:
        claims = [each for each in plan.claims.get(slot.path, ()) if each not in others]
        if claims:
            beside = requesting.get(slot.path)
            _check_beside(plan, slot, claims, beside)
            claiming.append((beside, claims[0], slot.name))
    own = own_claims(plan.pod, plan.policy)
    if claiming or any(claim.name not in own for claim in plan.pod.spec.resource_claims or ()):
        message = _left_unchanged(claiming)
        plan.findings.append(Finding(Reason.CLAIM_LEFT_UNCHANGED, message, field="spec.resourceClaims"))


def _check_beside(plan: Plan, slot: Slot, claims: Sequence[str], beside: str | None) -> None:
    """Deny a claim that is for a GPU beside a request."""
    of_gpus = _resources_of(plan.policy.device_classes)
    device_class = next((each for each in claims if each in of_gpus), None)
    if beside is not None and device_class is not None and plan.policy.settings.resource_claims == "deny":
        message = (
            f"{beside} beside {shorten(device_class)}: two systems would each allocate a GPU: keep one of them; "
            "if the class is of other devices, ask the administrator to add it to the setting `otherDeviceClasses`"
        )
        raise deny(Reason.CLAIM_BESIDE_REQUEST, message, container=slot.name, field=f"claims[{device_class}]")


_WRITE_KEYS: Final = "request the share in the keys of a mapping instead, of which the webhook makes a claim"


def check_keys(pod: Pod, slots: Sequence[Slot], policy: Policy) -> None:
    """Deny what claims a share that needs the shim by its name, and has no keys: there is nothing to write a limit from."""
    own = own_claims(pod, policy)
    for claim in pod.spec.resource_claims or ():
        if claim.name not in own:
            _check_source(claim)
    holders: dict[tuple[str, str | None], str] = {}
    limited = _resources_of(policy.classes_of_the_shim)
    for slot in slots:
        _check_classes(slot, limited)
        held = [named for named in slot.container.claims if named.name in own]
        for named in held:
            _check_holder(slot, named, own[named.name], holders)
        if len(held) > 1:
            first, second = (shorten(named.name) for named in held[:2])
            message = f"{first} and {second} each give the container a share, and only one limit holds: {_WRITE_KEYS}"
            raise deny(Reason.CLAIM_WITHOUT_KEYS, message, container=slot.name, field=f"claims[{second}]")


def _check_source(claim: PodClaim) -> None:
    """Deny a claim that is not ours by its status, but by its name."""
    for name, names in (
        (claim.resource_claim_template_name or "", TEMPLATE_NAME),
        (claim.resource_claim_name or "", CLAIM_NAME),
    ):
        if len(name) <= MAX_OBJECT_NAME and names.match(name):
            message = f"{name} is made by the webhook for requests that this pod has not: {_WRITE_KEYS}"
            raise deny(Reason.CLAIM_WITHOUT_KEYS, message, field=f"spec.resourceClaims[{shorten(claim.name)}]")


def _check_holder(slot: Slot, named: Claim, own: "OwnClaim", holders: dict[tuple[str, str | None], str]) -> None:
    """Deny a second holder of a request in a claim of ours."""
    place = (named.name, named.request if len(own.requests) > 1 else None)
    holder, name = holders.get(place), shorten(named.name)
    if not own.has(named) or (holder is not None and not slot.ends_first):
        whose = "a claim of several containers" if holder is None else f"the claim of container {shorten(holder)}"
        message = f"{name} is {whose}, and gives this one its share: {_WRITE_KEYS}"
        raise deny(Reason.CLAIM_WITHOUT_KEYS, message, container=slot.name, field=f"claims[{name}]")
    if not slot.ends_first:
        holders[place] = slot.name


def _check_classes(slot: Slot, limited: Collection[str]) -> None:
    named = (name for side in slot.container.sides for name in side if name in limited and counts(side[name]))
    name = next(named, None)
    if name is not None:
        message = (
            f"only the enforcing library limits a share of {shorten(name)}, and nothing says to how much: {_WRITE_KEYS}"
        )
        raise deny(Reason.CLAIM_WITHOUT_KEYS, message, container=slot.name, field=f"limits[{name}]")


def _left_unchanged(claiming: Sequence[tuple[str | None, str, str]]) -> str:
    """One sentence for all containers with a claim: those with a request first, which may get two GPUs.

    Args:
        claiming: the key of its GPU request, if it has one, the claim, and the container's name.
    """
    first = sorted(claiming, key=lambda each: each[0] is None)
    places = [f"{shorten(claim)} in container {shorten(container)}" for _, claim, container in first[:MOST_SHOWN]]
    more = [f"{len(claiming) - MOST_SHOWN} more"] if len(claiming) > MOST_SHOWN else []
    named = ", ".join([*places, *more]) or "used by no container"
    message = f"the pod's resource claims ({named}) were left unchanged: what they allocate is not counted"
    if not first or first[0][0] is None:
        return message
    return f"{message}; if the claim beside {first[0][0]} is for a GPU, the container gets two: keep one of them"


def _requesting(plan: Plan) -> dict[str, str]:
    """The containers that request a GPU in the keys of a mapping: their paths, each with a key."""
    found = {
        each.slot.path: requested_key(each.slot.container, plan.policy) or f"the keys of {each.source.name}"
        for each in plan.allocations
    }
    left = ((slot.path, requested_key(slot.container, plan.policy)) for slot, _, _ in plan.left_alone)
    return {**found, **{path: key for path, key in left if key is not None}}


def counts(text: QuantityText) -> bool:
    """Return whether a quantity requests anything; the API server denies an invalid one."""
    return number_in(text) != 0


class OwnClaim(NamedTuple):
    """What a claim of ours requests: the vendor that it is written for, its requests by their names, and its template."""

    vendor: Vendor
    requests: Mapping[str, DeviceRequest]
    template: ClaimTemplate

    def has(self, claim: Claim) -> bool:
        """Return whether a container with this entry has one request of the claim, as this webhook writes it."""
        return len(self.requests) == 1 or claim.request in self.requests


def claims_in_status(metadata: Metadata, policy: Policy) -> dict[str, OwnClaim]:
    """Return the claims that the status of a pod describes, by the name of their template.

    Who forges a status gains nothing: what it describes is a request in the keys of a mapping, and the name is its hash.
    """
    of_claims: dict[str, dict[str, ClaimedContainer]] = {}
    with_claims = [each for each in status_in(metadata).containers.values() if each.claim is not None]
    for container in with_claims[:MAX_OWN]:
        of_claims.setdefault(f"{container.claim}", {}).setdefault(container.claim_request or REQUEST, container)
    found = {name: _described(name, requests, policy) for name, requests in of_claims.items()}
    return {name: claim for name, claim in found.items() if claim is not None}


def _described(name: str, containers: Mapping[str, ClaimedContainer], policy: Policy) -> OwnClaim | None:
    """The claim of a container for each of its requests; None if its template has another name, as after a change."""
    first = next(iter(containers.values()))
    vendor = policy.vendors.get(first.target or first.vendor)
    if vendor is None or vendor.claim is None or (len(containers) > 1 and vendor.claim.matching is None):
        return None
    written = [text for container in containers.values() for text in container.written.values()]
    if any(len(text) > MAX_WRITTEN or text.count(",") >= 2 * MAX_SELECTED for text in written):
        return None
    try:
        requests = {each: _request_in(container, vendor, policy) for each, container in containers.items()}
        template = template_of(vendor, requests)
    except (QuantityError, Denied):
        return None
    return OwnClaim(vendor, requests, template) if template.name == name else None


def _request_in(container: ClaimedContainer, vendor: Vendor, policy: Policy) -> DeviceRequest:
    """The request that the status of a container describes in a vendor's keys.

    Raises:
        QuantityError: a number is no quantity.
        Denied: the keys mean nothing.
    """
    entries = tuple(
        KeyValue(key.name, name, text, 0 if key.kind == "text" else _written_number(key, text))
        for key in vendor.keys.values()
        if (text := container.written.get(name := key.spellings[0].text)) is not None
    )
    reading = read(vendor, {entry.key_name: entry for entry in entries}, {}, policy.most_memory, "")
    return DeviceRequest(entries, reading.request.whole)


def _written_number(key: Key, text: str) -> Number:
    """The number of a claim's key; at least one device.

    Raises:
        QuantityError: this webhook does not write it.
    """
    number = claim_number(key, text)
    least, most = (1, MAX_DEVICES) if "devices" in key.dimensions else (0, MAX_VALUE)
    if not least <= number <= most:
        raise QuantityError(text, "is no number of a claim")
    return number


def own_claims(pod: Pod, policy: Policy) -> dict[str, OwnClaim]:
    """Return the claims of a pod that are made from templates of ours, by their names in the pod."""
    claims = [each for each in pod.spec.resource_claims or () if each.resource_claim_template_name]
    if not claims:
        return {}
    described = claims_in_status(pod.metadata, policy)
    return {
        claim.name: described[claim.resource_claim_template_name or ""]
        for claim in claims
        if claim.resource_claim_template_name in described
    }


_Group: TypeAlias = 'list[tuple[Slot, "Settled"]]'


def write_claims(plan: Plan, settled: Sequence["Settled"]) -> None:
    """Write a claim for each container into the pod, or one for those that their source puts on one device.

    Containers with equal requests have claims of their own from one template, or requests of their own in one claim. An init
    container has ended before others begin, and a claim lasts as long as the pod: it uses what an equal container claims, or
    adds to it. A container keeps a claim that it has already.
    """
    groups = _grouped(plan, settled)
    adding = set().union(*[_template(plan, group) for group in groups.values()])
    names: dict[str, str] = {}
    each_slot = ((slot, together) for together, group in groups.items() for slot, _ in group)
    for slot, together in sorted(each_slot, key=lambda each: each[0].ends_first):
        added = _claim(plan, slot, together, names)
        adds = slot.path in plan.requests and slot.path in adding
        if slot.ends_first and (added or adds):
            message = "claimed for as long as the pod lives, beside the others' claims: request the same in a container"
            plan.findings.append(Finding(Reason.CLAIM_OF_INIT_CONTAINER, message, slot.name))


def _grouped(plan: Plan, settled: Sequence["Settled"]) -> dict[str, _Group]:
    """The containers of each claim, by what puts them together; notes a claim that a container has already."""
    groups: dict[str, _Group] = {}
    for each in settled:
        claimed, source, slot = each.requested.keys.claimed, each.requested.vendor, plan.slots[each.requested.position]
        if claimed is not None and claimed.template is not None:
            _note(plan, slot, claimed.template, claimed.request)
        else:
            together = source.name if source.one_device and each.translated else slot.path
            groups.setdefault(together, []).append((slot, each))
    return groups


def _claim(plan: Plan, slot: Slot, together: str, names: dict[str, str]) -> bool:
    """Have a container name its claim; return whether that was added to the pod, and not the one of another container."""
    template, request = plan.templates[slot.path], plan.requests.get(slot.path)
    group, base = (template.name, slot.name) if request is None else (together, together)
    shared = names.get(group) if request is not None or slot.ends_first else None
    name = shared or _free(base, plan)
    slot.claims.append({"name": name, **({"request": request} if request else {})})
    plan.labels[CLAIM] = "true"
    if shared is None:
        names.setdefault(group, name)
        plan.claims_added.append({"name": name, "resourceClaimTemplateName": template.name})
    return shared is None


def _free(base: str, plan: Plan) -> str:
    """A name of a claim that the pod does not have yet."""
    taken = {claim.name for claim in plan.pod.spec.resource_claims or ()}.union(
        each["name"] for each in plan.claims_added
    )
    # A container may name a claim that is still to be written: its neighbor's.
    taken.update(claim.name for slot in plan.slots for claim in slot.container.claims)
    name = f"{CLAIM_PREFIX}{base}"[:MAX_CLAIM].rstrip("-")
    numbered = (f"{name[: MAX_CLAIM - 4]}-{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], numbered) if each not in taken)


def _template(plan: Plan, group: "_Group") -> set[str]:
    """Note the template of a claim, and each container's request in it; return the paths of those that add a request.

    A container that ends first may use another's.
    """
    vendor, requests = group[0][1].target, list[DeviceRequest]()
    adding: set[str] = set()
    places: dict[str, int] = {}
    for slot, each in sorted(group, key=lambda each: each[0].ends_first):
        request = DeviceRequest(tuple(each.claim.values()), each.request.whole)
        same = (place for place, other in enumerate(requests) if same_request(vendor, request, other))
        found = next(same, None) if slot.ends_first else None
        places[slot.path] = len(requests) if found is None else found
        if found is None:
            requests.append(request)
            adding.add(slot.path)
    names = request_names(vendor, requests)
    template = template_of(vendor, dict(zip(names, requests, strict=True)))
    for slot, _ in group:
        _note(plan, slot, template, names[places[slot.path]] if len(names) > 1 else None)
    return adding


def _note(plan: Plan, slot: Slot, template: ClaimTemplate, request: str | None) -> None:
    plan.templates[slot.path] = template
    if request is not None:
        plan.requests[slot.path] = request
