"""The request of one container in canonical terms: exact, per device, and independent of vendors.

| field | values |
|---|---|
| `Request.devices` | a count of devices from 1, or None: not specified |
| `Request.memory` | per device: `Size` (bytes), `Percent` of a device, `UNLIMITED` (no size, no limit), or None |
| `Request.cores` | per device: `Percent` of a device, `UNLIMITED` (no limit, nothing reserved), or None |

None occurs only before a request is settled. All of a device is ``Percent(100)``; a whole, exclusive device has that for
memory and for cores; there is no separate flag.

Kubernetes quantities (``3k``, ``8Gi``, ``500m``, ``1e3``) are read exactly, as whole numbers or fractions, never as floats.
Source of the grammar: ``k8s.io/apimachinery/pkg/api/resource`` (``quantity.go``). The API server rewrites values before a
webhook gets them (``3000`` arrives as ``3k``), so all spellings have to be parsed.
"""

import enum
import hashlib
import re
from collections.abc import Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

import msgspec

from webhook.text import shorten

Number: TypeAlias = int | Fraction

MAX_TEXT: Final = 40
"""The longest text to parse. The API server allows any length; no real amount needs more."""

MAX_EXPONENT: Final = 20
"""The largest power of ten to compute: the API server allows ``1e10000000``, which would take seconds."""

MAX_VALUE: Final = 2**63 - 1  # the largest amount: Kubernetes stores extended resources in an int64
KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3

_NANO: Final = Fraction(1, 10**9)
_DIGITS: Final = Context(prec=60)  # more digits than any quantity has, or any multiple of a step

_BINARY: Final = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_FACTORS: Final[Mapping[str, Number]] = {
    **_BINARY,
    "n": _NANO,
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
}
_UNITS: Final[tuple[tuple[str, int], ...]] = (("TiB", 1024**4), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_GRAMMAR: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[A-Za-z]{0,2}))",
    re.ASCII,
)


class QuantityError(ValueError):
    """A text is not a quantity, or too large: `text`, cut to a length for messages, and `why`, as the end of a sentence."""

    def __init__(self, text: str, why: str) -> None:
        self.text = shorten(text, MAX_TEXT)
        self.why = why
        super().__init__(f"{self.text!r} {why}")


def simplest(number: Number) -> Number:
    """Return the same number, as an int if it is whole."""
    return number if isinstance(number, int) or number.denominator != 1 else number.numerator


def parse_quantity(text: str) -> Number:
    """Parse a Kubernetes quantity exactly; a value between two billionths is rounded away from 0.

    The API server does the same: it stores ``2.9999999999`` as ``3``, so offline results are equal.

    Raises:
        QuantityError: no quantity, longer than `MAX_TEXT`, an exponent beyond `MAX_EXPONENT`, or beyond `MAX_VALUE`.
    """
    if text.isdigit() and text.isascii() and len(text) <= MAX_TEXT and (whole := int(text)) <= MAX_VALUE:
        return whole  # as nearly all of them
    if len(text) > MAX_TEXT:
        raise QuantityError(text, f"is longer than the {MAX_TEXT} characters that any honest quantity needs")
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise QuantityError(text, "is not a Kubernetes quantity")
    number, suffix = match["number"], match["suffix"]
    factor = _FACTORS.get(suffix) or _factor(text, match["exponent"], suffix)
    if type(factor) is int and number.isdigit():  # `3k`, `8Gi`
        return _bounded(text, int(number) * factor)
    value = simplest(Fraction(number.removesuffix(".")) * factor)
    if not isinstance(value, int):
        value = ceil_to(value, _NANO) if value > 0 else -ceil_to(-value, _NANO)
    return _bounded(text, value)


def number_in(text: str | float | None) -> Number | None:
    """Return the number of a quantity, as text or number; None without one, or if it is none."""
    try:
        return None if text is None else parse_quantity(str(text))
    except QuantityError:
        return None


