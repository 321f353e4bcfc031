"""Pods that ask in the keys of any vendor, made from its mapping with a seeded generator: each form, every kind of number."""

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from webhook.mapping.model.keys import Condition, Derived, Form, Key
from webhook.mapping.model.vendor import Vendor
from webhook.request import Number, simplest

MIB = 1024**2
PATTERNED = {"profile": "1g.5gb", "mlu": "mlu370", "model": "a10_24g", "resource": "gpu-a100"}
"""A value for each variable that is a pattern."""

Json = dict[str, Any]


def requesting_pods(vendor: Vendor, random_: random.Random) -> Iterator[Json]:
    """Pods without end; most of their requests are such as the vendor takes."""
    forms = [form for form in vendor.forms if form.deny is None]
    while True:
        numbers = drawn(vendor, random_.choice(forms), random_)
        if numbers:
            yield pod_of(vendor, numbers, random_)


def drawn(vendor: Vendor, form: Form, random_: random.Random) -> dict[str, Number | str]:
    """A number or text for some of the keys, as the form's conditions ask for."""
    devices = random_.choice([1, 1, 1, 2, 2, 3, 4, 8])
    found: dict[str, Number | str] = {}
    for name, key in form.keys.items():
        condition = next((each for each in form.when if each.keys == (name,)), None)
        wanted = random_.random() < 0.6 if condition is None else _wanted(condition, random_)
        if not wanted:
            continue
        if key.kind == "text":
            rows = vendor.variables[key.row_of].rows if key.row_of else {}
            texts = sorted(rows) or sorted(condition.texts if condition is not None else ())
            found |= {name: random_.choice(texts)} if texts else {}
        elif key.kind == "amount":
            found[name] = _number(key, form, condition, devices, random_)
    derived = form.devices
    if isinstance(derived, Derived):
        found[derived.key] = devices * derived.per
    return found


def _wanted(condition: Condition, random_: random.Random) -> bool:
    if condition.numbers is None and not condition.present and not condition.texts:
        return False
    return not condition.absent or random_.random() < 0.5


def _number(key: Key, form: Form, condition: Condition | None, devices: int, random_: random.Random) -> Number:
    legal = key.values if condition is None or condition.numbers is None else condition.numbers
    if "devices" in key.dimensions:
        return devices if legal is None or devices in legal else legal.ceil(devices) or 1
    number = _amount(key, random_)
    if legal is not None:
        number = legal.ceil(number) or legal.floor(number) or number
    return simplest(number * devices) if key.total and form.devices != 1 else number


def _amount(key: Key, random_: random.Random) -> Number:
    unit = key.unit or 1
    if key.written == "decimal":
        return simplest(Fraction(random_.randrange(1, 10_000), 10_000))
    if key.sized:
        exact = random_.choice([random_.randrange(1, 80) * 1024, random_.randrange(64, 82_000)]) * MIB
        exact += random_.choice([0, 0, 0, random_.randrange(MIB)]) if unit == 1 else 0
        return max(1, exact // unit.__ceil__())
    most = int(100 / Fraction(unit))
    return random_.choice([most, random_.randrange(1, most + 1), random_.randrange(1, most + 1)])


def pod_of(vendor: Vendor, numbers: dict[str, Number | str], random_: random.Random) -> Json:
    """A pod that requests these numbers and texts, by key."""
    binding = {"container": "main"}
    for name, variable in vendor.variables.items():
        listed = [*(variable.values if isinstance(variable.values, list) else []), *variable.rows]
        binding[name] = random_.choice(listed) if listed else PATTERNED[name]
    if any("{" not in vendor_key.spellings[0].text for vendor_key in vendor.keys.values()) and random_.random() < 0.5:
        binding = {"container": "main"}
    idle: list[Json] = [{"name": "idle"}] if random_.random() < 0.3 else []
    regular: list[Json] = [*idle, {"name": "main"}] if random_.random() < 0.5 else [{"name": "main"}, *idle]
    side: dict[str, str] = {}
    labels, annotations = {"app": "a"}, {"team.example/a": "b"}
    for name, number in numbers.items():
        vendor_key = vendor.keys[name]
        text = _text(vendor_key, number)
        key = vendor_key.spelled(binding)
        if vendor_key.place == "resource":
            side[key] = text
        elif vendor_key.place == "label":
            labels[key] = text
        else:
            whole = ",".join(text if each["name"] == "main" else "0" for each in regular) if vendor_key.listed else text
            annotations[key] = whole
            if vendor_key.twin is not None and random_.random() < 0.5:
                annotations[vendor_key.twin.render(binding) or ""] = text
    container_key = next((vendor_key for vendor_key in vendor.keys.values() if vendor_key.kind == "container"), None)
    if container_key is not None and len(regular) > 1:
        annotations[container_key.spellings[0].text] = "main"
    for container in regular:
        if container["name"] == "main" and side:
            container["resources"] = {"limits": side, "requests": dict(side)}
    return {"metadata": {"name": "p", "labels": labels, "annotations": annotations}, "spec": {"containers": regular}}


def _text(key: Key, number: Number | str) -> str:
    if isinstance(number, str):
        return number
    return f"{float(number):.4f}" if key.written == "decimal" else str(int(number))
