"""YAML of the project's own files, parsed by libyaml where it is there: in a tenth of the time."""

from collections.abc import Iterator
from typing import Any, Final

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(text: str) -> Any:
    """The one document of a text, as `yaml.safe_load` returns it."""
    return yaml.load(text, Loader=_LOADER)


def load_yaml_all(text: str) -> Iterator[Any]:
    """The documents of a text, as `yaml.safe_load_all` returns them, without empty ones."""
    return (document for document in yaml.load_all(text, Loader=_LOADER) if document is not None)
