"""Namespaces from documents, for a server without a cluster: a review has only a namespace's name."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from webhook.admission.decision import Namespace
from webhook.labels import ENABLED, INJECT


@dataclass(frozen=True, slots=True)
class Described:
    """Namespaces from documents; any other counts as opted in."""

    known: Mapping[str, Namespace]
    opt_in: str = INJECT

    def lookup(self, name: str) -> Namespace:
        """Return the namespace as described, otherwise one that has opted in: its pods are sent here deliberately."""
        return self.known.get(name) or _opted_in(name, self.opt_in)

    async def fetch(self, name: str) -> Namespace:
        """Return what `lookup` returns: there is no other source."""
        return self.lookup(name)


@lru_cache(maxsize=256)
def _opted_in(name: str, opt_in: str) -> Namespace:
    return Namespace(name, {opt_in: ENABLED})
