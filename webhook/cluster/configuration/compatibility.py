"""Chooses the documents that can be in force together, and finds those that cause a problem.

If all are compatible, all are in force. Otherwise those that were in force before are added to the built-in mappings first,
and then the newer ones, the oldest ConfigMap first; a document that is incompatible with those before it is left out. It is
found by bisection, so that one bad document among a thousand costs ten attempts and not a thousand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from webhook.cluster.configuration.documents import DocumentCache, Problems, ValidMapping
from webhook.cluster.registration.match_conditions import expression
from webhook.cluster.registration.matched_names import matched_names_of
from webhook.mapping.document.problem import MappingError, Problem, bug
from webhook.mapping.document.settings import Settings
from webhook.mapping.document.validation import placed
from webhook.mapping.draft import Prepared
from webhook.mapping.load import vendors_with
from webhook.mapping.model.match_names import Capacity
from webhook.mapping.model.policy import Policy, compile_policy
from webhook.mapping.model.policy_problems import SETTINGS

Choice: TypeAlias = Mapping[str, ValidMapping]
"""The document in force of each ConfigMap, by the ConfigMap's name."""


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Combines documents under some settings; made by `compatibility_under`.

    Attributes:
        settings: those in force; keys for unknown vendors are ignored.
        largest_card: bytes, from the settings.
        order: the names of all ConfigMaps, oldest first.
        memo: caches probes.
    """

    settings: Settings
    largest_card: int
    order: Sequence[str]
    memo: DocumentCache

    def best(self, newest: Choice, stable: Choice) -> Choice:
        """Choose the documents that can be in force together.

        Args:
            newest: the current documents that are valid by themselves.
            stable: those that were accepted last.
        """
        probed = {name: document for name, document in newest.items() if not self._own_problems(document)}
        newer, stable = self._within_capacity(probed, stable)
        everything = {name: newer.get(name) or stable[name] for name in self.order if name in newer or name in stable}
        fits = self._tried({}, everything)
        if fits is not None:
            return fits
        chosen = self._grown({}, self._in_order(stable))
        for _ in self.order:
            more = [(name, document) for name, document in self._in_order(newer) if chosen.get(name) is not document]
            grown = self._grown(chosen, more)
            grown = self._grown(
                grown, [(name, document) for name, document in self._in_order(stable) if name not in grown]
            )
            if grown == chosen:
                break
            # Try again: a document may need one that was added after it.
            chosen = grown
        return chosen

    def objections(self, name: str, mapping: ValidMapping, chosen: Choice) -> Problems:
        """Why a document is not in force beside others; never empty for one that `best` has left out."""
        document = mapping.prepared.merged.document
        combined = {**chosen, name: mapping}
        older = by_vendor(combined, self.order)[mapping.vendor]
        if older is not mapping:
            message = f"the vendor {mapping.vendor} is described by {older.source}, whose ConfigMap is older"
            return (placed(Problem(message, ("vendor",), "delete one of the two"), document),)
        found = self._own_problems(mapping) or self._beyond_capacity(mapping, chosen) or self._problems(combined)
        own = [placed(problem, document) for problem in found if problem.source in {"", document.source}]
        return tuple(own or found) or (Problem("it is incompatible with the other documents", source=document.source),)

    def _within_capacity(self, newest: Choice, stable: Choice) -> tuple[Choice, Choice]:
        """The documents whose names fit into the match conditions: first those in force before, then the oldest.

        The names are added up, so there is no need to try combinations.
        """
        capacity = _capacity_beside(())
        newer: dict[str, ValidMapping] = {}
        older = dict(stable)
        for name in sorted(self.order, key=lambda name: name not in stable):
            if name in newest and not capacity.take(newest[name].prepared.vendor.lets_through):
                newer[name] = newest[name]
            elif name in older and capacity.take(older[name].prepared.vendor.lets_through):
                del older[name]
        return newer, older

    def _beyond_capacity(self, mapping: ValidMapping, chosen: Choice) -> Problems:
        """The problem if the match conditions have no space for the names of a document beside others."""
        beyond = _capacity_beside(chosen.values()).take(mapping.prepared.vendor.lets_through)
        if not beyond:
            return ()
        message = f"with it, the names of all documents that let pods through would be {beyond}"
        return (Problem(message, (), "remove names or whole documents"),)

    def _in_order(self, choice: Choice) -> list[tuple[str, ValidMapping]]:
        return [(name, choice[name]) for name in self.order if name in choice]

    def _own_problems(self, mapping: ValidMapping) -> Problems:
        return self.memo.probe(mapping, mapping.prepared.vendor, self.largest_card)

    def _problems(self, choice: Choice) -> Problems:
        """The problems of a choice; none if its documents are compatible."""
        winners = by_vendor(choice, self.order)
        policy = compiled({name: mapping.prepared for name, mapping in winners.items()}, self.settings)
        if not isinstance(policy, Policy):
            return policy
        probes = (
            self.memo.probe(mapping, policy.vendors[name], policy.largest_card) for name, mapping in winners.items()
        )
        return next(filter(None, probes), ())

    def _tried(self, chosen: Choice, more: Choice) -> Choice | None:
        """The choice with `more`, without newer ConfigMaps for the same vendors; None if it has problems."""
        trial = {**chosen, **more}
        winners = by_vendor(trial, self.order)
        remaining = {name: mapping for name, mapping in trial.items() if winners[mapping.vendor] is mapping}
        return None if more.keys() - remaining.keys() or self._problems(remaining) else remaining

    def _grown(self, chosen: Choice, more: Sequence[tuple[str, ValidMapping]]) -> Choice:
        """The choice with those of `more` that are compatible, added one after the other."""
        fits = self._tried(chosen, dict(more))
        if fits is not None:
            return fits
        if len(more) <= 1:
            return chosen
        half = len(more) // 2
        return self._grown(self._grown(chosen, more[:half]), more[half:])


def compatibility_under(settings: Settings, order: Sequence[str], memo: DocumentCache) -> Compatibility:
    """Make a `Compatibility` under some settings; the arguments are its attributes."""
    policy = compiled({}, settings)
    assert isinstance(policy, Policy)  # noqa: S101  (built-in mappings are compatible)
    return Compatibility(settings, policy.largest_card, order, memo)


def _capacity_beside(taken: Iterable[ValidMapping]) -> Capacity:
    """The capacity left in match conditions beside these documents and the built-in ones."""
    capacity = Capacity()
    for vendor in (*vendors_with({}).values(), *(mapping.prepared.vendor for mapping in taken)):
        capacity.take(vendor.lets_through)
    return capacity


def by_vendor(choice: Choice, order: Sequence[str]) -> dict[str, ValidMapping]:
    """The documents by vendor; if two describe one vendor, that of the older ConfigMap."""
    winners: dict[str, ValidMapping] = {}
    for name in order:
        if name in choice:
            winners.setdefault(choice[name].vendor, choice[name])
    return winners


def compiled(own: Mapping[str, Prepared], settings: Settings) -> Policy | Problems:
    """Compile mappings (by vendor) over the built-in ones, under the settings that apply to them.

    Returns:
        The policy, without a digest, or problems that the settings do not cause.
    """
    vendors = vendors_with(own)
    while True:
        try:
            policy = compile_policy(vendors, settings, "")
            expression(matched_names_of(policy))
        except MappingError as error:
            of_settings = [problem for problem in error.problems if problem.source == SETTINGS]
            if not of_settings:
                return error.problems
            settings = without(settings, of_settings)
        except Exception as error:  # noqa: BLE001  (bisection finds the document that causes it)
            return (bug(error, "", None),)
        else:
            return policy


def without(settings: Settings, problems: Sequence[Problem]) -> Settings:
    """Return settings without the keys that problems name."""
    data = settings.model_dump(by_alias=True, exclude_unset=True)
    for problem in problems:
        key, *rest = map(str, problem.path)
        if rest:
            data[key].pop(rest[0], None)
        else:
            data.pop(key, None)
    return Settings.model_validate(data)
