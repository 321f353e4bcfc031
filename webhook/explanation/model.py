"""What became of a pod and why, as plain values for people: the text and the JSON of ``explain`` are made of these.

Amounts are spelled as in the status (`webhook.request.amount_text`): ``4096Mi``, ``50%``, ``unlimited``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from webhook.mapping.model.vendor import KeyPlace
from webhook.request import Dimension

From: TypeAlias = Literal["pod", "namespace", "mapping", "form", "name", "absent"]
"""Where an amount comes from: said by the pod; filled in for the namespace or by the mapping; said by the form that the keys
take, or by the name of a key; or what it means that nobody says it."""


@dataclass(frozen=True, slots=True)
class Share:
    """A request; amounts are for each device.

    Attributes:
        whole: whole, exclusive devices.
    """

    devices: int | None
    memory: str
    cores: str
    whole: bool


@dataclass(frozen=True, slots=True)
class ShownKey:
    """A key with its value, and what that says.

    Attributes:
        place: where it stands; a resource in limits and requests.
        meaning: what the value means, as text.
    """

    key: str
    value: str
    place: KeyPlace
    meaning: str


@dataclass(frozen=True, slots=True)
class WrittenKey:
    """A key that is written, as in `ShownKey`.

    Attributes:
        why: what made it necessary.
    """

    key: str
    value: str
    place: KeyPlace
    meaning: str
    why: str


@dataclass(frozen=True, slots=True)
class Amount:
    """One dimension of what was asked, for each device, and where it comes from.

    Attributes:
        origin: who says so.
        where: the same in keys, with the key or annotation.
    """

    dimension: Dimension
    amount: str
    origin: From
    where: str


@dataclass(frozen=True, slots=True)
class Rounding:
    """A number that became another one.

    Attributes:
        what: a key, or a dimension per device.
        before, after: the numbers with their units.
        difference: with its sign.
        code: of the reason under which it is told.
    """

    what: str
    before: str
    after: str
    difference: str
    code: str


@dataclass(frozen=True, slots=True)
class FindingExplained:
    """A finding.

    Attributes:
        lost: something that was asked for is gone.
        shown: another part of the explanation says it already.
        note: it is only recorded, and no warning.
    """

    code: str
    title: str
    message: str
    container: str | None
    field: str | None
    value: str | None
    lost: bool
    shown: bool
    note: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a container that is written (`value`) or taken away (None); `before` is what stood there."""

    name: str
    value: str | None
    before: str | None


@dataclass(frozen=True, slots=True)
class ShimShown:
    """How the library that enforces the share gets into a container.

    Attributes:
        delivery: as in the status; None where there is no shim.
        why: in keys.
        mounts: mount path: volume.
        variables: those that change.
    """

    delivery: str | None
    why: str
    mounts: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerExplained:
    """One container that asks.

    Attributes:
        vendor: in whose keys; several, where they are mixed.
        form: the mapping's name for the combination of keys.
        keys: the keys as they are in the pod.
        meaning: what they mean, dimension by dimension; empty where they mean nothing.
        request: what was read, defaults included; None where it is refused or left as it stands.
        allocation: what the container will hold, as the target's keys say it.
        target, because: in whose keys it will run, and who says so.
        written: the keys that are written; `removed` the keys that are taken away.
        rounded: numbers that became others.
        shim: None where it was not reached.
        unchanged: why the keys stay unchanged; None if they do not.
    """

    name: str
    init: bool
    vendor: str
    keys: tuple[ShownKey, ...]
    form: str | None = None
    meaning: tuple[Amount, ...] = ()
    request: Share | None = None
    allocation: Share | None = None
    target: str | None = None
    because: str | None = None
    written: tuple[WrittenKey, ...] = ()
    removed: tuple[str, ...] = ()
    rounded: tuple[Rounding, ...] = ()
    shim: ShimShown | None = None
    unchanged: str | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A part of the pod that places it: what stood there and what will; None for nothing."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Correction:
    """What to write instead: tried, and not refused.

    Attributes:
        manifest: the parts of the pod that differ, as they should be.
        remove: the keys to remove, as text.
    """

    manifest: Mapping[str, Any]
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DenialExplained:
    """Why a pod is refused, and what to do.

    Attributes:
        enforced: it is denied; else its namespace only has it told.
    """

    finding: FindingExplained
    status: int
    remedy: str
    enforced: bool
    correction: Correction | None


@dataclass(frozen=True, slots=True)
class PodExplained:
    """One pod, or the pods of a template.

    Attributes:
        namespace: where it is created.
        mode: ``enforce``, ``warn`` or ``audit``, with the namespace's roll-out in it.
        code, outcome, meaning: the decision in a few keys, and in a sentence.
        allowed: whether it is created.
        policy: the digest of the documents that this follows from.
        containers: those that ask.
        placed: what changes of where it runs.
        findings: all findings except the denial, in order.
        denial: why it is denied.
    """

    namespace: str
    mode: str
    code: str
    outcome: str
    meaning: str
    allowed: bool
    policy: str
    containers: tuple[ContainerExplained, ...] = ()
    placed: tuple[Placed, ...] = ()
    findings: tuple[FindingExplained, ...] = ()
    denial: DenialExplained | None = None
