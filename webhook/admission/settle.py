"""One container: its keys read, filled in, settled, and written for the target."""

from collections.abc import Container, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from webhook import labels
from webhook.admission.collect import ContainerRequest
from webhook.admission.left_alone import Left, left_several, perhaps_counted, several_bindings
from webhook.admission.overrides import Overrides, defaults_for, namespace_defaults, target_of
from webhook.admission.translate import Translator
from webhook.finding import Denied, Finding, Step
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Default, Key, Vendor
from webhook.mapping.requests.conversion import step_between
from webhook.mapping.requests.defaults import fewer
from webhook.mapping.requests.denials import LeftAlone, spelling
from webhook.mapping.requests.key_values import KeyValue, format_value
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.result import Defaults, Reading
from webhook.mapping.requests.writing import Written
from webhook.quantity import Number
from webhook.reasons import Reason
from webhook.request import FREE, Dimension, Memory, Request


class Settled(Struct):
    """The settled request of one container.

    Attributes:
        requested: the container and its keys.
        target: the vendor that it is written for.
        request: its allocation, as the target's keys express it.
        form: the target's form that the keys take.
        filled: dimensions with their defaults.
        reading: what the source's keys meant, before anything was rounded or dropped for the target.
        resources: resource names to write with their number, or None to remove.
        keys: target keys in labels and annotations: (key, name, text).
        dropped: annotations of the source that carried the request.
        findings: warnings for the user.
    """

    requested: ContainerRequest
    target: Vendor
    request: Request
    form: str
    filled: Defaults
    reading: Reading
    resources: dict[str, Number | None] = {}
    keys: list[tuple[Key, str, str]] = []
    dropped: list[str] = []
    findings: list[Finding] = []

    @property
    def translated(self) -> bool:
        """Whether it is written in another vendor's keys."""
        return self.target is not self.requested.vendor


def settle(
    one: ContainerRequest, given: Overrides, policy: Policy, without: Container[Dimension] = ()
) -> Settled | Left:
    """Reads and writes one container, or leaves it.

    Args:
        one: the container.
        given: the overrides of pod and namespace.
        policy: the vendors and settings.
        without: dimensions for which the namespace's default is left out.

    Raises:
        Denied: the vendor refuses the keys, or the target cannot express the request.
    """
    target, crossing = target_of(one.vendor, given, policy)
    if one.copy is not None and one.copy.vendor.name in one.vendor.document.beside:
        return Left(one, one.vendor.document.beside[one.copy.vendor.name], placed=True)
    if one.others or several_bindings(one):
        return left_several(one, target)
    _check_promises(one, target, policy)
    namespace, findings = namespace_defaults(given, policy)
    try:
        settled = _Settler(one, target, given, policy).settle(
            {dimension: default for dimension, default in namespace.items() if dimension not in without}
        )
    except LeftAlone as left:
        return Left(one, left.finding.message, placed=left.finding.reason is not Reason.SIZE_UNKNOWN)
    if crossing is not None:
        findings.append(replace(crossing, container=one.name))
    settled.findings[:0] = [*one.findings, *findings]
    return settled


def _check_promises(one: ContainerRequest, target: Vendor, policy: Policy) -> None:
    """A copy means what it copies; and only at home may a container be given more than it is guaranteed."""
    copy = one.copy
    if copy is not None:
        both = [read(each.vendor, each.key_values, {}, policy.largest_card, one.name).request for each in (one, copy)]
        if both[0] != both[1]:
            listed = " and ".join(", ".join(str(said) for said in each.key_values.values()) for each in (one, copy))
            message = f"{listed}: the keys of {copy.vendor.name} copy those of {one.vendor.name}, but mean {both[1]}"
            raise one.deny(Reason.TWO_VENDORS, f"{message} instead of {both[0]}: request the same in both")
    if target is not one.vendor:
        for low, high in (pair for each in (one, copy) if each is not None for pair in (*each.apart, *_above(each))):
            message = f"{low} is the guarantee and {high} the maximum, and only {one.vendor.name} supports both"
            raise one.deny(Reason.TWINS_DIFFER, f"{message}: write the same value to both", high)


def _above(one: ContainerRequest) -> Iterator[tuple[KeyValue, KeyValue]]:
    """What is requested, and the key that allows another amount than that."""
    for said in one.key_values.values():
        ceiling = one.vendor.keys[said.key_name].ceiling
        if ceiling is not None and ceiling[0] in one.key_values:
            requested = one.key_values[ceiling[0]]
            if said.number != requested.number * ceiling[1]:
                yield requested, said


