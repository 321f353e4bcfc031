"""Several containers in the keys of one vendor that adds up their requests, or gives one request to all of them."""

import itertools
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from webhook.admission.settled import Settled
from webhook.finding import Denied, deny
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.key_values import KeyValue, format_value
from webhook.mapping.requests.reading import read
from webhook.quantity import simplest
from webhook.reasons import Reason


def check_several(settled: Sequence[Settled], policy: Policy) -> None:
    """Check several containers by the rules of their source, and of their target.

    Raises:
        Denied: the vendor adds up requests that differ; or a request for all containers together would be written for
            each, or the reverse.
    """
    if len(settled) == 1:
        return
    for vendor, group in _grouped((container.requested.vendor, container) for container in settled):
        if vendor.containers == "equal":
            requests = [(container, str(container.reading.request)) for container in group]
            _check_equal(vendor, requests, Reason.ONE_CONTAINER_ONLY)
            _check_sum(vendor, group, policy)
        moved = next((container for container in group if container.translated), None)
        if vendor.containers == "shared" and moved is not None:
            message = f"{vendor.name} allocates once for {_names(group)} together, {moved.target.name} would for each"
            raise moved.requested.deny(Reason.NO_EQUIVALENT, f"{message}: keep the request of one container")
    for vendor, group in _grouped((container.target, container) for container in settled):
        moved = next((container for container in group if container.translated), None)
        if moved is None:
            continue
        if vendor.containers == "equal":
            requests = [(container, str(container.request)) for container in group]
            _check_equal(vendor, requests, Reason.NO_EQUIVALENT)
        if vendor.containers == "shared":
            message = (
                f"{vendor.name} would allocate once for {_names(group)} together, but each has a request of its own"
            )
            raise moved.requested.deny(Reason.NO_EQUIVALENT, f"{message}: keep the request of one container")


def _grouped(pairs: Iterable[tuple[Vendor, Settled]]) -> list[tuple[Vendor, list[Settled]]]:
    """The containers of each vendor that has more than one."""
    groups: dict[str, tuple[Vendor, list[Settled]]] = {}
    for vendor, container in pairs:
        groups.setdefault(vendor.name, (vendor, []))[1].append(container)
    return [group for group in groups.values() if len(group[1]) > 1]


def _names(group: Iterable[Settled]) -> str:
    return ", ".join(container.requested.name for container in group)


def _check_equal(vendor: Vendor, requests: Sequence[tuple[Settled, str]], reason: Reason) -> None:
    """Where requests are summed and divided over all devices, each container gets the same, whatever it requests."""
    (first, expected), *others = requests
    for container, request in others:
        if request != expected:
            message = (
                f"{vendor.name} adds up the requests of a pod and gives each container the same, but "
                f"{first.requested.name} requests {expected}, {container.requested.name} {request}: "
                "request the same in each, or in one only"
            )
            raise container.requested.deny(reason, message)


def _check_sum(vendor: Vendor, group: Sequence[Settled], policy: Policy) -> None:
    """Check that the sum over the containers that run side by side is a request of the vendor, too."""
    regular = [container for container in group if not container.requested.keys.init]
    if len(regular) < 2:  # noqa: PLR2004  (a single container was read already)
        return
    total: dict[str, KeyValue] = {}
    for entry in itertools.chain.from_iterable(container.requested.key_values.values() for container in regular):
        before = total.get(entry.key_name)
        number = simplest(entry.number + before.number) if before is not None else entry.number
        total[entry.key_name] = replace(entry, number=number, text=format_value(number))
    try:
        read(vendor, total, vendor.defaults, policy.largest_card, regular[0].requested.name)
    except Denied as denial:
        message = f"{vendor.name} adds up the requests of {_names(regular)}: {denial.finding.message}"
        raise deny(Reason.ONE_CONTAINER_ONLY, f"{message}; or keep the request of one container") from None
