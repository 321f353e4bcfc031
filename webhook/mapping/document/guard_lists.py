"""The built-in guard lists: what a library or container runtime reads, by the name that mappings refer to."""

from collections.abc import Mapping
from functools import cache
from importlib import resources

from pydantic import Field

from webhook.mapping.document.schema_enforcement import Guard
from webhook.mapping.document.schema_types import Name, Strict
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.document.validation import validated


class ListChoice(Strict):
    """Where the administrator of a cluster chooses the value of a variable, which that system then writes into pods."""

    env: str
    config_maps: str = Field(description="selector of ConfigMaps by their labels")
    key: str = Field(description="key of the ConfigMap's data, which is YAML")
    path: list[str] = Field(min_length=1, description="keys that lead to the value")


class GuardList(Strict):
    """What a library or container runtime reads from the environment: one list for all mappings that use it."""

    named: Name = Field(alias="list")
    about: str
    guard: list[Guard] = Field(min_length=1)
    chosen: list[ListChoice] = Field(
        [], description="where `check` looks for what the setting `guardExceptions` should name"
    )


@cache
def guard_lists() -> Mapping[str, GuardList]:
    """The lists by name; their sources stand in the documents."""
    folder = resources.files("webhook.mapping") / "builtin" / "guards"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    documents = [document for file in files for document in parse(file.read_text(), file.name)]
    lists = [validated(GuardList, document.data, document) for document in documents]
    return {one.named: one for one in lists}
