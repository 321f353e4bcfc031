"""One container: its words read, filled in, settled, and written for the target."""

from dataclasses import dataclass, field, replace
from fractions import Fraction

from webhook.admission.asking import Asking
from webhook.admission.cards import card_under, missing_card, too_large
from webhook.admission.orders import DEFAULT, Orders, defaults_for, namespace_defaults, target_of
from webhook.finding import Finding, Step
from webhook.mapping.conversion import by_card, number_for, step_between, value_of
from webhook.mapping.policy import Policy
from webhook.mapping.reading import Defaults, Reading, read
from webhook.mapping.refusal import spelling
from webhook.mapping.said import Said, spoken
from webhook.mapping.vendor import Vendor, Word
from webhook.mapping.writing import NoEquivalent, Written, write
from webhook.quantity import Number, bytes_text
from webhook.reasons import Reason
from webhook.request import FREE, Dimension, Memory, Request, Size


@dataclass(slots=True)
class Settled:
    """What became of one asking container's words.

    Attributes:
        asking: the container and what it said.
        target: the vendor it is written for.
        request: what it will hold, as the target's words say it.
        form: the target's form that they take.
        filled: dimensions that a default gave.
        reading: what the source's words meant, before anything was rounded or dropped for the target.
        resources: resource names to write with their number, or None to take away.
        words: target words that stand in labels and annotations: (word, text).
        dropped: annotations of the source that carried the request.
        findings: what is told.
    """

    asking: Asking
    target: Vendor
    request: Request
    form: str
    filled: Defaults
    reading: Reading
    resources: dict[str, Number | None] = field(default_factory=dict)
    words: list[tuple[Word, str, str]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def translated(self) -> bool:
        """Whether it is written in another vendor's words."""
        return self.target is not self.asking.vendor


def settle(one: Asking, given: Orders, policy: Policy) -> Settled | None:
    """Reads and writes one container; None for words that are let be as they stand.

    Raises:
        Refused: the vendor refuses the words, or the target cannot express the request.
    """
    target, crossing = target_of(one.vendor, given, policy)
    if one.others or _several_bindings(one):
        _refuse_several(one, target)
        return None
    namespace, findings = namespace_defaults(given, policy)
    findings = [*one.findings, *findings]
    if crossing is not None:
        findings.append(replace(crossing, container=one.name))
    defaults, passed_over = defaults_for(one.vendor, target, namespace)
    settled = _Settler(one, target, given, policy).settle(defaults)
    for dimension in passed_over:
        message = f"the namespace's annotation {DEFAULT}{dimension} was passed over: {target.name} cannot say it"
        findings.append(Finding(Reason.NAMESPACE_DEFAULT_NOT_APPLIED, message, one.name, f"{DEFAULT}{dimension}"))
    settled.findings[:0] = findings
    return settled


def _several_bindings(one: Asking) -> bool:
    bindings = {said.binding for said in one.all_said.values() if one.vendor.words[said.word].variables}
    return len(bindings) > 1


def _refuse_several(one: Asking, target: Vendor) -> None:
    """Words that name different chips mean nothing; several sizes in one container (MIG slices) are let be."""
    for other in one.others:
        first = one.all_said[other.word]
        if first.binding == other.binding or not (first.binding and other.binding):
            message = f"{first} and {other} are two spellings of one word: keep one"
            raise one.refuse(Reason.SPELLINGS_DIFFER, message, other)
    if one.others and target is one.vendor and any(variable.rows for variable in one.vendor.variables.values()):
        return
    listed = ", ".join(str(said) for said in (*one.all_said.values(), *one.others))
    raise one.refuse(Reason.SPELLINGS_DIFFER, f"{listed}: the words of one container must name the same")


class _Settler:
    """The steps for one container under one set of defaults."""

    __slots__ = ("_given", "_one", "_policy", "_target")

    def __init__(self, one: Asking, target: Vendor, given: Orders, policy: Policy) -> None:
        self._one = one
        self._target = target
        self._given = given
        self._policy = policy

    def settle(self, defaults: Defaults) -> Settled:
        one = self._one
        reading = read(one.vendor, one.said, defaults, self._policy.largest_card, one.name)
        if self._target is one.vendor:
            return self._kept(reading)
        return self._translated(reading)

    def _kept(self, reading: Reading) -> Settled:
        """In the source's own words: only corrections, filled dimensions and promotions are written."""
        one = self._one
        settled = Settled(one, one.vendor, reading.request, reading.form.name, reading.filled, reading)
        settled.findings.extend(reading.findings)
        for name, number in reading.corrections.items():
            self._put(settled, reading.form.words[name], number)
        for key in one.promoted:
            said = next(said for said in one.all_said.values() if said.key == key)
            settled.resources.setdefault(key, said.number)
        for dimension in reading.filled:
            self._fill(settled, reading, dimension)
        return settled

    def _fill(self, settled: Settled, reading: Reading, dimension: Dimension) -> None:
        default = reading.filled[dimension]
        request = reading.request
        for name in self._one.vendor.by_dimension[dimension]:
            word = reading.form.words[name]
            number = number_for(word, default.value, 1 if dimension == "devices" else request.devices or 1)
            if number is None:
                continue
            key = self._put(settled, word, number)
            said = f"{key}: {spoken(number)}" + (f" ({default.value})" if isinstance(default.value, Size) else "")
            message = f"{dimension} not said: {said} filled in, the {default.origin}'s default"
            step: Step | None = None
            if not isinstance(default.value, int):
                given = value_of(word, dimension, Fraction(number) / (request.devices or 1) if word.total else number)
                if given != default.value:
                    message = f"{message} of {default.value} rounded up to {given}"
                    step = step_between(dimension, default.value, given)
                settled.request = _with(settled.request, dimension, given)
            settled.findings.append(Finding(Reason.DEFAULT_FILLED, message, self._one.name, key, spoken(number), step))
            return
        if getattr(reading.form.absent, dimension) != default.value:
            message = f"no word of {self._one.vendor.name} says the default {default.value} of {dimension}"
            raise self._one.refuse(Reason.NO_EQUIVALENT, message)

    def _put(self, settled: Settled, word: Word, number: Number) -> str:
        """Writes a word in the spelling that the container uses."""
        said = self._one.all_said.get(word.name)
        binding: dict[str, str] = {"container": self._one.name}
        for other in self._one.all_said.values():
            binding |= dict(other.binding)
        key = said.key if said is not None else spelling(word, binding)
        if word.place == "resource":
            settled.resources[key] = number
        else:
            settled.words.append((word, key, spoken(number)))
        return key

    def _translated(self, reading: Reading) -> Settled:
        one, target = self._one, self._target
        findings = list(reading.findings)
        request, written = self._write(reading.request, findings)
        got, form = written.reading.request, written.form.name
        settled = Settled(one, target, got, form, reading.filled, reading, findings=findings)
        self._tell_filled(settled, reading, written)
        self._tell_rounding(settled, request, written)
        for said in one.all_said.values():
            word = one.vendor.words[said.word]
            if word.place == "resource":
                settled.resources[said.key] = None
            elif word.place == "annotation":
                settled.dropped.append(said.key)
                if word.twin is not None:
                    settled.dropped.extend(self._both_keys(word, said))
            if word.kind == "other":
                message = f"{said} means nothing to {target.name} and was removed"
                settled.findings.append(Finding(Reason.WORD_NOT_CARRIED, message, one.name, said.key, said.text))
        for name, said in written.words.items():
            word = target.words[name]
            if word.place == "resource":
                settled.resources[said.key] = said.number
            else:
                keys = self._both_keys(word, said) if word.twin is not None else [said.key]
                settled.words.extend((word, key, said.text) for key in keys)
        return settled

    def _both_keys(self, word: Word, said: Said) -> list[str]:
        """The key that a word is written under and its twin's."""
        binding = {**dict(said.binding), "container": self._one.name}
        keys = [template.render(binding) for template in (word.spellings[0], *([word.twin] if word.twin else []))]
        return [key for key in keys if key is not None]

    def _write(self, request: Request, findings: list[Finding]) -> tuple[Request, Written]:
        """What is written, and the request that it says: without what the target's mapping lets drop, if need be."""
        one, target = self._one, self._target
        namespace, _ = namespace_defaults(self._given, self._policy)
        later, _ = defaults_for(target, target, namespace)
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
            message = (
                f"{dimension} {wanted} cannot be carried by {target.name} and was dropped: nothing limits it there"
            )
            findings.append(Finding(Reason.DIMENSION_DROPPED, message, one.name))
            return written_as, written
        asked = ", ".join(str(said) for said in one.said.values())
        remedy = self._missing_card(asked_memory)
        # What to write instead comes first: a message has room for little more.
        said, nearest = (f"{asked} ({request})", "") if remedy is None else (asked, f"{remedy}; ")
        message = f"{target.name} cannot express {said}: {nearest}{_first_reasons(refusal)}"
        raise one.refuse(Reason.NO_EQUIVALENT, message)

    def _write_one(self, request: Request, later: Defaults, findings: list[Finding]) -> tuple[Request, Written]:
        """As it is asked, or else with memory in the other unit, where the pod says its card; what is read back is that."""
        target, largest, name = self._target, self._policy.largest_card, self._one.name
        try:
            return request, write(target, request, later, largest, name)
        except NoEquivalent as why:
            refusal = why
        card = card_under(target, self._given.cards, self._policy)
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
            f"memory {request.memory} per card is {other.memory} on {card.names} ({card.place} {card.label}), "
            f"which has {bytes_text(card.memory)} by the setting `cards`"
        )
        step = step_between("memory", request.memory, other.memory)
        findings.append(Finding(Reason.CARD_ASSUMED, message, name, card.label, card.names, step))
        return other, written

    def _missing_card(self, memory: Memory | None) -> str | None:
        """What has to be said for the target to be able to say this memory, unless the card is known."""
        cards = self._given.cards
        if card_under(self._target, cards, self._policy) is not None:
            return None
        return missing_card(self._target, memory, cards, self._policy)

    def _tell_filled(self, settled: Settled, reading: Reading, written: Written) -> None:
        for dimension, default in reading.filled.items():
            keys = [
                f"{said}" for name, said in written.words.items() if dimension in self._target.words[name].dimensions
            ]
            message = f"{dimension} not said: {default.value} filled in, the {default.origin}'s default"
            if keys:
                message = f"{message}; written as {', '.join(keys)}"
            settled.findings.append(Finding(Reason.DEFAULT_FILLED, message, self._one.name))

    def _tell_rounding(self, settled: Settled, asked: Request, written: Written) -> None:
        got = written.reading.request
        for dimension in ("memory", "cores"):
            before: Memory = getattr(asked, dimension)
            after: Memory = getattr(got, dimension)
            if before == after:
                continue
            if before is FREE:
                message = f"{dimension} had no limit; what {self._target.name} gives has one of {after}"
                reason = Reason.LIMIT_ADDED
            else:
                message = f"{dimension} {before} per card became {after}, the least that {self._target.name} can say"
                reason = Reason.ROUNDED
            step = step_between(dimension, before, after)
            settled.findings.append(Finding(reason, message, self._one.name, step=step))


def _with(request: Request, dimension: Dimension, amount: Memory) -> Request:
    if dimension == "memory":
        return replace(request, memory=amount)
    return request if isinstance(amount, Size) else replace(request, cores=amount)


def _first_reasons(refusal: NoEquivalent) -> str:
    """What came nearest, as much as a message has room for."""
    return "; ".join(refusal.reasons[:2]) or "it has no form for it"
