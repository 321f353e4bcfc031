"""The built-in guard lists: what a library or container runtime reads, by the name that mappings refer to."""

from collections.abc import Mapping
from functools import cache
from importlib import resources

from webhook.mapping.schema import GuardList
from webhook.mapping.strict_yaml import parse
from webhook.mapping.validation import validated


@cache
def guard_lists() -> Mapping[str, GuardList]:
    """The lists by name; their sources stand in the documents."""
    folder = resources.files("webhook.mapping") / "builtin" / "guards"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    documents = [document for file in files for document in parse(file.read_text(), file.name)]
    lists = [validated(GuardList, document.data, document) for document in documents]
    return {one.named: one for one in lists}
