"""A vendor's document as YAML, in which one sees what it overrides of the built-in one that it extends."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from webhook.mapping.document.problem import Path
    from webhook.mapping.model.vendor import Vendor

MARK: Final = "  # overridden"


def as_document(vendor: "Vendor", notes: Iterable[str] = ()) -> str:
    """A vendor's document, with what it extends put in, as YAML: a comment marks what is not the built-in one's.

    Args:
        vendor: whose document.
        notes: lines for the comment at its beginning, which says where it is from.
    """
    from webhook.cli.output.yaml_output import yaml_text

    text = yaml_text(vendor.document.model_dump(mode="json", by_alias=True, exclude_unset=True))
    head = "".join(f"# {line}\n" for line in (vendor.source, *notes))
    return f"{head}{marked(text, vendor.overridden)}"


def marked(text: str, overridden: Iterable["Path"]) -> str:
    """The YAML of one document with a comment at the line of each path; what is no longer there is named first."""
    from webhook.mapping.document.problem import path_text
    from webhook.mapping.document.strict_yaml import parse

    (document,) = parse(text, "")
    lines = text.splitlines()
    removed: list[str] = []
    for path in sorted(overridden, key=str):
        line = document.lines.get(path)
        if line is None:
            removed.append(f"# removed: {path_text(path)}")
        else:
            lines[line - 1] += MARK
    return "\n".join([*removed, *lines, ""])
