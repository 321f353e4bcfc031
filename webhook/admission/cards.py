"""The card that a pod selects its node by: what makes a percentage of memory a size, and a size a percentage.

Which card a pod will get is not known when it is admitted, unless the pod says so itself. Only what the scheduler must
obey counts: the node selector, and required node affinity, of which each alternative has to name the card.
"""

from typing import Final, Literal, NamedTuple

import msgspec

from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.pod import Pod, View, present
from webhook.quantity import bytes_text
from webhook.request import Memory, Percent, Size

MAX_NAMED: Final = 2
"""Cards that are named in a message, of several that are alike."""

MAX_NAME: Final = 63
"""Characters of a label's value."""


class Card(NamedTuple):
    """What a pod says of its card by one label of nodes.

    Attributes:
        label: the label's key.
        place: where the pod says so.
        names: what it calls the card; several, where it takes any of them.
        known: whether all of them are among the setting `cards`; if not, `names` are those that are not.
        memory: bytes of each of them; None where that is not known, or they differ.
    """

    label: str
    place: Literal["nodeSelector", "nodeAffinity"]
    names: str
    known: bool
    memory: int | None


class _Requirement(View, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Term(View, frozen=True):
    match_expressions: list[_Requirement] | None = None


class _Selector(View, frozen=True):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(View, frozen=True):
    required: _Selector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class _Affinity(View, frozen=True):
    node_affinity: _NodeAffinity | None = None


_affinity = msgspec.json.Decoder(_Affinity | None)


def cards_of(pod: Pod, policy: Policy) -> tuple[Card, ...]:
    """What a pod says of its card, one for each label by which it does; nothing where no card is configured."""
    if not policy.cards:
        return ()
    selector = pod.spec.node_selector or {}
    terms = _required_terms(pod.spec.affinity)
    found: list[Card] = []
    for label in dict.fromkeys(label for labels in policy.card_labels.values() for label in labels):
        chosen = selector.get(label)
        values = _in_each(label, terms)
        if chosen is not None:
            values = {chosen} if values is None else values & {chosen}
        if values:
            found.append(_card(label, "nodeAffinity" if chosen is None else "nodeSelector", values, policy))
    return tuple(found)


def _required_terms(affinity: msgspec.Raw) -> list[_Term]:
    """The alternatives of required node affinity; none where what stands there is no affinity, which names no card."""
    try:
        read = _affinity.decode(affinity) if present(affinity) else None
    except (msgspec.DecodeError, RecursionError):
        return []
    if read is None or read.node_affinity is None or read.node_affinity.required is None:
        return []
    return read.node_affinity.required.node_selector_terms or []


def _in_each(label: str, terms: list[_Term]) -> set[str] | None:
    """The values that a label can have on a node that any of the terms selects; None where a term leaves it open."""
    possible: set[str] = set()
    for term in terms:
        lists = [
            set(one.values or ()) for one in term.match_expressions or () if one.key == label and one.operator == "In"
        ]
        if not lists:
            return None
        possible |= set.intersection(*lists)
    return possible if terms else None


def _card(label: str, place: Literal["nodeSelector", "nodeAffinity"], values: set[str], policy: Policy) -> Card:
    known = policy.cards
    sizes = {known.get(value) for value in values}
    unknown = sorted(value for value in values if value not in known)
    names = unknown or sorted(values)
    text = " or ".join(name[:MAX_NAME] for name in names[:MAX_NAMED]) + (" or others" if names[MAX_NAMED:] else "")
    return Card(label, place, text, not unknown, sizes.pop() if len(sizes) == 1 else None)


def card_under(target: Vendor, said: tuple[Card, ...], policy: Policy) -> Card | None:
    """The card of which a request written for `target` will hold a share; None where that is not known.

    Labels of other hardware do not count, and two that say different sizes say nothing.
    """
    labels = policy.card_labels.get(target.family, ())
    known = [card for card in said if card.label in labels and card.memory is not None]
    return known[0] if len({card.memory for card in known}) == 1 else None


def missing_card(target: Vendor, memory: Memory | None, said: tuple[Card, ...], policy: Policy) -> str | None:
    """What to write for the target to be able to say such memory; None where a known card would not help."""
    sized = isinstance(memory, Size)
    if not isinstance(memory, Size | Percent) or not _says_only(target, sized=not sized):
        return None
    labels = policy.card_labels.get(target.family, ())
    about = [card for card in said if card.label in labels]
    wanted = "percentage" if sized else "size"
    if not policy.cards or not labels:
        keys = "`cards`" if labels else "`cards` and `cardLabels`"
        select = f"select one by nodeSelector {labels[0]}" if labels else "select one by nodeSelector"
        return f"{memory} is a {wanted} on a known card only: set {keys} in the settings, and {select}"
    if not about:
        return f"{memory} is a {wanted} on a known card only: select one of the setting `cards` by nodeSelector {labels[0]}"
    one = next((card for card in about if card.memory is None), about[0])
    where = f"{one.names} ({one.place} {one.label})"
    if not one.known:
        return f"the setting `cards` does not say the memory of {where}: add it there"
    if one.memory is None:
        return f"{where} differ in memory: select one card"
    return f"{' and '.join(card.label for card in about)} name cards that differ in memory: keep one"


def _says_only(target: Vendor, *, sized: bool) -> bool:
    """Whether the target's memory is in sizes only, or in percentages only."""
    kinds = {target.keys[name].sized for name in target.by_dimension["memory"]}
    rows = [row for variable in target.variables.values() for row in variable.rows.values()]
    kinds |= {True for row in rows if isinstance(row.memory, Size)}
    return kinds == {sized}


def too_large(memory: Memory | None, card: Card) -> str | None:
    """That a size is more than the card has; None where it is not."""
    if isinstance(memory, Size) and card.memory is not None and memory.bytes > card.memory:
        return f"memory {memory} is more than the {bytes_text(card.memory)} of {card.names} ({card.place} {card.label})"
    return None
