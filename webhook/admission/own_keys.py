"""Labels and annotations of this webhook without effect: misspelled, misplaced, or with an unknown value."""

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, Literal, TypeAlias

from webhook.finding import Finding
from webhook.labels import DISABLED, ENABLED, FORBIDDEN, INJECT, OPT_OUT, PREFIX, Place, keys_of
from webhook.mapping.model.policy import Policy
from webhook.reasons import Reason

OwnKeyKind: TypeAlias = Literal["namespace", "pod"]

MOST: Final = 8
"""The most labels, and the most annotations, of one object that are reported."""

LETTERS: Final = 100
"""The most characters of a key or value in a message."""

_LABEL: Final[Place] = "label"
_ANNOTATION: Final[Place] = "annotation"
_OF_PODS: Final = {INJECT: (DISABLED,)}
_KINDS: Final[tuple[OwnKeyKind, ...]] = ("namespace", "pod")
_AN: Final[Mapping[Place, str]] = {"label": "a label", "annotation": "an annotation"}
_KNOWN: Final = {(kind, place): frozenset(keys_of(kind, place)) for kind in _KINDS for place in _AN}


def unread_keys(
    kind: OwnKeyKind, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None, policy: Policy
) -> Iterator[Finding]:
    """Yield what is wrong with the webhook's keys on a namespace or pod.

    Other steps report values of annotations, of the mode and of the roll-out.

    Args:
        kind: the kind of object.
        labels: the labels of the object.
        annotations: its annotations.
        policy: names the label by which a namespace opts in, and the mappings' own keys below the webhook's prefix.
    """
    for texts, place in ((labels, _LABEL), (annotations, _ANNOTATION)):
        if not texts:
            continue
        known = _KNOWN[kind, place]
        # Nearly always there is none: for most pods this comparison is all.
        own = [key for key in texts if key not in known and key.startswith(PREFIX)]
        if own:
            # Sorted, as the API server sends them and a manifest does not: the report is the same for both.
            for key in islice((key for key in sorted(own) if not _read(key, place, kind, policy)), MOST):
                message = f"{place} {key[:LETTERS]} has no effect on a {kind}: {_meant(key, place, kind, policy)}"
                yield Finding(Reason.OWN_KEY_UNUSED, message, None, f"{place} {key[:LETTERS]}")
    if labels:
        yield from _odd_values(kind, labels, policy.settings.opt_in_label)


def _read(key: str, place: Place, kind: OwnKeyKind, policy: Policy) -> bool:
    """Whether a key below the prefix is the setting's or a mapping's, or `survey` reports it as a misplaced one."""
    if kind == "namespace":
        return place == "label" and key == policy.settings.opt_in_label
    names = policy.labels if place == "label" else policy.annotations
    return key in policy.request_keys or bool(names.owners(key))


def _odd_values(kind: OwnKeyKind, labels: Mapping[str, str], opt_in: str) -> Iterator[Finding]:
    """Report unknown values of labels that have only a few."""
    allowed = _OF_PODS if kind == "pod" else {opt_in: (ENABLED, DISABLED), OPT_OUT: (FORBIDDEN,)}
    for key, values in allowed.items():
        value = labels.get(key)
        if value is not None and value not in values:
            shown = value[:LETTERS]
            message = f"label {key}: {shown!r} has no effect on a {kind}: write {' or '.join(values)}, or remove it"
            yield Finding(Reason.OWN_KEY_UNUSED, message, None, f"label {key}", shown)


def _meant(key: str, place: Place, kind: OwnKeyKind, policy: Policy) -> str:
    """What to write instead of an unknown key."""
    other: Place = "annotation" if place == "label" else "label"
    other_kind: OwnKeyKind = "pod" if kind == "namespace" else "namespace"
    if key in _KNOWN[kind, other]:
        return f"write it as {_AN[other]}"
    for where in (place, other):
        if key in _KNOWN[other_kind, where]:
            return f"write it as {_AN[where]} of the {other_kind}"
    # Without the prefix, which all of them share, the names themselves are compared.
    names = {
        name.removeprefix(PREFIX): (name, where) for where in (other, place) for name in _names(kind, where, policy)
    }
    near = difflib.get_close_matches(key.removeprefix(PREFIX)[:64], names, n=1)
    if not near:
        return f"known are {', '.join(sorted(_KNOWN[kind, place]))}"
    meant, where = names[near[0]]
    return f"did you mean the {where} {meant}?"


def _names(kind: OwnKeyKind, place: Place, policy: Policy) -> list[str]:
    """The keys of an object below the webhook's prefix, those of mappings included."""
    names = set(_KNOWN[kind, place])
    if kind == "namespace" and place == "label":
        names.add(policy.settings.opt_in_label)
    elif kind == "pod":
        keys = (key for vendor in policy.vendors.values() for key in vendor.keys.values() if key.place == place)
        names.update(template.text for key in keys for template in key.templates if template.text.startswith(PREFIX))
    return sorted(names)