def _factor(text: str, exponent: str | None, suffix: str | None) -> Number:
    if exponent is not None:
        if abs(int(exponent)) > MAX_EXPONENT:
            raise QuantityError(text, f"has an exponent beyond {MAX_EXPONENT}")
        return Fraction(10) ** int(exponent)
    raise QuantityError(text, f"ends in {suffix!r}, which is not a suffix of a quantity")


def canonical(text: str) -> str:
    """Return one spelling for equal quantities: plain digits, or the largest binary suffix if the text has one.

    The API server rewrites quantities (``3000`` to ``3k``); with this spelling, messages in the cluster and offline are
    equal. A text that is not a valid quantity is returned unchanged.
    """
    if text.isdigit() and text.isascii():
        return text
    try:
        number = parse_quantity(text)
    except QuantityError:
        return text
    binary = text.endswith("i") and isinstance(number, int) and number % KIB == 0
    return stored_text(int(number), binary=True) if binary else exact_text(number)


def stored_text(number: int, *, binary: bool) -> str:
    """Return how the API server stores a quantity: with the largest suffix that leaves a whole number.

    Source: `Quantity.CanonicalizeBytes` in ``k8s.io/apimachinery/pkg/api/resource/quantity.go``.

    Args:
        number: above 0 or 0.
        binary: in powers of 1024, if it is a multiple of one.
    """
    units = _BINARY if binary and number % KIB == 0 else {"k": 1000, "M": 10**6, "G": 10**9, "T": 10**12}
    for suffix, size in reversed(units.items()):
        if number and number % size == 0:
            return f"{number // size}{suffix}"
    return str(number)


def exact_text(number: Number) -> str:
    """Format a number as digits that parse to the same number; one without a finite expansion (1/3) like `number_text`."""
    if type(number) is int:  # nearly all of them
        return str(number)
    digits = _DIGITS.divide(Decimal(number.numerator), Decimal(number.denominator))
    return f"{digits:f}" if Fraction(digits) == number else number_text(number)


def signed_text(number: Number) -> str:
    """Format a difference, with its sign."""
    return f"+{exact_text(number)}" if number > 0 else exact_text(number)


def _bounded(text: str, value: Number) -> Number:
    if not -MAX_VALUE <= value <= MAX_VALUE:
        raise QuantityError(text, "is more than any resource can hold (2^63 - 1)")
    return value


