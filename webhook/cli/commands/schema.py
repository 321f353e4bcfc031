"""``vgpu-webhook schema``: the JSON Schemas of what people write, for editors and other checkers."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from webhook.cli.manifests.cases import Expectation
from webhook.mapping.document.settings import Settings
from webhook.mapping.document.strict import API_VERSION
from webhook.mapping.model.schema import mapping_json_schema

BASE: Final = f"https://{API_VERSION.partition('/')[0]}/schemas/{API_VERSION.partition('/')[2]}"
"""The beginning of each ``$id``, a name that nothing has to be found at."""


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
