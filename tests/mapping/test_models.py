"""Sizes of slices by model of the device: every profile of every model can be written, and is as large as it says."""

import json
from typing import Any

from tests.mapping.vendors import LARGEST, policy
from tests.naming import each_of
from webhook.mapping.load import builtin
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.writing import write
from webhook.request import Percent, Request, Size

MIB = 1024**2
MODELS = {
    model: None for row in builtin()["mig"].data["variables"]["profile"]["rows"].values() for model in row["memory"]
}


def configured(vendor: str, **variable: Any) -> Vendor:
    """A built-in vendor of slices in a cluster that says this of its profiles."""
    return policy(json.dumps({"extends": vendor, "variables": {"profile": variable}})).vendors[vendor]


@each_of("model", MODELS)
def test_models_of_slices(model: str) -> None:
    """Every model of devices is cut in sevenths or in fourths, and more memory never comes with a smaller profile of it."""
    rows = configured("mig", model=model).variables["profile"].rows
    parts = {name: int(name[0]) for name in rows}
    whole = 4 if max(parts.values()) == 4 and model in {"A30", "RTX-PRO-6000"} else 7
    for name, row in rows.items():
        assert row.cores == row.least_cores == Percent(parts[name] * 100 // whole), name
        assert isinstance(row.memory, Size)
        assert isinstance(row.least, Size)
        nominal = int(name.partition(".")[2].partition("gb")[0]) * 1024 * MIB
        assert 0.8 * nominal < row.least.bytes <= row.memory.bytes < nominal, name
        assert row.memory.bytes % (128 * MIB) in {0, 64 * MIB}, name


def test_every_profile_of_a_model_may_be_written() -> None:
    """And each is the least that holds what it holds."""
    for model in MODELS:
        names = list(configured("mig", model=model).variables["profile"].rows)
        plain = [name for name in names if not name.endswith(("me", "gfx", "all"))]
        vendor = configured("mig", model=model, write=plain)
        for name in plain:
            row = vendor.variables["profile"].rows[name]
            assert isinstance(row.least, Size)
            found = write(vendor, Request(1, row.least, row.cores), {}, LARGEST, "main")
            assert [key.key for key in found.keys.values()] == [f"nvidia.com/mig-{name}"]
