"""``vgpu-webhook explain``: explains how manifests are changed and why, or what a key means."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from webhook.cli.failure import Failure
from webhook.cli.manifest_options import DENIED, manifest_options, manifests_in, policy_for

if TYPE_CHECKING:
    from webhook.cli.manifests.simulate import Allocations, SimulatedObject
    from webhook.cli.output.explained import ExplainedObjects
    from webhook.mapping.model.policy import Policy


@click.command()
@manifest_options(required=False)
@click.option("--name", metavar="KEY", help="Explain this resource name, label or annotation instead of manifests.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def explain(
    *,
    files: tuple[str, ...],
    namespace: str | None,
    mappings: Path | None,
    settings: Path | None,
    target: str | None,
    template_paths: tuple[str, ...],
    name: str | None,
    output: Literal["text", "json"],
) -> None:
    """Explain how the webhook changes manifests and why, or what a key means.

    For each container that requests a GPU: its keys and their meaning, the defaults and their origin, what is written
    and why, what is rounded or lost, and the scheduler and shim; if it is denied, what to write instead. Objects and
    namespaces are handled as by `mutate`.

    \b
    Exit codes: 0 done
                1 usage, input that cannot be read, or an unknown key
                2 an object is denied

    \b
    Examples:
      vgpu-webhook explain -f pod.yaml --to nvidia
      vgpu-webhook explain --name aliyun.com/gpu-mem
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    if (name is None) == (not files):
        raise click.UsageError("nothing to explain: name manifests with -f, or a key with --name")
    if name is not None and (namespace, target, template_paths) != (None, None, ()):
        raise click.UsageError("--namespace, --to and --template-path apply to manifests only: remove them, or --name")
    policy = policy_for(mappings, settings, target)
    if name is not None:
        _explain_key(name, policy, output)
        return
    from webhook.cli.output.explained import pods_text

    explanation = _explained(files, policy, namespace, target, template_paths)
    _print(pods_text(explanation) if output == "text" else _json(explanation))
    if explanation.denied:
        sys.exit(DENIED)


def _explained(
    files: tuple[str, ...], policy: "Policy", namespace: str | None, target: str | None, template_paths: tuple[str, ...]
) -> "ExplainedObjects":
    from webhook.admission import decide
    from webhook.cli.manifests.read import ManifestError
    from webhook.cli.manifests.simulate import SimulateOptions, allocations, simulate
    from webhook.cli.output.explained import ExplainedObjects

    options = SimulateOptions(namespace, target, template_paths, policy.settings.opt_in_label)
    try:
        manifests = manifests_in(files)
        outcome = simulate(manifests, lambda pod, context: decide(pod, context, policy), options)
    except ManifestError as error:
        raise Failure([str(error)]) from error
    known = allocations(manifests)
    return ExplainedObjects(tuple(_object(simulated, policy, target, known) for simulated in outcome.objects))


def _object(simulated: "SimulatedObject", policy: "Policy", target: str | None, known: "Allocations") -> Any:
    from webhook.cli.output.explained import ObjectExplained, PodPart
    from webhook.explanation.pods import POD_TARGET
    from webhook.explanation.pods import explain_pod as explained

    pod_target = POD_TARGET if target is None else f"--to {target}"
    parts = (PodPart(pod.path, explained(pod.pod, pod.context, policy, pod_target)) for pod in simulated.pods)
    return ObjectExplained(simulated.title, (*simulated.notes, *known.notes(simulated.pods)), tuple(parts))


def _explain_key(name: str, policy: "Policy", output: str) -> None:
    from webhook.cli.output.explained import names_text, unknown
    from webhook.explanation.glossary import look_up

    entry = look_up(policy, name)
    if not entry.known:
        raise Failure([unknown(entry)])
    _print(names_text(entry) if output == "text" else _json(entry))


def _json(model: Any) -> str:
    import msgspec

    return json.dumps(msgspec.to_builtins(model), indent=2, ensure_ascii=False) + "\n"


def _print(text: str) -> None:
    click.echo(text, nl=False, color=False if os.environ.get("NO_COLOR") else None)
