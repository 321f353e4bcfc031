"""The documents that tests compile without probes pass their probes."""

import json

import pytest

from tests.decisions.test_any_to_any import CONFIGURED, DOCUMENTS
from tests.decisions.test_any_to_any_by_card import PARTS
from tests.decisions.test_keys import CASES
from tests.fuzz.policies import SETUPS, Setup
from tests.unprobed import unprobed_policy
from webhook.mapping.document.strict_yaml import Document, parse
from webhook.mapping.load import build_policy


def test_documents_of_pairs_of_vendors() -> None:
    """The documents that configure vendors pass their probes, and make the same policy with and without probes."""
    documents = [*DOCUMENTS, *parse(CONFIGURED, "configured"), *parse(PARTS, "parts")]
    assert build_policy(documents).digest == unprobed_policy(documents).digest


CHANGES_OF_KEYS = sorted(
    {
        json.dumps({"extends": vendor, **case["with"]})
        for vendor, cases in CASES.items()
        for case in cases
        if "with" in case
    }
)
"""The documents that single requests of `tests/keys` are read with."""


@pytest.mark.parametrize("change", CHANGES_OF_KEYS)
def test_documents_of_keys(change: str) -> None:
    """What `tests/keys` configures for a request passes its probes."""
    build_policy([Document("keys", json.loads(change), {})])


@pytest.mark.deep
@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.name)
def test_setups_of_the_fuzzer(setup: Setup) -> None:
    """The documents of each setup of the fuzzer pass their probes."""
    build_policy(parse(setup.mappings, "mappings"), parse(setup.settings, "settings")[0])
