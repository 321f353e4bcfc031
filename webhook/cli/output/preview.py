"""A preview as a table for a terminal, as Markdown, or as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from webhook.cli.manifests.preview import NextPod, Preview
from webhook.cli.output.check import as_text
from webhook.cli.output.tables import columns
from webhook.doctor.result import Check, Level, Result, counted
from webhook.text import shown

Checked = Sequence[tuple[Check[Any], Result]]

HEADINGS: Final = ("NAMESPACE", "WORKLOAD", "BECOMES", "DETAILS")
MAX_DETAILS: Final = 160
"""Characters of details in a table; the whole text is in JSON."""


def preview_text(found: Preview, source: str, checked: Checked, output: str) -> str:
    """Format a preview as `output` says: ``table``, ``markdown`` or ``json``.

    Args:
        found: the preview.
        source: which policy it is of.
        checked: whether the cluster can run the pods; empty without a cluster.
        output: the format.
    """
    if output == "json":
        return json.dumps(_data(found, source, checked), indent=2, ensure_ascii=False) + "\n"
    return "\n".join(_markdown(found, source, checked) if output == "markdown" else _table(found, source, checked))


def _data(found: Preview, source: str, checked: Checked) -> dict[str, Any]:
    return {
        "policy": source,
        "pods": [msgspec.to_builtins(pod) for pod in found.pods],
        "outcomes": dict(found.outcomes),
        "effects": dict(found.effects),
        "codes": dict(found.codes),
        "namespaces": {name: dict(outcomes) for name, outcomes in found.namespaces.items()},
        "withoutRequest": found.others,
        "cluster": [{"name": check.name, **msgspec.to_builtins(result)} for check, result in checked],
    }


def _table(found: Preview, source: str, checked: Checked) -> Iterator[str]:
    yield f"as if every namespace had opted in and enforced; {source}"
    yield ""
    if found.pods:
        yield columns([HEADINGS, *map(_cells, found.pods)])
    yield f"{counted(len(found.pods), 'template')} with a GPU request: {_counts(found.outcomes)}"
    yield f"without one, and never changed: {found.others}"
    for what, counts in (("effects", found.effects), ("codes", found.codes)):
        if counts:
            yield f"{what}: {_counts(counts)}"
    if len(found.namespaces) > 1:
        yield from (f"namespace {name}: {_counts(outcomes)}" for name, outcomes in found.namespaces.items())
    if checked:
        yield ""
        yield as_text(checked).rstrip()
    yield ""


def _markdown(found: Preview, source: str, checked: Checked) -> Iterator[str]:
    yield f"As if every namespace had opted in and enforced; {source}."
    yield ""
    yield "| namespace | unchanged | changed | denied |\n|---|---|---|---|"
    yield from (f"| {name} | {' | '.join(map(str, counts.values()))} |" for name, counts in found.namespaces.items())
    yield f"| **all** | {' | '.join(map(str, found.outcomes.values()))} |"
    yield ""
    yield f"| {' | '.join(heading.lower() for heading in HEADINGS)} |\n|---|---|---|---|"
    for pod in found.pods:
        cells = (cell.replace("|", "\\|") for cell in _cells(pod))
        yield f"| {' | '.join(cells)} |"
    yield ""
    for check, result in checked:
        yield f"- {check.name}, {result.level.value}: {' '.join((result.message, *result.details))}"
    if any(result.level is not Level.OK for _, result in checked):
        yield ""


def _cells(pod: NextPod) -> tuple[str, str, str, str]:
    text = shown(pod.text)
    cut = text if len(text) <= MAX_DETAILS else f"{text[: MAX_DETAILS - 1]}…"
    return pod.namespace, shown(pod.workload), ", ".join(pod.effects) or _plain(pod), cut


def _plain(pod: NextPod) -> str:
    return "completed" if pod.outcome == "changed" else "unchanged"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())
