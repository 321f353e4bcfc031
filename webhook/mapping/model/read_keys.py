"""The keys of a pod that can matter to a decision: what a policy reads or writes, of what a pod carries."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from webhook.labels import PREFIX
from webhook.mapping.model.known_names import advised_names
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import MAX_KEY, NameSet

MAX_KNOWN: Final = 4096
"""Keys of pods whose answer is stored; the labels of one cluster's pods have some hundred."""

_VARIABLE: Final = re.compile(r"\{[^{}]*\}")


class _Answers(dict[str, bool]):
    """Whether a key matters, by key: the answers for keys of earlier pods are stored."""

    __slots__ = ("_names",)

    def __init__(self, names: NameSet) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, key: str) -> bool:
        if len(key) > MAX_KEY:  # the API server stores none so long, and searching it takes time
            return True
        matters = key.startswith(PREFIX) or key in self._names
        if len(self) >= MAX_KNOWN:
            self.clear()
        self[key] = matters
        return matters


class ReadKeys:
    """The labels, annotations and node selector keys that any step of a decision may read or write.

    The steps see no other keys of a pod (`webhook.admission.facts`), and `require` keeps them from writing others. A key of
    one place counts in all of them, and a variable part stands for any text.
    """

    __slots__ = ("_matters",)

    def __init__(self, names: NameSet) -> None:
        """All of them."""
        self._matters = _Answers(names)

    def among(self, texts: Mapping[str, str] | None) -> dict[str, str] | None:
        """Return the entries that can matter, in their order; None for None."""
        matters = self._matters
        return None if texts is None else {key: text for key, text in texts.items() if matters[key]}

    def require(self, keys: Iterable[str]) -> None:
        """Check keys that a step writes.

        Raises:
            LookupError: one is missing here, so that a user's value of it was hidden from the step.
        """
        for key in keys:
            if not self._matters[key]:
                raise LookupError(f"{key} is written, but not among the keys that decisions read")


def read_keys(vendors: Iterable[Vendor], others: Iterable[str]) -> ReadKeys:
    """Return the keys that matter with these vendors, active or not.

    Args:
        vendors: all of the policy: an inactive one can be a target.
        others: keys that the settings name.
    """
    return ReadKeys(NameSet.of({_VARIABLE.sub("*", key) for vendor in vendors for key in _keys(vendor)} | {*others}))


def _keys(vendor: Vendor) -> Iterator[str]:
    """Yield the keys of a vendor as its document writes them, with variables in braces and ``*`` for any text."""
    document = vendor.document
    for key in vendor.keys.values():
        yield from (template.text for template in key.templates)  # resource names, too: one as a label is reported
    yield from (*vendor.place.node_selector, *vendor.place.labels, *vendor.place.annotations)
    yield from (entry if isinstance(entry, str) else entry.label for entry in document.owned)
    yield from document.hints
    yield from (name.partition("=")[0] for name in (*vendor.owned.belongs.exact, *vendor.owned.belongs.globs))
    yield from (entry.name for entry in advised_names(document) if entry.report and entry.place != "resource")
    yield from (document.config_maps,) if document.config_maps is not None else ()
    for rule in vendor.guard.rules:
        yield from rule.names if rule.place in {"annotation", "label"} else ()
