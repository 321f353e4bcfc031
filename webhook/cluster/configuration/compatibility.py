"""Which documents can be in force together, and which of them is to blame where not all can.

All at once, if that works. Else what was in force before comes first, built-in mappings before it, and each newer document is
put to it, the oldest ConfigMap first: one that does not fit with those before it is the bad one. It is looked for by halves,
so that one bad document among a thousand costs ten tries and not a thousand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from webhook.cluster.configuration.documents import DocumentCache, Problems, Sound
from webhook.cluster.registration.match_conditions import expression
from webhook.cluster.registration.matched_names import matched_names_of
from webhook.mapping.document.problem import MappingError, Problem, bug
from webhook.mapping.document.settings import Settings
from webhook.mapping.document.validation import placed
from webhook.mapping.load import Prepared, vendors_with
from webhook.mapping.model.match_names import Capacity
from webhook.mapping.model.policy import SETTINGS, Policy, compile_policy

Choice: TypeAlias = Mapping[str, Sound]
"""The document that is taken of each ConfigMap, by its name."""


@dataclass(frozen=True, slots=True)
class Fitting:
    """Puts documents together under some settings; made by `fitting_under`.

    Attributes:
        settings: what they are put together under; what these say of vendors that are not there does not count.
        largest_card: bytes, as the settings say it.
        order: the names of all ConfigMaps, oldest first.
        memo: of probes.
    """

    settings: Settings
    largest_card: int
    order: Sequence[str]
    memo: DocumentCache

    def best(self, newest: Choice, stable: Choice) -> Choice:
        """What of each ConfigMap can be in force.

        Args:
            newest: the documents that are there now, and in order by themselves.
            stable: those that were accepted last.
        """
        probed = {name: one for name, one in newest.items() if not self._probed_alone(one)}
        newer, stable = self._with_room(probed, stable)
        whole = {name: newer.get(name) or stable[name] for name in self.order if name in newer or name in stable}
        fits = self._tried({}, whole)
        if fits is not None:
            return fits
        chosen = self._grown({}, self._in_order(stable))
        for _ in self.order:
            more = [(name, one) for name, one in self._in_order(newer) if chosen.get(name) is not one]
            grown = self._grown(chosen, more)
            grown = self._grown(grown, [(name, one) for name, one in self._in_order(stable) if name not in grown])
            if grown == chosen:
                break
            # Once more: what was taken may be what another one needed.
            chosen = grown
        return chosen

    def objections(self, name: str, one: Sound, chosen: Choice) -> Problems:
        """Why a document is not taken where others are; never empty for one that `best` has left out."""
        document = one.prepared.merged.document
        joined = {**chosen, name: one}
        older = by_vendor(joined, self.order)[one.vendor]
        if older is not one:
            message = f"the vendor {one.vendor} is described by {older.source}, whose ConfigMap is older"
            return (placed(Problem(message, ("vendor",), "delete one of the two"), document),)
        found = self._probed_alone(one) or self._crowded(one, chosen) or self._problems(joined)
        own = [each for each in found if each.source in {"", document.source}]
        here = [placed(each, document) for each in own] or found
        return tuple(here) or (Problem("it does not go together with the others", source=document.source),)

    def _with_room(self, newest: Choice, stable: Choice) -> tuple[Choice, Choice]:
        """Those of the documents for which match conditions have room: what was in force before comes first, then the oldest.

        What is too much is told by a sum: that is no reason to try documents with each other.
        """
        room = _room_beside(())
        newer: dict[str, Sound] = {}
        older = dict(stable)
        for name in sorted(self.order, key=lambda name: name not in stable):
            if name in newest and not room.take(newest[name].prepared.vendor.lets_through):
                newer[name] = newest[name]
            elif name in older and room.take(older[name].prepared.vendor.lets_through):
                del older[name]
        return newer, older

    def _crowded(self, one: Sound, chosen: Choice) -> Problems:
        """Whether match conditions have room for a document beside others."""
        beyond = _room_beside(chosen.values()).take(one.prepared.vendor.lets_through)
        if not beyond:
            return ()
        message = f"with it the names of all documents that let pods through would be {beyond}"
        return (Problem(message, (), "leave out names, or whole documents"),)

    def _in_order(self, choice: Choice) -> list[tuple[str, Sound]]:
        return [(name, choice[name]) for name in self.order if name in choice]

    def _probed_alone(self, one: Sound) -> Problems:
        return self.memo.probe(one, one.prepared.vendor, self.largest_card)

    def _problems(self, choice: Choice) -> Problems:
        """What stands in the way of a choice; nothing if it fits."""
        winners = by_vendor(choice, self.order)
        policy = compiled({name: one.prepared for name, one in winners.items()}, self.settings)
        if not isinstance(policy, Policy):
            return policy
        probes = (self.memo.probe(one, policy.vendors[name], policy.largest_card) for name, one in winners.items())
        return next(filter(None, probes), ())

    def _tried(self, chosen: Choice, more: Choice) -> Choice | None:
        """The choice with more, without the younger ConfigMaps whose vendors that takes; None if it does not fit."""
        trial = {**chosen, **more}
        winners = by_vendor(trial, self.order)
        left = {name: one for name, one in trial.items() if winners[one.vendor] is one}
        return None if more.keys() - left.keys() or self._problems(left) else left

    def _grown(self, chosen: Choice, more: Sequence[tuple[str, Sound]]) -> Choice:
        """The choice with those of `more` that fit, one after the other; one that does not fit is left out."""
        fits = self._tried(chosen, dict(more))
        if fits is not None:
            return fits
        if len(more) <= 1:
            return chosen
        half = len(more) // 2
        return self._grown(self._grown(chosen, more[:half]), more[half:])


def fitting_under(settings: Settings, order: Sequence[str], memo: DocumentCache) -> Fitting:
    """How documents are put together under some settings; the arguments are the attributes of `Fitting`."""
    policy = compiled({}, settings)
    assert isinstance(policy, Policy)  # noqa: S101  (built-in mappings fit together)
    return Fitting(settings, policy.largest_card, order, memo)


def _room_beside(taken: Iterable[Sound]) -> Capacity:
    """What match conditions still hold beside these documents and the built-in ones."""
    room = Capacity()
    for vendor in (*vendors_with({}).values(), *(one.prepared.vendor for one in taken)):
        room.take(vendor.lets_through)
    return room


def by_vendor(choice: Choice, order: Sequence[str]) -> dict[str, Sound]:
    """The documents by vendor; of two for one vendor that of the older ConfigMap."""
    winners: dict[str, Sound] = {}
    for name in order:
        if name in choice:
            winners.setdefault(choice[name].vendor, choice[name])
    return winners


def compiled(own: Mapping[str, Prepared], settings: Settings) -> Policy | Problems:
    """The policy of mappings (by vendor) over the built-in ones, under as much of the settings as applies to them.

    It has no digest. In its place come the problems that are not of the settings.
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
        except Exception as error:  # noqa: BLE001  (whichever of the documents brings it out is found by halves)
            return (bug(error, "", None),)
        else:
            return policy


def without(settings: Settings, problems: Sequence[Problem]) -> Settings:
    """Settings without the keys that problems name."""
    data = settings.model_dump(by_alias=True, exclude_unset=True)
    for problem in problems:
        key, *rest = map(str, problem.path)
        if rest:
            data[key].pop(rest[0], None)
        else:
            data.pop(key, None)
    return Settings.model_validate(data)
