"""One container: its keys read, filled in and settled; in its own keys or in those of another vendor."""

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from webhook import labels
from webhook.admission.container_request import ContainerRequest
from webhook.admission.left_alone import Left, left_several, perhaps_counted, several_bindings
from webhook.admission.overrides import Overrides, defaults_for, target_of
from webhook.admission.same_keys import keep_keys
from webhook.admission.settled import Settled
from webhook.admission.translate import Translator
from webhook.finding import Denied, Finding
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Default, Vendor
from webhook.mapping.requests.defaults import fewer
from webhook.mapping.requests.denials import LeftAlone
from webhook.mapping.requests.key_values import KeyValue
from webhook.mapping.requests.reading import read
from webhook.reasons import Reason
from webhook.request import Dimension


def settle(
    container: ContainerRequest, overrides: Overrides, policy: Policy, without: Collection[Dimension] = ()
) -> Settled | Left:
    """Settle the request of one container, or leave it unchanged.

    Args:
        container: the container and its keys.
        overrides: those of its pod and namespace.
        policy: the vendors and settings.
        without: dimensions for which the namespace's default is left out.

    Raises:
        Denied: the vendor denies the keys, or the target cannot express the request.
    """
    source = container.vendor
    target, other_family = target_of(source, overrides, policy)
    if container.copy is not None and container.copy.vendor.name in source.document.beside:
        return Left(container, source.document.beside[container.copy.vendor.name], placed=True)
    if container.other_spellings or several_bindings(container):
        return left_several(container, target)
    if target is not source or container.copy is not None:
        _check_copies(container, target, policy)
    namespace = overrides.defaults
    try:
        if without:
            namespace = {dimension: default for dimension, default in namespace.items() if dimension not in without}
        settled = _Settler(container, target, overrides, policy).settle(namespace)
    except LeftAlone as left:
        return Left(container, left.finding.message, placed=left.finding.reason is not Reason.SIZE_UNKNOWN)
    before = (*container.findings, *overrides.findings)
    if other_family is not None:
        before = (*before, replace(other_family, container=container.name))
    if before:
        settled.findings[:0] = before
    return settled


def _check_copies(container: ContainerRequest, target: Vendor, policy: Policy) -> None:
    """Check that a copy means the same, and that a translated container has no maximum beyond its guarantee.

    Raises:
        Denied: one of them does not hold.
    """
    source, copy = container.vendor, container.copy
    if copy is not None:
        request, copied = (
            read(each.vendor, each.key_values, {}, policy.largest_card, container.name).request
            for each in (container, copy)
        )
        if request != copied:
            listed = " and ".join(
                ", ".join(str(entry) for entry in each.key_values.values()) for each in (container, copy)
            )
            message = f"{listed}: the keys of {copy.vendor.name} copy those of {source.name}, but mean {copied}"
            raise container.deny(Reason.TWO_VENDORS, f"{message} instead of {request}: request the same in both")
    if target is source:
        return
    for each in (container, copy):
        if each is None:
            continue
        for low, high in (*each.unequal_twins, *_ceilings(each)):
            message = f"{low} is the guarantee and {high} the maximum, and only {source.name} supports both"
            raise container.deny(Reason.TWINS_DIFFER, f"{message}: write the same value to both", high)


def _ceilings(container: ContainerRequest) -> Iterator[tuple[KeyValue, KeyValue]]:
    """Yield each requested key with the key that allows another amount than requested."""
    for entry in container.key_values.values():
        ceiling = container.vendor.keys[entry.key_name].ceiling
        if ceiling is not None and ceiling[0] in container.key_values:
            requested = container.key_values[ceiling[0]]
            if entry.number != requested.number * ceiling[1]:
                yield requested, entry


class _Settler:
    """Settles one container with as many of the namespace's defaults as possible."""

    __slots__ = ("_container", "_overrides", "_policy", "_target")

    def __init__(self, container: ContainerRequest, target: Vendor, overrides: Overrides, policy: Policy) -> None:
        self._container = container
        self._target = target
        self._overrides = overrides
        self._policy = policy

    def settle(self, namespace: Mapping[Dimension, Default | None]) -> Settled:
        """Settle with as many of the namespace's defaults as can be written without changing what is specified.

        Raises:
            Denied: even without them.
        """
        if not namespace:
            return self._settle_with(namespace)
        denial: Denied | None = None
        why = ""
        for applied in fewer(namespace):
            try:
                settled = self._settle_with(applied)
            except Denied as error:
                denial = error
                why = why or error.finding.message
                continue
            changed = self._changed(settled) if applied else None
            if changed is not None:
                why = why or changed
                continue
            for dimension, default in namespace.items():
                if dimension not in applied:
                    self._report_not_applied(settled, dimension, default, why)
            return settled
        assert denial is not None  # noqa: S101  (without the namespace's defaults nothing is changed by them)
        raise denial

    def _settle_with(self, namespace: Mapping[Dimension, Default | None]) -> Settled:
        container, source, target = self._container, self._container.vendor, self._target
        defaults, without_key = defaults_for(source, target, namespace)
        counted = perhaps_counted(container, target)
        default_count = defaults.pop("devices", None) if counted is not None else None
        home = target is source
        reading = read(source, container.key_values, defaults, self._policy.largest_card, container.name, home=home)
        if home:
            settled = keep_keys(container, reading)
        else:
            settled = Translator(container, target, self._overrides, self._policy).translate(reading)
        for dimension in reading.passed_over:
            specified = ", ".join(str(entry) for entry in container.key_values.values())
            why = f"no key for it can be added to {specified}"
            self._report_not_applied(settled, dimension, defaults[dimension], why)
        if default_count is not None:
            self._report_not_applied(settled, "devices", default_count, f"{counted} may already be the count")
        for dimension, default in without_key.items():
            self._report_not_applied(settled, dimension, default, f"{target.name} has no key for it")
        return settled

    def _report_not_applied(self, settled: Settled, dimension: Dimension, default: Default | None, why: str) -> None:
        named = default.named(dimension) if default is not None else f"the namespace's default-{dimension}: 0"
        message = f"{named} was not applied: {why}"
        field = f"{labels.DEFAULT_PREFIX}{dimension}"
        settled.findings.insert(0, Finding(Reason.DEFAULT_NOT_APPLIED, message, self._container.name, field))

    def _changed(self, settled: Settled) -> str | None:
        """Return how the namespace's defaults change a specified dimension, by rounding up in the target's keys."""
        reading = settled.reading
        rounded = [
            dimension
            for dimension in reading.specified
            if getattr(settled.request, dimension) != getattr(reading.request, dimension)
        ]
        if not rounded:
            return None
        overrides = self._overrides._replace(defaults={})
        try:
            alone = _Settler(self._container, self._target, overrides, self._policy).settle({}).request
        except Denied:
            return None
        for dimension in rounded:
            without, filled = getattr(alone, dimension), getattr(settled.request, dimension)
            if without != filled:
                return f"{dimension} would become {filled} instead of {without}"
        return None
