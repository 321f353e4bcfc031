"""The account: what was read, in whose words, what it means, what was filled in and written.

It tells; nothing is ever decided from it.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec

from webhook.admission.orders import PREFIX
from webhook.admission.resolve import Resolution
from webhook.admission.settle import Settled
from webhook.admission.work import Work
from webhook.quantity import number_text
from webhook.request import Memory, Percent, Size

STATUS: Final = f"{PREFIX}status"
_MIB: Final = 1024**2
_encode = msgspec.json.Encoder().encode


def account(work: Work, resolution: Resolution) -> dict[str, Any]:
    """The account of one pod, as plain data with a stable order of keys."""
    containers = {one.asking.name: _container(one, work.deliveries.get(one.asking.name)) for one in resolution.settled}
    return {"policy": work.policy.digest, "containers": containers}


def account_text(data: Mapping[str, Any]) -> str:
    """An account as it is kept in the annotation `vgpu-webhook.io/status`: compact JSON."""
    return _encode(data).decode()


def _container(one: Settled, delivery: str | None) -> dict[str, Any]:
    request = one.request
    entry: dict[str, Any] = {
        "vendor": one.asking.vendor.name,
        "asked": {said.key: said.text for said in one.asking.all_said.values()},
        "request": {
            "devices": request.devices,
            "memory": amount_text(request.memory),
            "cores": amount_text(request.cores),
        },
    }
    if one.filled:
        entry["filled"] = {dimension: default.origin for dimension, default in one.filled.items()}
    if one.translated:
        entry["target"] = one.target.name
    written = {name: number_text(number) for name, number in one.resources.items() if number is not None}
    written |= {key: text for _, key, text in one.words}
    if written:
        entry["written"] = written
    if delivery:
        entry["shim"] = delivery
    return entry


def amount_text(amount: Memory | None) -> str:
    """An amount of one device as the account has it: ``4096Mi``, ``50%``, ``free``."""
    if isinstance(amount, Size):
        return f"{number_text(Fraction(amount.bytes, _MIB))}Mi"
    return f"{number_text(amount.value)}%" if isinstance(amount, Percent) else "free"
