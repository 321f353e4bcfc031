"""YAML of the project's own files, parsed by libyaml where it is there: in a tenth of the time; and tables of tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.naming import naming

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(text: str) -> Any:
    """The one document of a text, as `yaml.safe_load` returns it."""
    return yaml.load(text, Loader=_LOADER)


def load_yaml_all(text: str) -> Iterator[Any]:
    """The documents of a text, as `yaml.safe_load_all` returns them, without empty ones."""
    return (document for document in yaml.load_all(text, Loader=_LOADER) if document is not None)


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, whatever has none on one line."""

    def represent_data(self, data: Any) -> yaml.Node:
        if isinstance(data, str) and "\n" in data:
            return self.represent_scalar("tag:yaml.org,2002:str", data, style="|")
        node = super().represent_data(data)
        if isinstance(node, yaml.CollectionNode):
            node.flow_style = "told" not in repr(data) and "\\n" not in repr(data)
        return node


def dump_table(table: Any) -> str:
    """A table with what its test has found, as a person reads it."""
    return str(yaml.dump(table, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000))


def rows_of(table: Any, rows: str) -> Iterator[tuple[Any, Any]]:
    """Each row of a table's rules, also with what holds for all rows of its rule or table."""
    for rule in table["rules"]:
        for row in rule[rows]:
            yield row, {**table, **rule, **table.get("each", {}), **rule.get("each", {}), **row}


def hold(file: Path, rows: str, told_of: Callable[[Any], str], *, update: bool) -> None:
    """Each row of a table's rules is told as it says, or is written anew."""
    table = load_yaml(file.read_text())
    for row, whole in rows_of(table, rows):
        with naming(f"{whole['rule']}: {row}"):
            told = told_of(whole)
            assert update or told == row["told"]
            row["told"] = told
    if update:
        file.write_text(dump_table(table))


def put(part: Any, path: str, value: Any) -> None:
    """Set the value at a path, whose steps have spaces between them; null takes it away."""
    *parents, last = path.split(" ")
    for key in parents:
        part = part[int(key) if isinstance(part, list) else key]
    if value is None:
        del part[int(last) if isinstance(part, list) else last]
    elif isinstance(part, list):
        part[int(last) :] = [value, *part[int(last) + 1 :]]
    else:
        part[last] = value
