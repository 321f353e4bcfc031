"""``vgpu-webhook diff``: what another policy would treat differently, before it is in force."""

import difflib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from webhook.cli.commands.mutate import unified
from webhook.cli.manifests.cases import DIGEST, MAPPINGS, SETTINGS, report
from webhook.cli.manifests.files import manifests_in
from webhook.cli.manifests.simulate import Simulated, SimulatedObject, simulate
from webhook.cli.options import PolicyOptions, end
from webhook.cli.policy_source import sourced_policy
from webhook.cli.terminal import json_text
from webhook.cluster.registration.match_conditions import sent_names
from webhook.doctor.result import FileLine
from webhook.mapping.model.policy import Policy

BUILT_IN: Final = "built-in"
DIFFERENT: Final = 2
"""Exit code if something would be treated differently."""


@click.command()
@click.argument("old")
@click.argument("new")
@click.option(
    "-f", "--filename", "files", metavar="FILE|DIR|-", multiple=True, required=True, help="Manifests. Repeatable."
)
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of objects that name none.  [default: default]")
@click.option("--template-path", "template_paths", metavar="PATH", multiple=True, help="As for mutate.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def diff(
    *,
    old: str,
    new: str,
    files: tuple[str, ...],
    namespace: str | None,
    template_paths: tuple[str, ...],
    output: str,
) -> None:
    """Show what the policy NEW would treat differently from the policy OLD, of these manifests.

    A policy is a file of values for the chart; a folder with settings.yaml, with a folder mappings, or with both; or
    built-in, for the built-in mappings and default settings.

    \b
    Exit codes: 0 nothing differs
                1 usage, or input that cannot be read (the rest is shown)
                2 something differs

    \b
    Examples:
      vgpu-webhook diff values.yaml new-values.yaml -f manifests/
      vgpu-webhook diff built-in policy/ -f pod.yaml -o json
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    policies = _policy(old), _policy(new)
    manifests, problems = manifests_in(files)
    before, after = (
        simulate(
            manifests,
            each,
            problems=problems,
            namespace=namespace,
            template_paths=template_paths,
            match=sent_names(each),
        )
        for each in policies
    )
    before.errors += [error for error in after.errors if error not in before.errors]
    found = list(treated_otherwise(policies[0], before, policies[1], after))
    click.echo(json_text(found) if output == "json" else _as_text(found, len(before.objects)), nl=False)
    end(before, denied=False, strict=False)
    if found:
        raise click.exceptions.Exit(DIFFERENT)


def _policy(name: str) -> Policy:
    """Load the policy that an argument names.

    Raises:
        Failure: a document cannot be read, or is invalid.
        click.BadParameter: there is no such policy.
    """
    place = Path(name)
    if name == BUILT_IN:
        return sourced_policy(PolicyOptions()).policy
    if place.is_file():
        return sourced_policy(PolicyOptions(values=(place,))).policy
    mappings, settings = (part if part.exists() else None for part in (place / MAPPINGS, place / SETTINGS))
    if mappings is None and settings is None:
        raise click.BadParameter(
            f"{name!r} is no file of values, no folder with {SETTINGS} or {MAPPINGS}, and not {BUILT_IN}"
        )
    return sourced_policy(PolicyOptions(mappings=mappings, settings=settings)).policy


def treated_otherwise(old: Policy, before: Simulated, new: Policy, after: Simulated) -> Iterator[dict[str, Any]]:
    """Yield the objects that are treated differently: the same manifests under two policies, whose digests do not count.

    Each is data for JSON: the title of the ``object``, and what the ``old`` and the ``new`` policy report about its pods
    (``report``, as lines) and store (``stored``).
    """
    # An object that only one of them can read is an error, and has no counterpart.
    firsts = dict(_numbered(before.objects))
    for first, second in ((firsts[key], each) for key, each in _numbered(after.objects) if key in firsts):
        treatments = _treatment(first, old), _treatment(second, new)
        if treatments[0] != treatments[1]:
            yield {"object": first.title, "old": treatments[0], "new": treatments[1]}


def _numbered(objects: Sequence[SimulatedObject]) -> Iterator[tuple[tuple[FileLine, str, int], SimulatedObject]]:
    """Yield each object with its place, its title, and its number among those that have both."""
    counts: Counter[tuple[FileLine, str]] = Counter()
    for each in objects:
        counts[each.at, each.title] += 1
        yield (each.at, each.title, counts[each.at, each.title]), each


def _treatment(simulated: SimulatedObject, policy: Policy) -> dict[str, Any]:
    lines = [f"note: {note}" for note in simulated.notes]
    for pod in simulated.pods:
        lines += [f"{pod.path}:"] if len(simulated.pods) > 1 else []
        lines += report(pod.decision).splitlines()
    stored = json.loads(json.dumps(simulated.after).replace(policy.digest, DIGEST))
    return {"report": lines, "stored": stored}


def _as_text(found: Sequence[dict[str, Any]], objects: int) -> str:
    parts = []
    for each in found:
        title, old, new = each["object"], each["old"], each["new"]
        lines = difflib.ndiff(old["report"], new["report"])
        told = "".join(f"{line}\n" for line in lines if not line.startswith("?"))
        parts.append(f"{click.style(title, bold=True)}\n{told}")
        if None not in (old["stored"], new["stored"]):
            parts += unified(title, old["stored"], new["stored"], ("before", "then"))
        parts.append("\n")
    return "".join([*parts, f"{len(found)} of {objects} objects would be treated differently\n"])
