"""The GPU requests of a pod by container: resources, and the keys of the pod that apply to the container."""

from collections.abc import Iterable

from webhook.admission.container_request import (
    ContainerRequest,
    ContainerRequests,
    check_number_requesting,
    container_in,
)
from webhook.admission.pod_keys import add_pod_keys
from webhook.admission.survey import ContainerKeys, PodKeys
from webhook.finding import Finding, deny
from webhook.mapping.model.policy import Policy
from webhook.mapping.requests.key_values import form_of
from webhook.reasons import Reason


def collect(keys: PodKeys, policy: Policy) -> list[ContainerRequest]:
    """Return the requesting containers in order, without those that request no device (``devices: 0`` alone).

    Raises:
        Denied: keys of two vendors in one container, a count for no container in particular, or an invalid value.
    """
    containers: ContainerRequests = {}
    for position, container_keys in enumerate(keys.containers):
        if container_keys.resources:
            _add_resources(containers, position, container_keys, policy)
            check_number_requesting(containers)
    if keys.labels or keys.annotations or keys.node_selector:
        add_pod_keys(containers, keys, policy)
    requesting = [containers[position] for position in sorted(containers) if _requests_devices(containers[position])]
    if len(requesting) > 1:
        _check_side_by_side(requesting)
    return requesting


def _add_resources(containers: ContainerRequests, position: int, keys: ContainerKeys, policy: Policy) -> None:
    """Add the resources of one container."""
    exact = policy.resources.exact
    container: ContainerRequest | None = None
    for name, limit, request in keys.resources:
        owners = exact.get(name) or policy.resources.owners(name)
        owner = owners[0]
        if len(owners) > 1 and (rivals := {other.vendor for other in owners} - {owner.vendor}):
            message = (
                f"{name} matches keys of {owner.vendor} and of {', '.join(sorted(rivals))}: make one of them `inactive`"
            )
            raise deny(Reason.AMBIGUOUS_NAME, message, container=keys.name, field=name)
        vendor = policy.vendors[owner.vendor]
        if container is None or container.vendor is not vendor:
            container = container_in(containers, position, keys, vendor, name)
        text = limit if limit is not None else request
        assert text is not None  # noqa: S101  (a resource has a limit or a request)
        number = container.quantity(name, text)
        if limit is None:
            container.promoted.append(name)
            message = f"{name} is in requests only and was copied to limits: write it to limits"
            container.findings.append(
                Finding(Reason.PROMOTED_TO_LIMITS, message, container.name, f"requests[{name}]", text)
            )
        elif request is not None and request != limit and container.quantity(name, request) != number:
            message = f"{name} is {limit} in limits and {request} in requests: write the same value to both"
            raise container.deny(Reason.LIMIT_DIFFERS, message)
        container.add(owner, name, text, number)


def _requests_devices(container: ContainerRequest) -> bool:
    """Whether a container requests any device.

    Raises:
        Denied: it requests a share of no device.
    """
    keys = container.vendor.keys
    requests = [name for name in container.key_values if container.vendor.annotation_keys or keys[name].makes_request]
    if not container.zero:
        return bool(requests)
    zero_amounts = [name for name in container.zero if "devices" not in keys[name].dimensions]
    if any("devices" in keys[name].dimensions for name in container.zero):
        amounts = [entry for name, entry in container.key_values.items() if keys[name].kind == "amount"]
        no_devices = next(entry for name, entry in container.zero.items() if "devices" in keys[name].dimensions)
        if amounts:
            message = f"{no_devices} requests no device, {amounts[0]} a share of one: write 1 or more, or remove both"
            raise container.deny(Reason.ZERO_DEVICES, message, no_devices)
        return False
    return bool(requests) or bool(zero_amounts)


def _check_side_by_side(requesting: Iterable[ContainerRequest]) -> None:
    """Check, before anything is read, whether several containers may request, and which one a count is for.

    Raises:
        Denied: the vendor serves one container, or a count is for no container in particular.
    """
    by_vendor: dict[str, list[ContainerRequest]] = {}
    for container in requesting:
        by_vendor.setdefault(container.vendor.name, []).append(container)
    for group in by_vendor.values():
        if len(group) == 1:
            continue
        vendor = group[0].vendor
        # What another system serves under the vendor's names is no request of the vendor.
        served = [container for container in group if not _left(container)] if vendor.containers == "one" else group
        if len(served) < 2:  # noqa: PLR2004  (one container, as above)
            continue
        names = ", ".join(container.name for container in served)
        if vendor.containers == "one":
            message = (
                f"{vendor.name} serves one container of a pod, but {names} request devices: keep the request of one"
            )
            raise deny(Reason.ONE_CONTAINER_ONLY, message)
        if vendor.containers == "shared":
            continue  # a count of the pod is for all of them
        for entry in group[0].key_values.values():
            key = vendor.keys[entry.key_name]
            if "devices" in key.dimensions and key.place != "resource" and not (key.per_container or key.listed):
                message = (
                    f"{entry.key}: {entry.text!r} counts the devices of one container, but {names} request devices: "
                    "keep the request of one"
                )
                raise deny(Reason.AMBIGUOUS_COUNT, message, field=entry.key, value=entry.text)


def _left(container: ContainerRequest) -> bool:
    """Whether the container's keys make a form that is left unchanged."""
    form = form_of(container.vendor, container.key_values)
    return form is not None and form.leave is not None
