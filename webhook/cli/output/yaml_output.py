"""JSON data as YAML text: keys in their order, and text quoted if any parser could read it as another type."""

import re
from collections.abc import Iterable
from typing import Any, Final

import yaml

_DUMPER: Final[type[Any]] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_UNFOLDED: Final = 2**31 - 1
"""Width of lines: folded lines would make diffs hard to read."""

# Beyond what PyYAML quotes by itself (YAML 1.1 as it knows it): go-yaml's `y` and `n`, floats without a dot or a sign
# in the exponent (YAML 1.2, go-yaml), octals of YAML 1.2, octal-like numbers that are decimal in YAML 1.2, dates.
_AMBIGUOUS: Final = re.compile(
    r"[yYnN]|[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9_]+)?|[-+]?0[oO][0-7_]+|[-+]?0[xXbB][0-9a-fA-F_]+"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*"
)


class _Dumper(_DUMPER):  # type: ignore[misc]  # C or Python: decided above
    """Quotes ambiguous text, and writes no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def _text(dumper: Any, text: str) -> Any:
    style = None
    if "\n" in text:
        style = "|"
    elif _AMBIGUOUS.fullmatch(text):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(data: object) -> str:
    """Format one document, without a document marker."""
    text: str = yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=_UNFOLDED
    )
    return text


def yaml_stream(documents: Iterable[object]) -> str:
    """Format documents, with markers between them."""
    return "---\n".join(yaml_text(document) for document in documents)
