"""One container's request in another vendor's keys: what is written, what is removed, and what is lost or rounded."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from webhook.admission.advice import filled_in, not_expressed
from webhook.admission.settled import Intent, Settled, with_twin
from webhook.mapping.model.keys import Form, Key
from webhook.mapping.values import KeyValue, LeftAlone, Reading, step_between
from webhook.mapping.writing import MAX_SELECTED, NoEquivalent, Written
from webhook.reasons import Finding, Reason
from webhook.request import UNLIMITED, Memory, Request

_SELECTED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/+-]{0,63}")
"""A model's name, a part of it, or a UUID: an attribute of a device has at most 64 characters."""


def translated(intent: Intent, reading: Reading) -> Settled:
    """Settle a request in the target's keys, without those of the source; report what is lost or rounded."""
    try:
        request, written, findings = _written_for(intent, reading)
    except NoEquivalent as failure:
        raise not_expressed(intent, reading, str(failure)) from None
    form = written.form
    settled = Settled(intent.container, intent.target, written.reading.request, form, reading, translated=True)
    settled.findings += [*reading.findings, *findings]
    for dimension in reading.filled if not intent.whole_by_count else ():
        own = (str(entry) for name, entry in written.keys.items() if dimension in form.keys[name].dimensions)
        how = f", written as {entries}" if (entries := ", ".join(own)) else ""
        settled.findings.append(filled_in(intent, settled, dimension, how))
    _report_rounding(settled, request)
    _remove_source(settled)
    _add_target(intent, settled, written)
    return settled


def _written_for(intent: Intent, reading: Reading) -> tuple[Request, Written, tuple[Finding, ...]]:
    """The request of a reading as the target's keys, if need be without dimensions that the mapping permits to drop.

    Returns:
        The request as it is written, before rounding; its keys; and warnings.

    Raises:
        LeftAlone: the target cannot express whole devices that a plain device plugin serves.
        NoEquivalent: the target cannot express it.
    """
    container, target, request = intent.container, intent.target, reading.request
    try:
        return intent.written(request)
    except NoEquivalent as error:
        failure = error
    if _stays_plain(intent, reading):
        message = (
            f"{container.shown} requests whole devices, which {target.name} cannot express: left to the device plugin"
        )
        raise LeftAlone(Finding(Reason.NO_EQUIVALENT, message, container.name))
    dropped: list[Finding] = []
    for dimension in target.drop:
        amount = getattr(request, dimension)
        if amount is UNLIMITED:
            continue
        request = replace(request, **{dimension: UNLIMITED})
        message = f"{target.name} cannot limit {dimension}: the request of {amount} was dropped"
        dropped.append(Finding(Reason.DIMENSION_DROPPED, message, container.name))
        try:
            written_request, written, assumed = intent.written(request)
        except NoEquivalent as error:
            failure = error
            continue
        return written_request, written, (*assumed, *dropped)
    raise NoEquivalent(f"({request}): {'; '.join(failure.reasons[:2]) or 'none of its forms fits'}")


def _stays_plain(intent: Intent, reading: Reading) -> bool:
    """Whether it is whole devices that a plain device plugin serves as well, by choice, and no order of the pod's own."""
    container = intent.container
    meant = intent.overrides.bare.whole or "memory" in reading.specified
    return meant and not intent.chosen and reading.request.whole and container.plain


def _report_rounding(settled: Settled, request: Request) -> None:
    """Report limits and amounts that differ from `request`, because the target can express no others."""
    target = settled.target.name
    for dimension in ("memory", "cores"):
        before: Memory = getattr(request, dimension)
        after: Memory = getattr(settled.request, dimension)
        if before == after:
            continue
        reason = Reason.LIMIT_ADDED if before is UNLIMITED else Reason.ROUNDED
        message = f"{dimension} had no limit; {target} limits it to {after}"
        if before is not UNLIMITED:
            least = f"the least that {target} can express"
            message = f"{dimension} {before} per device was rounded up to {after}, {least}"
        step = step_between(dimension, before, after)
        settled.findings.append(Finding(reason, message, settled.requested.name, step=step))


