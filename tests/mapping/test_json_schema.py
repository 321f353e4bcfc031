"""The JSON Schema of mapping documents agrees with what is accepted."""

from typing import Any

from jsonschema import Draft202012Validator

from tests.naming import each_of
from webhook.cli.commands.schema import mapping_json_schema
from webhook.mapping.load import builtin

SCHEMA = mapping_json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def test_schema_is_one() -> None:
    """It is a JSON Schema."""
    Draft202012Validator.check_schema(SCHEMA)


@each_of("vendor", builtin())
def test_built_in_documents_are_valid(vendor: str) -> None:
    """Each built-in document is one of its documents."""
    VALIDATOR.validate(builtin()[vendor].data)


@each_of(
    "document",
    [
        {"extends": "nvidia", "defaults": {"memory": "8000Mi"}},
        {"extends": "nvidia", "keys": {"gpumem": {"unit": "10Mi"}, "priority": None}, "shim": None},
        {"extends": "iluvatar", "place": {"scheduler": "other"}},
        {"extends": "mig", "variables": {"profile": {"write": ["1g.10gb"], "model": ["H100-80", "A100-80"]}}},
        {
            "extends": "mig",
            "variables": {"profile": {"rows": {"1g.10gb": {"memory": {"H100-80": "9Gi", "A30": None}}}}},
        },
    ],
)
def test_extension_writes_only_what_differs(document: dict[str, Any]) -> None:
    """With ``extends`` nothing else is required, and null removes."""
    VALIDATOR.validate(document)


@each_of(
    "document",
    [
        {"vendor": "x"},
        {"extends": "nvidia", "defalts": {}},
        {"extends": "nvidia", "keys": {"gpumem": {"unt": "1Mi"}}},
        {"extends": "mig", "variables": {"profile": {"modl": "H100-80"}}},
        {"extends": "mig", "variables": {"profile": {"rows": {"1g.10gb": {"memory": {"H100-80": {"A": "9Gi"}}}}}}},
        {**builtin()["vcuda"].data, "unknown": 1},
    ],
)
def test_mistakes_are_seen(document: dict[str, Any]) -> None:
    """What is missing or unknown is not valid."""
    assert not VALIDATOR.is_valid(document)
