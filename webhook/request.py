"""The request of one container in canonical terms: exact, per device, and independent of vendors.

| field | values |
|---|---|
| `Request.devices` | a count of devices from 1, or None: not specified |
| `Request.memory` | per device: `Size` (bytes), `Percent` of a device, `UNLIMITED` (no size, no limit), or None |
| `Request.cores` | per device: `Percent` of a device, `UNLIMITED` (no limit, nothing reserved), or None |

None occurs only before a request is settled. All of a device is ``Percent(100)``; a whole, exclusive device has that for
memory and for cores; there is no separate flag.
"""

import enum
import hashlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

import msgspec

from webhook.quantity import MIB, Number, bytes_text, exact_text, number_text


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

TEMPLATE_NAME: Final = rf"^{CLAIM_PREFIX}[0-9a-f]{{{_HEX}}}$"
"""An expression for the names of our templates, in Python and in RE2."""

CLAIM_NAME: Final = rf"^.+-{CLAIM_PREFIX}.*-[bcdfghjklmnpqrstvwxz2456789]{{5}}$"
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
    """A ResourceClaimTemplate that a pod needs, the same for all pods of a namespace that request the same.

    Attributes:
        name: `template_name` of its ``spec``.
        spec_json: the ``spec`` as the API server stores it, with every default.
    """

    name: str
    spec_json: str

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
