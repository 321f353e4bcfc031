"""The JSON Schema of mapping documents for editors: whole documents, and those with the differences from a built-in one."""

import copy
from typing import Any

from webhook.mapping.document.schema import Mapping

_EXTENDS = {
    "type": "string",
    "maxLength": 63,
    "description": "the built-in mapping that this one changes: maps are merged, lists replaced, and null removes a key",
}


def mapping_json_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12) of a mapping in a ConfigMap or file."""
    whole = Mapping.model_json_schema(by_alias=True)
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
