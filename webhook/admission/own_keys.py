"""Labels and annotations of this webhook without effect: misspelled, misplaced, or with an unknown value."""

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, Literal, TypeAlias

from webhook.labels import DISABLED, ENABLED, INJECT, PREFIX, keys_of

Kind: TypeAlias = Literal["namespace", "pod"]

MOST: Final = 8
"""Keys of one object that are reported."""

LETTERS: Final = 100
"""Of a key or value that is shown."""

_INJECT: Final = {"namespace": (ENABLED, DISABLED), "pod": (DISABLED,)}


def unread_keys(
    kind: Kind, labels: Mapping[str, str], annotations: Mapping[str, str], opt_in: str = INJECT
) -> Iterator[str]:
    """What is wrong with the webhook's keys on a namespace or pod, a sentence each; mode and target have their own checks.

    Args:
        kind: what it is.
        labels: its labels.
        annotations: its annotations.
        opt_in: the label by which a namespace opts in.
    """
    own = opt_in if kind == "namespace" else INJECT
    known = {"label": {*keys_of(kind, "label"), own}, "annotation": {*keys_of(kind, "annotation")}}
    for place, texts in (("label", labels), ("annotation", annotations)):
        for key in islice((key for key in texts if key.startswith(PREFIX) and key not in known[place]), MOST):
            yield f"{place} {key[:LETTERS]} has no effect on a {kind}: {_meant(key, place, known)}"
    value = labels.get(own)
    if value is not None and value not in _INJECT[kind]:
        yield f"label {own}: {value[:LETTERS]!r} has no effect on a {kind}: write {' or '.join(_INJECT[kind])}"


def _meant(key: str, place: str, known: Mapping[str, set[str]]) -> str:
    other = "annotation" if place == "label" else "label"
    if key in known[other]:
        return f"write it as {'an' if other == 'annotation' else 'a'} {other}"
    # The prefix is the same everywhere: without it, likeness is that of the names.
    names = {one.removeprefix(PREFIX): (one, where) for where in (place, other) for one in sorted(known[where])}
    near = difflib.get_close_matches(key.removeprefix(PREFIX)[:64], names, n=1)
    if not near:
        return f"known are {', '.join(sorted(known[place]))}"
    meant, where = names[near[0]]
    return f"did you mean the {where} {meant}?"