def _remove_source(settled: Settled) -> None:
    """Remove the keys of the source, and those that copy them; report those that have no meaning for the target."""
    name, target = settled.requested.name, settled.target.name
    for container in filter(None, (settled.requested, settled.requested.copy)):
        for entry in container.all_key_values.values():
            key = container.vendor.keys[entry.key_name]
            if key.place in {"resource", "borrowed"}:
                settled.resources[entry.key] = None
            elif key.place == "annotation":
                settled.dropped += [entry.key, *(with_twin(key, entry, name) if key.twin is not None else ())]
            # Of a ceiling its request says the rest, if it is there.
            alone = key.ceiling is not None and key.ceiling.of not in container.key_values
            if alone or _is_lost(key, container.vendor.forms):
                means = "selects no devices of" if key.written == "items" else "has no meaning for"
                message = f"{entry} {means} {target} and was removed"
                settled.findings.append(Finding(Reason.KEY_NOT_CARRIED, message, name, entry.key, entry.text))


def _is_lost(key: Key, forms: Sequence[Form]) -> bool:
    """Whether a key of the source says something that is not part of a request: a text too, unless a form reads by it."""
    if key.place == "nodeSelector" or key.ceiling is not None:
        return False
    if key.kind != "text" or key.place != "annotation" or key.row_of is not None:
        return key.kind == "other" or key.written == "items"
    return not any(key.name in when.keys for form in forms if form.reads for when in form.when)


def _add_target(intent: Intent, settled: Settled, written: Written) -> None:
    """Add the keys of the target."""
    target, container = settled.target, settled.requested
    for entry in written.keys.values():
        key = target.keys[entry.key_name]
        if key.retired is not None:
            message = f"{entry} was written, a retired key: {' '.join(key.retired.split())}"
            settled.findings.append(Finding(Reason.KEY_RETIRED, message, container.name, entry.key, entry.text))
        if key.place == "claim":
            settled.claim[key.name] = entry
        elif key.place != "resource":
            settled.keys += [(key, name, entry.text) for name in with_twin(key, entry, container.name)]
        elif intent.policy.resources.owners(entry.key):
            settled.resources[entry.key] = entry.number
        else:
            message = f"{target.name} is inactive and no active vendor reads {entry.key}: choose another target"
            raise container.deny(Reason.READ_BACK_DIFFERS, message)
    if target.claim is not None:
        settled.claim.update((entry.key_name, entry) for entry in _selected(intent))


def _selected(intent: Intent) -> Iterator[KeyValue]:
    """Yield the attributes of devices that the pod selects by annotations of the source."""
    selects = intent.container.vendor.selects
    for key in intent.target.keys.values():
        if key.selects is not None:
            signed = (("", getattr(selects, key.selects)), ("!", getattr(selects, f"not_{key.selects}")))
            listed = [f"{sign}{value}" for sign, name in signed if name for value in _listed(intent, name)]
            values = [value.lower() if key.selects == "model" else value for value in listed]
            if values:
                yield KeyValue(key.name, key.spellings[0].text, ",".join(dict.fromkeys(values)))


def _listed(intent: Intent, annotation: str) -> list[str]:
    """The names of devices in an annotation."""
    parts = map(str.strip, intent.overrides.annotations.get(annotation, "").split(","))
    listed = [value for value in parts if value]
    if len(listed) > MAX_SELECTED or not all(map(_SELECTED.fullmatch, listed)):
        message = f"{annotation}: a claim selects by at most {MAX_SELECTED} names of letters, digits, spaces and ._:/+-"
        raise intent.container.deny(Reason.NO_EQUIVALENT, f"{message}, with commas between them")
    return listed
