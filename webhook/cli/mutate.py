"""``vgpu-webhook mutate``: manifests in, what the cluster would store out. No cluster, no network."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from webhook.cli.configuration import configured, configured_policy
from webhook.cli.failure import Failure

if TYPE_CHECKING:
    from webhook.cli.manifest import Manifest
    from webhook.cli.printing import Format
    from webhook.cli.treatment import Outcome

DENIED: Final = 2
"""Exit code when an object was denied."""

STDIN: Final = "-"


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    metavar="FILE|-",
    multiple=True,
    required=True,
    help="Manifests: YAML or JSON. Repeatable.",
)
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of documents that name none.  [default: default]")
@configured
@click.option(
    "--to", "target", metavar="VENDOR", help="Write every request in this vendor's words, for instance nvidia."
)
@click.option(
    "--template-path",
    "template_paths",
    metavar="PATH",
    multiple=True,
    help="Where another kind holds pod templates: spec.pytorchReplicaSpecs.*.template, * for any key. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    "output",
    type=click.Choice(["yaml", "json", "patch", "diff"]),
    default="yaml",
    show_default=True,
    help="patch: one JSON Patch for each object and line; diff: what changes.",
)
def mutate(
    *,
    files: tuple[str, ...],
    namespace: str | None,
    mappings: Path | None,
    settings: Path | None,
    target: str | None,
    template_paths: tuple[str, ...],
    output: "Format",
) -> None:
    """Print manifests as the cluster would store them.

    Treated are pods and the pod templates of Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController,
    Job and CronJob, in lists too; other kinds pass through unchanged. Namespace documents in the input say how the
    pods in them are treated and are not printed; a namespace without one counts as opted in.

    \b
    Exit codes: 0 done
                1 usage, or input that cannot be read
                2 an object was denied (it is not printed, the others are)

    \b
    Examples:
      vgpu-webhook mutate -f pod.yaml -o diff
      helm template ./chart | vgpu-webhook mutate -f - --to nvidia | kubectl apply -f -
    """  # noqa: D301  (click's mark for a paragraph that is not to be filled)
    from webhook.cli.manifest import ManifestError
    from webhook.cli.printing import FORMATS
    from webhook.cli.treatment import Wishes, treat

    policy = configured_policy(mappings, settings)
    if target is not None and target not in policy.vendors:
        from webhook.mapping.problem import nearest_known

        hint = nearest_known(target, policy.vendors)
        raise click.BadParameter(f"no vendor is called {target!r}: {hint}", param_hint="--to")
    from webhook.admission import decide

    wishes = Wishes(namespace, target, template_paths, policy.settings.opt_in_label)
    try:
        outcome = treat(_manifests(files), lambda pod, context: decide(pod, context, policy), wishes)
    except ManifestError as error:
        raise Failure([str(error)]) from error
    click.echo(FORMATS[output](outcome), nl=False, color=False if os.environ.get("NO_COLOR") else None)
    _tell(outcome)
    if outcome.denied:
        sys.exit(DENIED)


def _manifests(files: Iterable[str]) -> "list[Manifest]":
    from webhook.cli.manifests import read_manifests

    manifests: list[Manifest] = []
    names = list(files)
    if names.count(STDIN) > 1:
        raise click.UsageError("standard input can be read only once")
    for name in names:
        try:
            body = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        except OSError as error:
            raise Failure([f"{name}: {error.strerror}"]) from error
        manifests += read_manifests(body, "standard input" if name == STDIN else name)
    if not manifests:
        raise Failure([f"{', '.join(names)}: no document"])
    return manifests


def _tell(outcome: "Outcome") -> None:
    for treated in outcome.objects:
        for kind, messages in (("note", treated.notes), ("warning", treated.warnings), ("error", treated.denials)):
            for message in messages:
                click.echo(f"{kind}: {treated.title}: {message}", err=True)
