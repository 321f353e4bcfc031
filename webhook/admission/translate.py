"""A request written for another vendor: as it is, without what the target lets drop, or with memory by the device."""

from msgspec.structs import replace

from webhook.admission.cards import card_under, missing_card, too_large
from webhook.admission.collect import ContainerRequest
from webhook.admission.overrides import Overrides, defaults_for, namespace_defaults
from webhook.finding import Finding
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.conversion import by_card, step_between
from webhook.mapping.requests.result import Defaults
from webhook.mapping.requests.writing import NoEquivalent, Written, write
from webhook.quantity import bytes_text
from webhook.reasons import Reason
from webhook.request import FREE, Dimension, Memory, Request, Size


class Translator:
    """Writes the request of one container."""

    __slots__ = ("_one", "_overrides", "_policy", "_target")

    def __init__(self, one: ContainerRequest, target: Vendor, overrides: Overrides, policy: Policy) -> None:
        self._one = one
        self._target = target
        self._overrides = overrides
        self._policy = policy

    def write(self, request: Request, findings: list[Finding]) -> tuple[Request, Written]:
        """What is written, and the request that it says: without what the target's mapping lets drop, if need be."""
        one, target = self._one, self._target
        namespace, _ = namespace_defaults(self._overrides, self._policy)
        # An inactive target is read again by whoever owns its keys: only the check of the whole pod knows with what defaults.
        later = {} if target.inactive else defaults_for(target, target, namespace)[0]
        asked_memory = request.memory
        try:
            return self._write_one(request, later, findings)
        except NoEquivalent as why:
            refusal = why
        for dimension in target.drop:
            wanted = getattr(request, dimension)
            if wanted is FREE:
                continue
            request = _with(request, dimension, FREE)
            try:
                written_as, written = self._write_one(request, later, findings)
            except NoEquivalent as why:
                refusal = why
                continue
            message = f"{target.name} cannot limit {dimension}: the request of {wanted} was dropped"
            findings.append(Finding(Reason.DIMENSION_DROPPED, message, one.name))
            return written_as, written
        asked = ", ".join(str(said) for said in one.key_values.values())
        remedy = self._missing_card(asked_memory)
        # What to write instead comes first: a message has room for little more.
        said, nearest = (f"{asked} ({request})", "") if remedy is None else (asked, f"{remedy}; ")
        message = f"{target.name} cannot express {said}: {nearest}{_first_reasons(refusal)}"
        raise one.deny(Reason.NO_EQUIVALENT, message)

    def _write_one(self, request: Request, later: Defaults, findings: list[Finding]) -> tuple[Request, Written]:
        """As it is asked, or else with memory in the other unit, where the pod says its device; what is read back is that."""
        target, largest, name = self._target, self._policy.largest_card, self._one.name
        try:
            return request, write(target, request, later, largest, name)
        except NoEquivalent as why:
            refusal = why
        card = card_under(target, self._overrides.cards, self._policy)
        if card is None or card.memory is None:
            raise refusal
        other = by_card(request, card.memory)
        if other is None:
            beyond = too_large(request.memory, card)
            raise refusal if beyond is None else NoEquivalent((beyond, *refusal.reasons))
        try:
            written = write(target, other, later, largest, name)
        except NoEquivalent as why:
            raise NoEquivalent((*why.reasons, *refusal.reasons)) from None
        message = (
            f"memory {request.memory} per device was written as {other.memory}: {card.names} ({card.place} {card.label}) "
            f"has {bytes_text(card.memory)} by the setting `cards`"
        )
        step = step_between("memory", request.memory, other.memory)
        findings.append(Finding(Reason.CARD_ASSUMED, message, name, card.label, card.names, step))
        return other, written

    def _missing_card(self, memory: Memory | None) -> str | None:
        """What to configure for the target to express this memory, unless the device is known."""
        cards = self._overrides.cards
        if card_under(self._target, cards, self._policy) is not None:
            return None
        return missing_card(self._target, memory, cards, self._policy)


def _with(request: Request, dimension: Dimension, amount: Memory) -> Request:
    if dimension == "memory":
        return replace(request, memory=amount)
    return request if isinstance(amount, Size) else replace(request, cores=amount)


def _first_reasons(refusal: NoEquivalent) -> str:
    """The nearest forms, as many as fit into a message."""
    return "; ".join(refusal.reasons[:2]) or "none of its forms fits"
