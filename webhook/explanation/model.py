"""The explanation of a decision, as plain values: the text and the JSON of ``explain`` are made of them.

Amounts are written as in the status (`webhook.request.amount_text`): ``4096Mi``, ``50%``, ``unlimited``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from webhook.mapping.model.vendor import KeyPlace
from webhook.request import Dimension

From: TypeAlias = Literal["pod", "namespace", "mapping", "settings", "form", "name", "absent"]
"""Where an amount comes from: specified by the pod; filled in by a default of the namespace or the mapping, or for a bare
count by the settings; specified by the form of the keys, or by the name of a key; or the meaning of an absent key."""


@dataclass(frozen=True, slots=True)
class Share:
    """A request; amounts are for each device.

    Attributes:
        whole: whether it is for whole, exclusive devices.
    """

    devices: int | None
    memory: str
    cores: str
    whole: bool


@dataclass(frozen=True, slots=True)
class ShownKey:
    """A key with its value, and the meaning of the value.

    Attributes:
        place: where it is; a resource is in limits and requests.
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
        why: why it is written.
    """

    key: str
    value: str
    place: KeyPlace
    meaning: str
    why: str


@dataclass(frozen=True, slots=True)
class ShownAmount:
    """One dimension of what was requested, per device, and where it comes from.

    Attributes:
        origin: where it comes from.
        where: the same as text, with the key or annotation.
    """

    dimension: Dimension
    amount: str
    origin: From
    where: str


@dataclass(frozen=True, slots=True)
class Rounding:
    """A number that changes.

    Attributes:
        what: a key, or a dimension per device.
        before, after: the numbers with their units.
        difference: the difference, with its sign.
        code: the code of the finding that reports it.
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
        lost: something that was requested is lost.
        note: it is recorded, but is not a warning.
    """

    code: str
    title: str
    message: str
    container: str | None
    field: str | None
    value: str | None
    lost: bool
    note: bool = False


@dataclass(frozen=True, slots=True)
class ShownVariable:
    """A variable of a container that is written (`value`) or removed (None); `before` is its value in the pod."""

    name: str
    value: str | None
    before: str | None


@dataclass(frozen=True, slots=True)
class ShimShown:
    """How the library that enforces the share gets into a container.

    Attributes:
        delivery: as in the status; None without a shim.
        why: why it is so, as text.
        mounts: mount path: volume.
        variables: the variables that change.
    """

    delivery: str | None
    why: str
    mounts: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[ShownVariable, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerExplained:
    """One container that requests devices.

    Attributes:
        vendor: the vendor of the keys; several, if they are mixed.
        form: the mapping's name for the combination of keys.
        keys: the keys as they are in the pod.
        meaning: what they mean, dimension by dimension; empty if they mean nothing.
        request: the request that was read, with defaults; None if it is denied or left unchanged.
        allocation: what the container will get, as the target's keys express it.
        target, because: the vendor in whose keys it will run, and what sets it.
        written, removed: the keys that are written, and those that are removed.
        rounded: the numbers that change.
        shim: None if the decision ended before.
        unchanged: why the keys stay unchanged; None if they do not.
    """

    name: str
    init: bool
    vendor: str
    keys: tuple[ShownKey, ...]
    form: str | None = None
    meaning: tuple[ShownAmount, ...] = ()
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
    """A field that places the pod, before and after; None for an absent one."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Correction:
    """What to write instead: tried, and not denied.

    Attributes:
        manifest: the parts of the pod that differ, as they should be.
        remove: the keys to remove, as text.
    """

    manifest: Mapping[str, Any]
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DenialExplained:
    """Why a pod is denied, and what to do.

    Attributes:
        finding: the denial.
        status: the HTTP status of the denial.
        remedy: what to do, for any denial with this reason.
        enforced: whether it is denied; otherwise the mode of its namespace only reports it.
        correction: what to write instead, if that is known.
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
        mode: ``enforce``, ``warn`` or ``audit``, with the namespace's roll-out.
        code, outcome, meaning: the decision as a code, in a few words, and in a sentence.
        allowed: whether it is created.
        policy: the digest of the documents from which the decision follows.
        containers: the containers that request devices.
        placed: the changes to where it runs.
        findings: all findings except the denial, in order.
        denial: why it is denied.
        sent: whether the cluster would send it to the webhook; otherwise the findings are what the webhook would say.
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
    sent: bool = True
