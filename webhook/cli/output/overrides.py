"""A vendor's document as YAML, with a mark at what overrides the built-in document that it extends."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from webhook.mapping.document.problem import Path
    from webhook.mapping.model.vendor import Vendor

MARK: Final = "  # overridden"


def as_document(vendor: "Vendor", notes: Iterable[str] = ()) -> str:
    """Format a vendor's document, merged with the one that it extends; a comment marks what it overrides.

    Args:
        vendor: the vendor.
        notes: lines for the comment at the beginning, after the source.
    """
    from webhook.cli.output.yaml_output import yaml_text

    text = yaml_text(vendor.document.model_dump(mode="json", by_alias=True, exclude_unset=True))
    head = "".join(f"# {line}\n" for line in (vendor.source, *notes))
    return f"{head}{marked(text, vendor.overridden)}"


def marked(text: str, overridden: Iterable["Path"]) -> str:
    """Add a comment to the line of each path in the YAML of a document; removed paths are listed first."""
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