class _Settler:
    """The steps for one container under one set of defaults."""

    __slots__ = ("_given", "_one", "_policy", "_target")

    def __init__(self, one: ContainerRequest, target: Vendor, given: Overrides, policy: Policy) -> None:
        self._one = one
        self._target = target
        self._given = given
        self._policy = policy

    def settle(self, namespace: Mapping[Dimension, Default | None]) -> Settled:
        """With as many of the namespace's defaults as can be written and change nothing that is specified."""
        refusal: Denied | None = None
        why = ""
        for kept in fewer(namespace):
            try:
                settled = self._settle(kept)
            except Denied as refused:
                refusal = refused
                why = why or refused.finding.message
                continue
            changed = self._changed(settled) if kept else None
            if changed is not None:
                why = why or changed
                continue
            for dimension, default in namespace.items():
                if dimension not in kept:
                    self._pass_over(settled, dimension, default, why)
            return settled
        assert refusal is not None  # noqa: S101  (without the namespace's defaults nothing is changed by them)
        raise refusal

    def _settle(self, namespace: Mapping[Dimension, Default | None]) -> Settled:
        one = self._one
        defaults, wordless = defaults_for(one.vendor, self._target, namespace)
        counted = perhaps_counted(one, self._target)
        uncounted = defaults.pop("devices", None) if counted is not None else None
        reading = read(
            one.vendor, one.key_values, defaults, self._policy.largest_card, one.name, home=self._target is one.vendor
        )
        settled = self._kept(reading) if self._target is one.vendor else self._translated(reading)
        for dimension in reading.passed_over:
            specified = ", ".join(str(said) for said in one.key_values.values())
            self._pass_over(settled, dimension, defaults[dimension], f"no key for it can be added to {specified}")
        if uncounted is not None:
            self._pass_over(settled, "devices", uncounted, f"{counted} may already be the count")
        for dimension, default in wordless.items():
            self._pass_over(settled, dimension, default, f"{self._target.name} has no key for it")
        return settled

    def _pass_over(self, settled: Settled, dimension: Dimension, default: Default | None, why: str) -> None:
        named = default.named(dimension) if default is not None else f"the namespace's default-{dimension}: 0"
        message = f"{named} was not applied: {why}"
        settled.findings.insert(
            0, Finding(Reason.DEFAULT_NOT_APPLIED, message, self._one.name, f"{labels.DEFAULT_PREFIX}{dimension}")
        )

    def _changed(self, settled: Settled) -> str | None:
        """What the namespace's defaults made of a specified dimension, by rounding up in the target's keys."""
        reading = settled.reading
        rounded = [
            dimension
            for dimension in reading.specified
            if getattr(settled.request, dimension) != getattr(reading.request, dimension)
        ]
        if not rounded:
            return None
        given = self._given._replace(defaults=(None, None, None))
        try:
            alone = _Settler(self._one, self._target, given, self._policy).settle({}).request
        except Denied:
            return None
        for dimension in rounded:
            without, filled = getattr(alone, dimension), getattr(settled.request, dimension)
            if without != filled:
                return f"{dimension} would become {filled} instead of {without}"
        return None

    def _kept(self, reading: Reading) -> Settled:
        """In the source's own keys: only corrections, filled dimensions and promotions are written."""
        one = self._one
        settled = Settled(
            one, one.vendor, reading.spelled or reading.request, reading.form.name, reading.filled, reading
        )
        settled.findings.extend(reading.findings)
        for name, number in reading.corrections.items():
            self._put(settled, reading.form.keys[name], number)
        for key in one.promoted:
            said = next(said for said in one.all_key_values.values() if said.key == key)
            settled.resources.setdefault(key, said.number)
        for name, said in reading.added.items():
            self._fill(settled, reading, reading.form.keys[name], said.number)
        return settled

    def _fill(self, settled: Settled, reading: Reading, word: Key, number: Number) -> None:
        key = self._put(settled, word, number)
        for dimension in word.dimensions:
            default = reading.filled.get(dimension)
            if default is None:
                continue
            amount = getattr(settled.request, dimension)
            message = _filled_text(dimension, default)
            step: Step | None = None
            if amount != default.value and not isinstance(default.value, int):
                message = f"{message}, rounded up to {amount}"
                step = step_between(dimension, default.value, amount)
            message = f"{message}; set {key} to change it"
            settled.findings.append(
                Finding(Reason.DEFAULT_FILLED, message, self._one.name, key, format_value(number), step)
            )

    def _put(self, settled: Settled, word: Key, number: Number) -> str:
        """Writes a key in the spelling that the container uses."""
        said = self._one.all_key_values.get(word.name)
        binding: dict[str, str] = {"container": self._one.name}
        for other in self._one.all_key_values.values():
            binding |= dict(other.binding)
        key = said.key if said is not None else spelling(word, binding)
        if "{" in key:
            raise self._one.deny(
                Reason.REFUSED_BY_VENDOR, f"{key} is required, and the other keys do not determine it: write it"
            )
        if word.place == "resource":
            settled.resources[key] = number
        else:
            settled.keys.append((word, key, format_value(number)))
        return key

    def _translated(self, reading: Reading) -> Settled:
        one, target = self._one, self._target
        findings = list(reading.findings)
        request, written = Translator(one, target, self._given, self._policy).write(reading.request, findings)
        got, form = written.reading.request, written.form.name
        settled = Settled(one, target, got, form, reading.filled, reading, findings=findings)
        self._tell_filled(settled, reading, written)
        self._tell_rounding(settled, request, written)
        for said, word in self._leaving():
            if word.place == "resource":
                settled.resources[said.key] = None
            elif word.place == "annotation":
                settled.dropped.append(said.key)
                if word.twin is not None:
                    settled.dropped.extend(self._both_keys(word, said))
            if word.kind == "other" and word.place != "nodeSelector" and word.ceiling is None:
                message = f"{said} has no meaning for {target.name} and was removed"
                settled.findings.append(Finding(Reason.WORD_NOT_CARRIED, message, one.name, said.key, said.text))
        for name, said in written.keys.items():
            word = target.keys[name]
            if word.retired is not None:
                message = f"{said} was written, a retired key: {' '.join(word.retired.split())}"
                settled.findings.append(Finding(Reason.WORD_RETIRED, message, one.name, said.key, said.text))
            if word.place == "resource":
                if not self._policy.resources.owners(said.key):
                    message = f"{target.name} is inactive and no active vendor reads {said.key}: choose another target"
                    raise one.deny(Reason.READ_BACK_DIFFERS, message)
                settled.resources[said.key] = said.number
            else:
                keys = self._both_keys(word, said) if word.twin is not None else [said.key]
                settled.keys.extend((word, key, said.text) for key in keys)
        return settled

    def _leaving(self) -> Iterator[tuple[KeyValue, Key]]:
        """The keys of the source as they stand, and those that copy them."""
        for one in (self._one, self._one.copy):
            if one is not None:
                for said in one.all_key_values.values():
                    yield said, one.vendor.keys[said.key_name]

    def _both_keys(self, word: Key, said: KeyValue) -> list[str]:
        """The key that a key is written under and its twin's."""
        binding = {**dict(said.binding), "container": self._one.name}
        keys = [template.render(binding) for template in (word.spellings[0], *([word.twin] if word.twin else []))]
        return [key for key in keys if key is not None]

    def _tell_filled(self, settled: Settled, reading: Reading, written: Written) -> None:
        for dimension, default in reading.filled.items():
            keys = [f"{said}" for name, said in written.keys.items() if dimension in self._target.keys[name].dimensions]
            message = _filled_text(dimension, default)
            if keys:
                message = f"{message}, written as {', '.join(keys)}"
            settled.findings.append(Finding(Reason.DEFAULT_FILLED, message, self._one.name))

    def _tell_rounding(self, settled: Settled, asked: Request, written: Written) -> None:
        got = written.reading.request
        for dimension in ("memory", "cores"):
            before: Memory = getattr(asked, dimension)
            after: Memory = getattr(got, dimension)
            if before == after:
                continue
            if before is FREE:
                message = f"{dimension} had no limit; {self._target.name} limits it to {after}"
                reason = Reason.LIMIT_ADDED
            else:
                least = f"the least that {self._target.name} can express"
                message = f"{dimension} {before} per device was rounded up to {after}, {least}"
                reason = Reason.ROUNDED
            step = step_between(dimension, before, after)
            settled.findings.append(Finding(reason, message, self._one.name, step=step))


def _filled_text(dimension: Dimension, default: Default) -> str:
    """The beginning of the message about a default that applies."""
    missing = "device count" if dimension == "devices" else dimension
    return f"no {missing} requested: the {default.origin}'s default of {default.value} applies"