def ceil_to(value: Number, step: Number) -> Number:
    """Return the least multiple of `step` that is not below `value`."""
    return simplest(-(-value // step) * step)


def bytes_text(amount: Number) -> str:
    """Format bytes exactly: in the largest binary unit that gives a whole number (``16 GiB``), else in bytes.

    A rounded bound would name an amount beyond it. Only fractions of a byte, which no key specifies, are rounded.
    """
    for unit, size in _UNITS:
        if amount >= size and amount % size == 0:
            return f"{amount // size} {unit}"
    return f"{exact_text(amount)} B"


def counted_in(unit: Number) -> str:
    """Name what a key counts: ``MiB``, or ``blocks of 256 MiB``."""
    number, _, name = bytes_text(unit).partition(" ")
    return f"blocks of {number} {name}" if number != "1" else "bytes" if name == "B" else name


def number_text(number: Number) -> str:
    """Format a number: whole ones exactly, others with six digits."""
    number = simplest(number)
    return str(number) if isinstance(number, int) else f"{float(number):.6g}"


class Size(msgspec.Struct, frozen=True, gc=False):
    """Memory of one device, in exact bytes."""

    bytes: Number

    def __str__(self) -> str:
        return bytes_text(self.bytes)


class Percent(msgspec.Struct, frozen=True, gc=False):
    """A percentage of one device's memory or cores, above 0 and at most 100."""

    value: Number

    def __str__(self) -> str:
        return f"{number_text(self.value)} %"


class Unlimited(enum.Enum):
    """The value of a dimension without a limit."""

    UNLIMITED = "no limit"

    def __str__(self) -> str:
        return self.value


UNLIMITED: Final = Unlimited.UNLIMITED
ALL: Final = Percent(100)
"""All of a device's memory, or all of its cores."""

MAX_DEVICES: Final = 4096
"""The most devices of one container; a larger count is a size in the wrong key (``nvidia.com/gpu: 8Gi``)."""

Memory: TypeAlias = Size | Percent | Unlimited
Cores: TypeAlias = Percent | Unlimited
Dimension: TypeAlias = Literal["devices", "memory", "cores"]
DIMENSIONS: Final[tuple[Dimension, ...]] = ("devices", "memory", "cores")


def amount_text(amount: Memory | None) -> str:
    """Format an amount of one device exactly, as in the status: ``4096Mi``, ``0.5Mi``, ``50%``, ``unlimited``."""
    if isinstance(amount, Size):
        mebibytes = amount.bytes // MIB
        return f"{mebibytes if mebibytes * MIB == amount.bytes else exact_text(Fraction(amount.bytes) / MIB)}Mi"
    return f"{exact_text(amount.value)}%" if isinstance(amount, Percent) else "unlimited"


class Request(msgspec.Struct, frozen=True, gc=False):
    """A GPU request of one container; for the fields see the table of the module."""

    devices: int | None = None
    memory: Memory | None = None
    cores: Cores | None = None

    @property
    def whole(self) -> bool:
        """Whether it requests whole, exclusive devices: the shim, the guard and several denials apply only to others."""
        return self.memory == ALL and self.cores == ALL

    @property
    def settled(self) -> bool:
        """Whether every dimension is known."""
        return self.devices is not None and self.memory is not None and self.cores is not None

    def __str__(self) -> str:
        devices = (
            "? devices" if self.devices is None else "1 device" if self.devices == 1 else f"{self.devices} devices"
        )
        if self.whole:
            return f"{devices}, whole"
        memory = "unspecified memory" if self.memory is None else f"memory {self.memory}"
        cores = "unspecified cores" if self.cores is None else f"cores {self.cores}"
        return f"{devices}, each with {memory}, {cores}"


CLAIM_API: Final = "resource.k8s.io/v1"
CLAIM_PREFIX: Final = "vgpu-"
"""How the names of our ResourceClaimTemplates begin, and of the claims in pods."""

_HEX: Final = 20
"""Digits of the hash in a name: nobody finds another content for one."""

TEMPLATE_NAME: Final = re.compile(rf"^{CLAIM_PREFIX}[0-9a-f]{{{_HEX}}}$")
"""An expression for the names of our templates, in Python and in RE2."""

CLAIM_NAME: Final = re.compile(rf"^.+-{CLAIM_PREFIX}.*-[bcdfghjklmnpqrstvwxz2456789]{{5}}$")
"""An expression for the names of claims that are made from them: of the pod, of the claim in it, and five of the letters that
Kubernetes takes for a random part (``k8s.io/apimachinery/pkg/util/rand``)."""

sorted_json: Final = msgspec.json.Encoder(order="deterministic").encode


def template_name(spec: Mapping[str, Any]) -> str:
    """Return the name of a ResourceClaimTemplate with a ``spec``: what is stored under it can be compared with it alone.

    The API server adds metadata without anything in it, which does not count.
    """
    spec = {key: value for key, value in spec.items() if key != "metadata" or value}
    return f"{CLAIM_PREFIX}{hashlib.sha256(sorted_json(spec)).hexdigest()[:_HEX]}"


class ClaimTemplate(msgspec.Struct, frozen=True, gc=False):
    """A ResourceClaimTemplate that a pod needs, the same for all pods of a namespace that request the same."""

    name: str  # `template_name` of its ``spec``
    spec_json: str  # the ``spec`` as the API server stores it, with every default

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "ClaimTemplate":
        """Return the template with a ``spec``."""
        return cls(template_name(spec), sorted_json(spec).decode())

    @property
    def spec(self) -> dict[str, Any]:
        """The ``spec`` as plain data."""
        return msgspec.json.decode(self.spec_json, type=dict[str, Any])

    def manifest(self, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """Return the object in a namespace; none without a name for it."""
        metadata = {"name": self.name, **({"namespace": namespace} if namespace else {}), "labels": dict(labels)}
        return {"apiVersion": CLAIM_API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": self.spec}
