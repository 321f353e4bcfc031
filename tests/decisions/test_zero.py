"""A 0 has one meaning, whosever key it is: where every amount is 0 or left out, nothing is requested."""

from itertools import chain, combinations
from typing import Any

import pytest

from tests.decided import decided
from tests.decisions.any_to_any import SOURCES, policy_for
from tests.decisions.test_keys import pod_of
from tests.generators.requests import PATTERNED
from tests.naming import naming
from webhook.mapping.model.vendor import Vendor

PLACES = {"resource": "limits", "borrowed": "limits", "label": "labels", "annotation": "annotations"}


def amounts(vendor: Vendor) -> list[tuple[str, str]]:
    """Place and name of a vendor's amounts; in a list of devices 0 is one of them."""
    variables = vendor.variables
    bound = {name: next(iter(variable.rows or [*(variable.values or ())]), "") for name, variable in variables.items()}
    binding = {**bound, **{name: PATTERNED[name] for name in PATTERNED.keys() & variables.keys()}, "container": "main"}
    return [
        (PLACES[key.place], key.spelled(binding).replace("{container}", "main"))
        for key in vendor.keys.values()
        if key.kind == "amount" and key.written != "items"
    ]


@pytest.mark.parametrize("name", SOURCES)
def test_amounts_of_zero_request_nothing(name: str) -> None:
    """Whichever of a vendor's amounts are 0, if no other is there: the pod stays as it is, and nobody is told anything."""
    policy = policy_for(name)
    keys = amounts(policy.vendors[name])
    assert keys
    for chosen in chain.from_iterable(combinations(keys, size) for size in range(1, len(keys) + 1)):
        case: dict[str, Any] = {}
        for place, key in chosen:
            case.setdefault(place, {})[key] = 0 if place == "limits" else "0"
        with naming(f"{name} {case}"):
            decision = decided(pod_of(case), policy)
            assert (decision.denial, decision.warnings, decision.patch_json, decision.status) == (None, (), b"", {})
