"""The keys of a pod that can matter to a decision: what a policy reads or writes, of what a pod carries."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from webhook.labels import PREFIX
from webhook.mapping.model.known_names import advised_names
from webhook.mapping.model.near_misses import NearMiss, Nearness
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import MAX_KEY, NameSet

MAX_KNOWN: Final = 4096
"""Keys of pods whose answer is stored; the labels of one cluster's pods have some hundred."""

_VARIABLE: Final = re.compile(r"\{[^{}]*\}")


class _Answers(dict[str, bool | NearMiss]):
    """Whether a key matters, by key, or what it was probably meant to be: the answers for keys of earlier pods are stored."""

    __slots__ = ("_marks", "_near", "_read")

    def __init__(self, read: NameSet, marks: NameSet, near: Nearness) -> None:
        super().__init__()
        self._read = read
        self._marks = marks
        self._near = near

    def __missing__(self, key: str) -> bool | NearMiss:
        if len(key) > MAX_KEY:  # the API server stores none so long, and searching it takes time
            return True
        matters: bool | NearMiss = key.startswith(PREFIX) or key in self._read or key in self._marks.exact
        # A mark such as `system.example/*` says nothing about a key of that system, misspelled.
        matters = matters or self._near.find_in_metadata(key) or key in self._marks
        if len(self) >= MAX_KNOWN:
            self.clear()
        self[key] = matters
        return matters


class ReadKeys:
    """The labels, annotations and node selector keys that any step of a decision may read, write or report.

    The steps see no other keys of a pod (`webhook.admission.facts`), and `require` keeps them from writing others. A key of
    one place counts in all of them, and a variable part stands for any text.
    """

    __slots__ = ("_matters",)

    def __init__(self, read: NameSet, marks: NameSet, near: Nearness) -> None:
        """Take what requests are read from and written to, marks, hints and guarded keys, and what is nearly a key."""
        self._matters = _Answers(read, marks, near)

    def among(self, texts: Mapping[str, str] | None) -> dict[str, str] | None:
        """Return the entries that can matter, in their order; None for None."""
        matters = self._matters
        return None if texts is None else {key: text for key, text in texts.items() if matters[key]}

    def near_misses(self, texts: Iterable[str]) -> list[tuple[str, NearMiss]]:
        """Return the keys that are only nearly known, with those that were probably meant."""
        matters = self._matters
        return [(key, near) for key in texts if (near := matters[key]) is not True and near is not False]

    def require(self, keys: Iterable[str]) -> None:
        """Check keys that a step writes.

        Raises:
            LookupError: one is missing here, so that a user's value of it was hidden from the step.
        """
        for key in keys:
            if not self._matters[key]:
                raise LookupError(f"{key} is written, but not among the keys that decisions read")


def read_keys(vendors: Iterable[Vendor], others: Iterable[str], near: Nearness) -> ReadKeys:
    """Return the keys that matter with these vendors, active or not.

    Args:
        vendors: all of the policy: an inactive one can be a target.
        others: keys that the settings name.
        near: finds keys that are nearly one of the vendors'.
    """
    vendors = list(vendors)
    read = {_VARIABLE.sub("*", key) for vendor in vendors for key in _keys(vendor)} | {*others}
    marks = {_VARIABLE.sub("*", key) for vendor in vendors for key in _marks(vendor)}
    return ReadKeys(NameSet.of(read), NameSet.of(marks), near)


def _keys(vendor: Vendor) -> Iterator[str]:
    """Yield the keys of a vendor as its document writes them, with variables in braces and ``*`` for any text."""
    for key in vendor.keys.values():
        yield from (template.text for template in key.templates)  # resource names, too: one as a label is reported
    yield from (*vendor.place.node_selector, *vendor.place.labels, *vendor.place.annotations)


def _marks(vendor: Vendor) -> Iterator[str]:
    """Yield the keys that schedulers write, hints for these, guarded keys, and reported ones of other systems, likewise."""
    document = vendor.document
    yield from (entry if isinstance(entry, str) else entry.label for entry in document.owned)
    yield from document.hints
    yield from (name.partition("=")[0] for name in (*vendor.owned.belongs.exact, *vendor.owned.belongs.globs))
    yield from (entry.name for entry in advised_names(document) if entry.report and entry.place != "resource")
    yield from (document.config_maps,) if document.config_maps is not None else ()
    for rule in vendor.guard.rules:
        yield from rule.names if rule.place in {"annotation", "label"} else ()
