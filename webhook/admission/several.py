"""Several requesting containers of one vendor, and a request with a copy in the keys of another."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from webhook.finding import Denied, deny
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.key_values import KeyValue, format_value
from webhook.mapping.requests.reading import read
from webhook.quantity import simplest
from webhook.reasons import Reason

if TYPE_CHECKING:
    from webhook.admission.collect import ContainerRequest
    from webhook.admission.settle import Settled
    from webhook.admission.survey import PodKeys
    from webhook.mapping.model.names import Owner
    from webhook.mapping.model.policy import Policy


def join_copies(
    holders: dict[str, list[int]],
    carried: "Mapping[str, list[tuple[int, Owner, str, str]]]",
    keys: "PodKeys",
    policy: "Policy",
) -> None:
    """A copy is for the container of what it copies; where that one names none, the copy's key does.

    Args:
        holders: by vendor, the containers that its labels and annotations hold for; changed in place.
        carried: by vendor, what those are.
        keys: the pod's.
        policy: the vendors in force.

    Raises:
        Denied: the two name different containers.
    """
    for name, copied in holders.items():
        vendor = policy.vendors[name]
        original = holders.get(vendor.copies or "")
        if not copied or not original or original == copied:
            continue
        source = policy.vendors[vendor.copies or ""]
        if any(source.keys[owner.key_name].kind == "container" for _, owner, _, _ in carried[source.name]):
            first, second = (", ".join(keys.containers[at].name for at in found) for found in (original, copied))
            message = f"the keys of {source.name} request for {first}, their copy in the keys of {name} for {second}"
            raise deny(Reason.TWO_VENDORS, f"{message}: name the same container in both", container=second)
        holders[source.name] = copied


def check_askers(found: "Iterable[ContainerRequest]") -> None:
    """Check what needs no reading: which containers may request, and which one a count is for.

    Raises:
        Denied: the vendor serves one container, or a count is for no container in particular.
    """
    by_vendor: dict[str, list[ContainerRequest]] = {}
    for one in found:
        by_vendor.setdefault(one.vendor.name, []).append(one)
    for group in by_vendor.values():
        if len(group) == 1:
            continue
        vendor = group[0].vendor
        names = ", ".join(one.name for one in group)
        if vendor.containers == "one":
            message = (
                f"{vendor.name} serves one container of a pod, but {names} request devices: keep the request of one"
            )
            raise deny(Reason.ONE_CONTAINER_ONLY, message)
        if vendor.containers == "shared":
            continue  # a count of the pod is for all of them
        for said in group[0].key_values.values():
            key = vendor.keys[said.key_name]
            if "devices" in key.dimensions and key.place != "resource" and not (key.per_container or key.listed):
                message = (
                    f"{said.key}: {said.text!r} counts the devices of one container, but {names} request devices: "
                    "keep the request of one"
                )
                raise deny(Reason.AMBIGUOUS_COUNT, message, field=said.key, value=said.text)


def check_several(settled: "Sequence[Settled]", policy: "Policy") -> None:
    """Check several containers by the rules of their source, and of their target.

    Raises:
        Denied: it sums requests that differ, or what is requested once for all would be given to each, or the reverse.
    """
    if len(settled) == 1:
        return
    for vendor, group in _grouped((one.requested.vendor, one) for one in settled):
        if vendor.containers == "equal":
            _check_equal(vendor, [(one, str(one.reading.request)) for one in group], Reason.ONE_CONTAINER_ONLY)
            _check_sum(vendor, group, policy)
        moved = next((one for one in group if one.translated), None)
        if vendor.containers == "shared" and moved is not None:
            message = f"{vendor.name} allocates once for {_names(group)} together, {moved.target.name} would for each"
            raise moved.requested.deny(Reason.NO_EQUIVALENT, f"{message}: keep the request of one container")
    for vendor, group in _grouped((one.target, one) for one in settled):
        moved = next((one for one in group if one.translated), None)
        if moved is None:
            continue
        if vendor.containers == "equal":
            _check_equal(vendor, [(one, str(one.request)) for one in group], Reason.NO_EQUIVALENT)
        if vendor.containers == "shared":
            message = (
                f"{vendor.name} would allocate once for {_names(group)} together, but each has a request of its own"
            )
            raise moved.requested.deny(Reason.NO_EQUIVALENT, f"{message}: keep the request of one container")


def _grouped(pairs: "Iterable[tuple[Vendor, Settled]]") -> "list[tuple[Vendor, list[Settled]]]":
    """Several containers of one vendor; one alone needs no look."""
    groups: dict[str, tuple[Vendor, list[Settled]]] = {}
    for vendor, one in pairs:
        groups.setdefault(vendor.name, (vendor, []))[1].append(one)
    return [group for group in groups.values() if len(group[1]) > 1]


def _names(group: "Iterable[Settled]") -> str:
    return ", ".join(one.requested.name for one in group)


def _check_equal(vendor: Vendor, requests: "Sequence[tuple[Settled, str]]", reason: Reason) -> None:
    """Where requests are summed and divided over all devices, each container gets the same whatever it requested."""
    first, *others = requests
    other = next((one for one in others if one[1] != first[1]), None)
    if other is not None:
        message = (
            f"{vendor.name} adds up the requests of a pod and gives each container the same, but "
            f"{first[0].requested.name} requests {first[1]}, {other[0].requested.name} {other[1]}: "
            "request the same in each, or in one only"
        )
        raise other[0].requested.deny(reason, message)


def _check_sum(vendor: Vendor, group: "Sequence[Settled]", policy: "Policy") -> None:
    """The sum over the containers that run side by side has to be a request of the vendor, too."""
    regular = [one for one in group if not one.requested.keys.init]
    if len(regular) < 2:  # noqa: PLR2004  (one alone was read already)
        return
    summed: dict[str, KeyValue] = {}
    for said in itertools.chain.from_iterable(one.requested.key_values.values() for one in regular):
        before = summed.get(said.key_name)
        number = simplest(said.number + before.number) if before is not None else said.number
        summed[said.key_name] = replace(said, number=number, text=format_value(number))
    try:
        read(vendor, summed, vendor.defaults, policy.largest_card, regular[0].requested.name)
    except Denied as refusal:
        message = f"{vendor.name} adds up the requests of {_names(regular)}: {refusal.finding.message}"
        raise deny(Reason.ONE_CONTAINER_ONLY, f"{message}; or keep the request of one container") from None
