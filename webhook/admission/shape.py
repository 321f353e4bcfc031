"""Remembers what a share needs beside its keys for all pods of one shape: those that differ in names and amounts only.

The steps that find it are shown a plan of the shape instead of the pod's: without quantities, and with requests whose amounts
are hidden. Whatever a step does with a hidden amount fails, and nothing is remembered then; only the shim may write one to a
variable, which is filled in for each pod. So what is remembered cannot depend on an amount, and everything else that a step
sees is in the key.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from webhook.admission.decision import Allocation, Plan
from webhook.patch import Entry, PodEdits, slots
from webhook.pod import Container, Pod, PodSpec, Resources, decode_env
from webhook.quantity import Number
from webhook.reasons import Finding
from webhook.request import ALL, Percent, Request, Size

_encode: Final = msgspec.json.Encoder().encode

_MARK: Final = "\0"
"""What every hidden amount has in a variable; facts with it have no shape."""

_MARKS: Final = {"memory": "\0m", "cores": "\0c"}
"""What the amount of a dimension is in a variable."""

_ESCAPED: Final = b"\\u0000"

_OBJECTS: Final = 8
"""Bytes of objects for each byte of their JSON: ``tests/decisions/test_shape.py`` compares it with what the allocator gave."""

_LEAST: Final = 4096
"""Bytes of what there is for every shape."""


class _Hidden:
    """Stands for an amount: it can be divided and written, and is not all of a device; anything else is an error."""

    __slots__ = ("_mark",)

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def __neg__(self) -> "_Hidden":
        return self

    def __floordiv__(self, _unit: Number) -> "_Hidden":
        return self

    def __str__(self) -> str:
        return self._mark

    def __eq__(self, other: object) -> bool:
        if other is self or other == ALL.value:
            return other is self
        raise TypeError("an amount that a shape has not")

    def __hash__(self) -> int:
        raise TypeError("an amount that a shape has not")

    def __bool__(self) -> bool:
        raise TypeError("an amount that a shape has not")

    def __format__(self, _format: str) -> str:
        raise TypeError("an amount that a shape has not")


class Shape(Struct, frozen=True):
    """What a share needs beside its keys.

    Attributes:
        edits: of the pod, without the numbers of resources.
        filled: by allocation, the variables in which amounts are to be filled in, with their positions.
        findings, deliveries, stripped: as those of a `Plan`.
    """

    edits: PodEdits
    filled: tuple[tuple[tuple[int, Entry], ...], ...]
    findings: tuple[Finding, ...]
    deliveries: dict[str, str]
    stripped: int


_NONE: Final = "none"
"""Remembered of a shape for which the amounts matter."""


def apply_shape(plan: Plan, outline: bytes, steps: Callable[[Plan], None]) -> bool:
    """Apply to a plan what `steps` apply to all pods of its shape; return whether that is known.

    Args:
        plan: with the keys written, and nothing else.
        outline: of its facts, which are few.
        steps: what is to be applied.
    """
    if not _has_shape(plan):
        return False
    shapes, key = plan.policy.shapes, key_of_shape(outline, plan)
    if _ESCAPED in key:
        return False
    shape: Shape | Literal["none"] | None = shapes.get(key)
    if shape is None:
        if not shapes.met(key):
            return False
        shape, size = _found(_without_amounts(plan.pod), plan, steps)
        shapes.keep(key, shape, len(key) + size)
    if isinstance(shape, str):
        return False
    plan.edits.adopt(shape.edits, plan.slots)
    plan.findings.extend(shape.findings)
    plan.deliveries, plan.stripped = shape.deliveries, shape.stripped
    for allocation, filled in zip(plan.allocations, shape.filled, strict=True):
        if filled:
            _fill(plan, allocation, filled)
    return True


def _has_shape(plan: Plan) -> bool:
    """Whether amounts reach a plan only by its quantities and requests, and are written by nothing but shims."""
    return not (
        plan.claims
        or plan.templates
        or plan.pod.spec.resource_claims
        or plan.policy.cards
        or plan.policy.settings.hide_devices
        or any([vendor.document.environment for each in plan.allocations for vendor in each.vendors])
    )


def _without_amounts(pod: Pod) -> Pod:
    spec = pod.spec
    regular = [_emptied(container) for container in spec.containers]
    init = None if spec.init_containers is None else [_emptied(container) for container in spec.init_containers]
    return Pod(pod.metadata, replace(spec, containers=regular, init_containers=init))


def _emptied(container: Container) -> Container:
    resources = container.resources
    if resources is None:
        return container
    limits, requests = resources.limits, resources.requests
    names = Resources(
        None if limits is None else dict.fromkeys(limits, ""),
        None if requests is None else dict.fromkeys(requests, ""),
        resources.claims,
    )
    return replace(container, resources=names)


def key_of_shape(outline: bytes, plan: Plan) -> bytes:
    """Return what steps see of a plan whose pod is without amounts, as bytes."""
    names = [
        None
        if sides is None
        else (sides.limits and [*sides.limits], sides.requests and [*sides.requests], sides.claims)
        for sides in [slot.container.resources for slot in plan.slots]
    ]
    allocated = [
        (
            each.slot.path,
            each.source.name,
            each.owner.name,
            each.vendor.name,
            _kinds(each.request),
            each.form,
            each.copy and each.copy.name,
            each.moved,
            each.share,
        )
        for each in plan.allocations
    ]
    left = [(slot.path, vendor.name, share) for slot, vendor, share in plan.left_alone]
    return outline + _encode((names, allocated, left, plan.edits.labels.values, plan.edits.annotations.values))


def _kinds(request: Request) -> tuple[int | None, str, str]:
    """What a shape has of a request."""
    return request.devices, _kind(request.memory), _kind(request.cores)


def _kind(amount: Any) -> str:
    return "all" if amount == ALL else type(amount).__name__


def hidden_amounts(request: Request) -> Request:
    """Return what steps see of a request: its devices, and which kinds of amounts it has."""
    return Request(request.devices, _without_number("memory", request.memory), _without_number("cores", request.cores))


def _without_number(dimension: str, amount: Any) -> Any:
    if amount == ALL or not isinstance(amount, Size | Percent):
        return amount
    return type(amount)(cast("Number", _Hidden(_MARKS[dimension])))


def _found(pod: Pod, plan: Plan, steps: Callable[[Plan], None]) -> tuple[Shape | Literal["none"], int]:
    """Take the steps for a shape; also the bytes that the result takes."""
    edits, all_slots = PodEdits(pod), slots(pod)
    edits.labels.values.update(plan.edits.labels.values)
    edits.annotations.values.update(plan.edits.annotations.values)
    places = {slot.path: slot for slot in all_slots}
    shown = Plan(
        pod,
        plan.context,
        plan.policy,
        edits,
        all_slots,
        allocations=tuple(
            [
                replace(each, slot=places[each.slot.path], request=hidden_amounts(each.request))
                for each in plan.allocations
            ]
        ),
        left_alone=tuple([(places[slot.path], vendor, share) for slot, vendor, share in plan.left_alone]),
    )
    try:
        if any(map(_stored_amount, shown.allocations)):
            return _NONE, 0
        steps(shown)
    except Exception:  # noqa: BLE001  (a step needs an amount, or what it raises is raised again for the pod itself)
        return _NONE, 0
    variables = [edits.container(each.slot).env_appended for each in shown.allocations]
    written, text = _encode(variables), _encode((shown.findings, shown.deliveries, edits.operations()))
    if text.count(_ESCAPED) != written.count(_ESCAPED):  # somewhere else than in variables
        return _NONE, 0
    filled = tuple(
        [tuple([each for each in enumerate(entries) if _MARK in each[1].get("value", "")]) for entries in variables]
    )
    shape = Shape(_bare(edits, pod), filled, tuple(shown.findings), shown.deliveries, shown.stripped)
    return shape, _LEAST + _OBJECTS * len(text)


def _stored_amount(allocation: Allocation) -> bool:
    """Whether the container has a variable for an amount already, as a pod that is sent again: steps compare the two."""
    slot, request = allocation.slot, allocation.request
    shims = [
        vendor.shim for vendor in (allocation.vendor, allocation.copy) if vendor is not None and vendor.shim is not None
    ]
    present = {entry.name for entry in decode_env(slot.container.env)} if shims else ()
    values = [shim.values(request, slot.name) for shim in shims if present]
    return any([_MARK in each.get(name, "") for each in values for name in present])


def _bare(edits: PodEdits, pod: Pod) -> PodEdits:
    """The edits without the pod that they are of."""
    spec = pod.spec
    regular = [Container(each.name) for each in spec.containers]
    init = None if spec.init_containers is None else [Container(each.name) for each in spec.init_containers]
    named = Pod(spec=PodSpec(regular, init))
    bare = PodEdits(named)
    bare.adopt(edits, slots(named))
    return bare


def _fill(plan: Plan, allocation: Allocation, filled: tuple[tuple[int, Entry], ...]) -> None:
    """Fill the amounts of one container in."""
    shim, edits = allocation.vendor.shim, plan.edits.container(allocation.slot)
    assert shim is not None  # noqa: S101  (nothing else writes an amount)
    amounts = [(_MARKS[name], text) for name, text in shim.amounts(allocation.request).items()]
    variables = edits.env_appended = [*edits.env_appended]
    for position, entry in filled:
        value = entry["value"]
        for mark, text in amounts:
            value = value.replace(mark, text)
        variables[position] = {"name": entry["name"], "value": value}
