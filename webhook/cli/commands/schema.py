"""``vgpu-webhook schema``: the JSON Schemas of what people write, for editors and other checkers."""

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from webhook.cli.commands.test import Expectation
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.settings import Settings
from webhook.mapping.strict import API_VERSION

BASE: Final = f"https://{API_VERSION.partition('/')[0]}/schemas/{API_VERSION.partition('/')[2]}"
"""The beginning of each ``$id``, a name that nothing has to be found at."""


_EXTENDS: Final = {
    "type": "string",
    "maxLength": 63,
    "description": "the built-in mapping that this one changes: maps are merged, lists replaced, and null removes a key",
}


def mapping_json_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12) of a mapping in a ConfigMap or file."""
    whole = Vendor.model_json_schema(by_alias=True)
    parts = whole.pop("$defs")
    changed = {f"{name}Changes": _changes(part) for name, part in copy.deepcopy(parts).items()}
    extending = _changes(copy.deepcopy(whole))
    extending["title"] = "Extension"
    extending["properties"] = {"extends": _EXTENDS, **extending["properties"]}
    extending["required"] = ["extends"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "vgpu-webhook mapping",
        "oneOf": [{"$ref": "#/$defs/Mapping"}, {"$ref": "#/$defs/Extension"}],
        "$defs": {"Mapping": whole, "Extension": extending, **parts, **changed},
    }


def _changes(node: dict[str, Any]) -> dict[str, Any]:
    """Return a schema in which every key is optional and may be removed by null."""
    loosened: dict[str, Any] = _renamed(node)
    loosened.pop("required", None)
    loosened.pop("minProperties", None)
    if "properties" in loosened:
        loosened["properties"] = {
            key: {"anyOf": [value, {"type": "null"}]} for key, value in loosened["properties"].items()
        }
    return loosened


def _renamed(node: Any) -> Any:
    """Redirect references to the schemas of `_changes`, and allow null for entries of maps."""
    if isinstance(node, list):
        return [_renamed(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    renamed = {key: _renamed(value) for key, value in node.items()}
    if isinstance(renamed.get("$ref"), str):
        renamed["$ref"] += "Changes"
    if isinstance(renamed.get("additionalProperties"), dict):
        renamed["additionalProperties"] = {"anyOf": [renamed["additionalProperties"], {"type": "null"}]}
        renamed.pop("minProperties", None)
    return renamed


def _of(model: type[Settings] | type[Expectation], title: str) -> dict[str, Any]:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"vgpu-webhook {title}"}
    schema = model.model_json_schema(by_alias=True)
    schema.pop("title")
    return {**head, **schema}


KINDS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "mapping": mapping_json_schema,
    "settings": lambda: _of(Settings, "settings"),
    "test": lambda: _of(Expectation, "expectation of a case"),
}


@click.command()
@click.argument("kind", type=click.Choice([*KINDS]))
def schema(*, kind: str) -> None:
    """Print the JSON Schema of mappings, of settings, or of the expect.yaml of a test case.

    \b
    Examples:
      vgpu-webhook schema mapping > mapping.schema.json
      # the first line of a mapping, for an editor with the YAML language server
      # yaml-language-server: $schema=mapping.schema.json
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    click.echo(json.dumps({"$id": f"{BASE}/{kind}.schema.json", **KINDS[kind]()}, indent=2))
