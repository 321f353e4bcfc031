"""Makes the JSON Schema of the chart's values: by hand, except for settings and mappings, whose schemas are in code."""

import copy
import json
from typing import Any

from deploy.generate.table import Value, values
from webhook.cli.commands.schema import mapping_json_schema
from webhook.cli.policy_source import chart_schema
from webhook.mapping.load import builtin
from webhook.mapping.settings import Settings


def values_schema() -> str:
    """The whole schema, as it is in the chart."""
    schema: dict[str, Any] = copy.deepcopy(dict(chart_schema()))
    mapping = mapping_json_schema()
    settings = Settings.model_json_schema(by_alias=True)
    schema["$defs"] |= mapping["$defs"] | settings.pop("$defs", {}) | {"Settings": settings}
    changes = copy.deepcopy(schema["$defs"]["Extension"])
    changes.pop("required")
    changes["title"] = "Changes of a built-in mapping"
    schema["$defs"]["BuiltinChanges"] = changes
    schema["properties"]["mappings"] = {
        "type": "object",
        "properties": {name: _either("#/$defs/BuiltinChanges") for name in sorted(builtin())},
        "additionalProperties": _either("#/$defs/Extension"),
    }
    for value in values():
        _describe(schema, value)
    return json.dumps(schema, indent=2) + "\n"


def _either(changes: str) -> dict[str, Any]:
    # Not `oneOf`: a mistake in one would be reported for both.
    return {"if": {"required": ["vendor"]}, "then": {"$ref": "#/$defs/Mapping"}, "else": {"$ref": changes}}


def _describe(schema: dict[str, Any], value: Value) -> None:
    """Put the description where an editor shows it; a value that the schema lacks is a KeyError."""
    *outer, last = value.path
    node = schema
    for key in outer:
        node = node["properties"][key]
        if "$ref" in node:
            node.update(copy.deepcopy(schema["$defs"][node.pop("$ref").removeprefix("#/$defs/")]))
    present = node["properties"][last]
    # Draft 7 ignores everything beside a reference.
    node["properties"][last] = {
        "description": value.meaning,
        **({"allOf": [present]} if "$ref" in present else present),
    }
