"""The built-in guard lists: the variables that a library or container runtime reads, by the name for mappings."""

from collections.abc import Mapping
from functools import cache
from importlib import resources

from pydantic import Field

from webhook.mapping.document.schema_enforcement import Guard
from webhook.mapping.document.schema_types import Long, Name, Strict
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.document.validation import validated


class ListChoice(Strict):
    """A ConfigMap in which the administrator chooses the value of a variable that the system then writes into pods."""

    env: str
    config_maps: str = Field(description="label selector of the ConfigMaps")
    key: str = Field(description="key of the ConfigMap's data, which is YAML")
    path: list[str] = Field(min_length=1, description="keys that lead to the value")


class GuardList(Strict):
    """The variables that a library or container runtime reads: one list for all mappings that use it."""

    named: Name = Field(alias="list")
    about: str
    read_by: Long = Field(description="what reads the variables, unless an entry names something else, with the source")
    guard: list[Guard] = Field(min_length=1)
    chosen: list[ListChoice] = Field(
        [], description="where `check` looks for values that the setting `guardExceptions` should name"
    )


@cache
def guard_lists() -> Mapping[str, GuardList]:
    """Return the lists by name; the documents name their sources."""
    folder = resources.files("webhook.mapping") / "builtin" / "guards"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    documents = [document for file in files for document in parse(file.read_text(), file.name)]
    lists = [validated(GuardList, document.data, document) for document in documents]
    return {guard_list.named: guard_list for guard_list in lists}
