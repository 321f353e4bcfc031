"""``vgpu-webhook mutate``: prints manifests as the cluster would store them, without a cluster or network."""

import os
from typing import TYPE_CHECKING

import click

from webhook.cli.manifest_options import check_template_paths, end, manifest_options, manifests_in
from webhook.cli.options import PolicyOptions

if TYPE_CHECKING:
    from webhook.cli.manifests.simulate import Simulated
    from webhook.cli.output.mutate import Format


@click.command()
@manifest_options(required=True)
@click.option(
    "-o",
    "--output",
    "output",
    type=click.Choice(["yaml", "json", "patch", "diff"]),
    default="yaml",
    show_default=True,
    help="patch: one JSON Patch per object, each on a line; diff: unified differences.",
)
def mutate(
    *,
    files: tuple[str, ...],
    namespace: str | None,
    source: PolicyOptions,
    target: str | None,
    template_paths: tuple[str, ...],
    strict: bool,
    output: "Format",
) -> None:
    """Print manifests as the cluster would store them.

    Pods are changed, and the pod templates and pod specs of other objects, also in lists: those of known kinds, and
    whatever looks like one in other kinds. Namespace objects in the input configure how their pods are handled and are
    not printed; a namespace without one counts as opted in.

    The policy is that of an installation with --values, that of --mappings and --settings, or that in force in the
    cluster of --context or --kubeconfig; without any, the built-in mappings and default settings. stderr says which.

    A request for a GPU outside of every pod that was found is a warning, and with --strict an error.

    \b
    Exit codes: 0 done
                1 usage, input that cannot be read (the rest is printed), or with --strict a request that nothing judged
                2 an object was denied (it is not printed, the others are)

    \b
    Examples:
      vgpu-webhook mutate -f pod.yaml -o diff --values values.yaml
      helm template ./chart | vgpu-webhook mutate -f - --to nvidia | kubectl apply -f -
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    from webhook.admission import decide
    from webhook.cli.manifests.simulate import SimulateOptions, is_key_of, simulate
    from webhook.cli.output.mutate import FORMATS
    from webhook.cli.policy_source import check_target, sourced_policy
    from webhook.cluster.registration.match_conditions import matched_names_of

    sourced = sourced_policy(source, silent=True)
    policy = sourced.policy
    check_target(target, policy)
    match = matched_names_of(policy)
    label = policy.settings.opt_in_label
    options = SimulateOptions(namespace, target, template_paths, label, match, is_key_of(policy))
    manifests, problems = manifests_in(files)
    outcome = simulate(manifests, lambda pod, context: decide(pod, context, policy), options)
    check_template_paths(outcome)
    for line in (sourced.line, *sourced.warnings):
        click.echo(line, err=True)
    click.echo(FORMATS[output](outcome), nl=False, color=False if os.environ.get("NO_COLOR") else None)
    _print_messages(outcome)
    end(manifests, problems, outcome, denied=outcome.denied, strict=strict)


def _print_messages(outcome: "Simulated") -> None:
    for simulated in outcome.objects:
        for kind, messages in (
            ("note", simulated.notes),
            ("warning", simulated.warnings),
            ("error", simulated.denials),
        ):
            for message in messages:
                click.echo(f"{kind}: {simulated.title}: {message}", err=True)
