"""``vgpu-webhook mutate``: prints manifests as the cluster would store them, without a cluster or network."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import click

from webhook.cli.files import difference, manifests_in, yaml_stream
from webhook.cli.options import PolicyCommand, PolicyOptions, end, manifest_options, output_option
from webhook.cli.policy_source import check_target, sourced_policy
from webhook.cli.simulate import Simulated, SimulatedObject, simulate
from webhook.cli.terminal import json_text, tell
from webhook.cluster.registration.names import sent_names
from webhook.doctor import Level
from webhook.reasons import explanation_of


@click.command(cls=PolicyCommand)
@manifest_options(required=True)
@output_option(
    *("yaml", "json", "patch", "diff"),
    means="patch: one JSON Patch per object, each on a line; diff: unified differences.",
)
def mutate(
    *,
    files: tuple[str, ...],
    namespace: str | None,
    source: PolicyOptions,
    target: str | None,
    strict: bool,
    output: str,
) -> None:
    """Print manifests as the cluster would store them.

    Pods are changed, and the pod templates and pod specs of other objects, also in lists: those of known kinds, and
    whatever looks like one in other kinds. Namespace objects in the input configure how their pods are handled and are
    not printed; a namespace without one counts as opted in.

    The first line of stderr says under which policy.

    What is denied or cannot be read is not printed, the rest is. A request for a GPU outside of every pod that was found is an
    error, and with --no-strict a warning.

    \b
    Examples:
      vgpu-webhook mutate -f pod.yaml -o diff --values values.yaml
      helm template . | vgpu-webhook mutate -f - --to nvidia | kubectl apply -f -
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    sourced = sourced_policy(source, silent=True)
    policy = sourced.policy
    check_target(target, policy)
    manifests, problems = manifests_in(files)
    outcome = simulate(
        manifests,
        policy,
        problems=problems,
        namespace=namespace,
        target=target,
        match=sent_names(policy),
    )
    for line in (sourced.line, *sourced.warnings):
        tell(line)
    click.echo(FORMATS[output](outcome), nl=False)
    _print_messages(outcome)
    if output == "diff":
        _print_unchanged(outcome)
    if outcome.denied:
        tell(
            "note: `vgpu-webhook explain` with the same -f and policy shows each denial with its keys, and what to write"
        )
    end(outcome.errors, outcome.unjudged, manifests, denied=outcome.denied, strict=strict)


def _print_messages(outcome: Simulated) -> None:
    for simulated in outcome.objects:
        for level, kind in {Level.OK: "note", Level.WARNING: "warning", Level.ERROR: "error"}.items():
            for message in simulated.told(level):
                tell(f"{kind}: {outcome.title_of(simulated)}: {message}")


def _print_unchanged(outcome: Simulated) -> None:
    """Print which objects with pods have no difference, and why, where no other note does."""
    for simulated in outcome.objects:
        if simulated.pods and simulated.after == simulated.before and not simulated.told(Level.OK):
            reasons = dict.fromkeys(explanation_of(pod.decision.reason).title for pod in simulated.pods)
            tell(f"note: {outcome.title_of(simulated)}: unchanged: {', '.join(reasons)}")


_COLORS: Final = {"+": "green", "-": "red", "@": "cyan"}


def _as_json(outcome: Simulated) -> str:
    """Format the document; a ``List`` if there were several, even if fewer remain."""
    if not outcome.single:
        return json_text({"apiVersion": "v1", "kind": "List", "items": outcome.documents})
    return "".join(map(json_text, outcome.documents))


def as_patch(outcome: Simulated) -> str:
    """Format one JSON Patch (RFC 6902) per object, each on a line; ``[]`` if nothing changes."""
    lines = [json.dumps(each.patch, ensure_ascii=False) for each in outcome.objects if each.after is not None]
    return "".join(f"{line}\n" for line in lines)


FORMATS: Final[Mapping[str, Callable[[Simulated], str]]] = {
    "yaml": lambda outcome: yaml_stream(outcome.documents),
    "json": _as_json,
    "patch": as_patch,
    "diff": lambda outcome: "".join(line for each in outcome.objects for line in _diff(each)),
}


def _diff(simulated: SimulatedObject) -> Iterator[str]:
    """Yield the lines of a unified difference in color, which `click.echo` strips if stdout is not a terminal."""
    for number, line in enumerate(difference(simulated.title, simulated.before, simulated.after)):
        heading = number < 2  # noqa: PLR2004  (its two lines)
        yield click.style(line, bold=heading or None, fg=None if heading else _COLORS.get(line[0])) + "\n"
