"""``vgpu-webhook explain``: explains how manifests are changed and why, or what a key means."""

import json
import os
from typing import TYPE_CHECKING, Any, Literal

import click

from webhook.cli.failure import Failure
from webhook.cli.manifest_options import check_template_paths, end, manifest_options, manifests_in
from webhook.cli.options import PolicyOptions

if TYPE_CHECKING:
    from webhook.cli.manifests.read import Manifest
    from webhook.cli.manifests.simulate import Allocations, Simulated, SimulatedObject, SimulatedPod
    from webhook.cli.output.explained import ExplainedObjects, ObjectExplained
    from webhook.cli.policy_source import SourcedPolicy
    from webhook.cluster.registration.match_conditions import MatchedNames
    from webhook.explanation.model import PodExplained
    from webhook.mapping.model.policy import Policy


@click.command()
@manifest_options(required=False)
@click.option("--name", metavar="KEY", help="Explain this resource name, label or annotation instead of manifests.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def explain(
    *,
    files: tuple[str, ...],
    namespace: str | None,
    source: PolicyOptions,
    target: str | None,
    template_paths: tuple[str, ...],
    strict: bool,
    name: str | None,
    output: Literal["text", "json"],
) -> None:
    """Explain how the webhook changes manifests and why, or what a key means.

    For each container that requests a GPU: its keys and their meaning, the defaults and their origin, what is written
    and why, what is rounded or lost, and the scheduler and shim; if it is denied, what to write instead. Objects,
    namespaces and the policy are handled as by `mutate`; the first line says which policy it is.

    \b
    Exit codes: 0 done
                1 usage, input that cannot be read, an unknown key, or with --strict a request that nothing judged
                2 an object is denied

    \b
    Examples:
      vgpu-webhook explain -f pod.yaml --to nvidia
      vgpu-webhook explain --name aliyun.com/gpu-mem
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    if (name is None) == (not files):
        raise click.UsageError("nothing to explain: name manifests with -f, or a key with --name")
    if name is not None and (namespace, target, template_paths, strict) != (None, None, (), False):
        options = "--namespace, --to, --template-path and --strict"
        raise click.UsageError(f"{options} apply to manifests only: remove them, or --name")
    from webhook.cli.policy_source import check_target, sourced_policy

    sourced = sourced_policy(source)
    check_target(target, sourced.policy)
    if name is not None:
        _explain_key(name, sourced, output)
        return
    from webhook.cli.output.explained import pods_text

    manifests, problems = manifests_in(files)
    outcome, explanation = _explained(manifests, sourced.policy, namespace, target, template_paths)
    _print(pods_text(explanation) if output == "text" else _json(explanation, sourced), sourced, output)
    end(manifests, problems, outcome, denied=explanation.denied, strict=strict)


def _explained(
    manifests: "list[Manifest]",
    policy: "Policy",
    namespace: str | None,
    target: str | None,
    template_paths: tuple[str, ...],
) -> "tuple[Simulated, ExplainedObjects]":
    from webhook.admission import decide
    from webhook.cli.manifests.simulate import SimulateOptions, allocations, is_key_of, simulate
    from webhook.cli.output.explained import ExplainedObjects
    from webhook.cluster.registration.match_conditions import matched_names_of

    label = policy.settings.opt_in_label
    options = SimulateOptions(namespace, target, template_paths, label, is_key=is_key_of(policy))
    outcome = simulate(manifests, lambda pod, context: decide(pod, context, policy), options)
    check_template_paths(outcome)
    known = allocations(manifests)
    match = matched_names_of(policy)
    objects = tuple(_object(simulated, policy, match, target, known) for simulated in outcome.objects)
    return outcome, ExplainedObjects(objects)


def _object(
    simulated: "SimulatedObject", policy: "Policy", match: "MatchedNames", target: str | None, known: "Allocations"
) -> "ObjectExplained":
    from webhook.cli.output.explained import ObjectExplained, PodPart

    parts = tuple(PodPart(pod.path, _pod(pod, policy, match, target)) for pod in simulated.pods)
    return ObjectExplained(
        simulated.title, (*simulated.notes, *simulated.unjudged, *known.notes(simulated.pods)), parts
    )


def _pod(simulated: "SimulatedPod", policy: "Policy", match: "MatchedNames", target: str | None) -> "PodExplained":
    from webhook.cluster.registration.match_conditions import NOT_SENT, sends
    from webhook.explanation.pods import POD_TARGET, explain_pod, unsent

    pod_target = POD_TARGET if target is None else f"--to {target}"
    explained = explain_pod(simulated.pod, simulated.context, policy, pod_target)
    return explained if sends(simulated.pod, match) else unsent(explained, NOT_SENT)


def _explain_key(name: str, sourced: "SourcedPolicy", output: str) -> None:
    from webhook.cli.output.explained import names_text, unknown
    from webhook.explanation.glossary import look_up

    entry = look_up(sourced.policy, name)
    if not entry.known:
        raise Failure([unknown(entry)])
    _print(names_text(entry) if output == "text" else _json(entry, sourced), sourced, output)


def _json(model: Any, sourced: "SourcedPolicy") -> str:
    import msgspec

    data = {"policy": sourced.title, **msgspec.to_builtins(model)}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _print(text: str, sourced: "SourcedPolicy", output: str) -> None:
    if output == "text":
        click.echo(sourced.line)
    click.echo(text, nl=False, color=False if os.environ.get("NO_COLOR") else None)
