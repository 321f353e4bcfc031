"""The keys of a pod that can matter to a decision: what a policy reads or writes, of what a pod carries."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from webhook.labels import PREFIX
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation.glob import glob_pattern
from webhook.mapping.notation.pattern import MAX_KEY

MAX_KNOWN: Final = 4096
"""Keys of pods whose answer is stored; the labels of one cluster's pods have some hundred."""

_VARIABLE: Final = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class ReadKeys:
    """The labels, annotations and node selector keys that any step of a decision reads or writes.

    A key of one place counts in all of them, and a variable part stands for any text: taking a key in that does not matter
    costs time, leaving one out would be wrong.

    Attributes:
        exact: whole keys.
        pattern: all others, for ``fullmatch``.
        known: the answer for keys of earlier pods.
    """

    exact: frozenset[str]
    pattern: re.Pattern[str]
    known: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def among(self, texts: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return the entries that can matter, in their order."""
        known = self.known
        return [pair for pair in texts.items() if (known[pair[0]] if pair[0] in known else self._matters(pair[0]))]

    def _matters(self, key: str) -> bool:
        if len(key) > MAX_KEY:  # the API server stores none so long, and searching it takes time
            return True
        matters = key in self.exact or key.startswith(PREFIX) or self.pattern.fullmatch(key) is not None
        if len(self.known) >= MAX_KNOWN:
            self.known.clear()
        self.known[key] = matters
        return matters


def read_keys(vendors: Iterable[Vendor], others: Iterable[str]) -> ReadKeys:
    """Return the keys that matter with these vendors, active or not.

    Args:
        vendors: all of the policy: an inactive one can be a target.
        others: keys that the settings name.
    """
    keys = {_VARIABLE.sub("*", key) for vendor in vendors for key in _keys(vendor)} | {*others}
    patterns = sorted(key for key in keys if "*" in key)
    return ReadKeys(
        frozenset(key for key in keys if "*" not in key),
        re.compile("|".join(map(glob_pattern, patterns)) or "(?!)", re.DOTALL),
    )


def _keys(vendor: Vendor) -> Iterator[str]:
    """Yield the keys of a vendor as its document writes them, with variables in braces and ``*`` for any text."""
    document = vendor.document
    for key in vendor.keys.values():
        yield from (template.text for template in key.templates)  # resource names, too: one as a label is reported
    yield from (*vendor.place.node_selector, *vendor.place.labels, *vendor.place.annotations)
    yield from (entry if isinstance(entry, str) else entry.label for entry in document.owned)
    yield from document.hints
    for rule in vendor.guard.rules:
        yield from rule.names if rule.place in {"annotation", "label"} else ()
