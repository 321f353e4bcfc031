"""``vgpu-webhook admission-policies``: prints policies that API servers evaluate by themselves."""

from typing import TYPE_CHECKING

import click

from webhook.cli.options import PolicyOptions, policy_options

if TYPE_CHECKING:
    from webhook.admission_policies import GuardAction


@click.command("admission-policies")
@click.option(
    "--guard",
    type=click.Choice(["Deny", "Warn", "Audit"]),
    help="Print a ValidatingAdmissionPolicy for pods that the webhook should have changed: what is done with them.",
)
@click.option(
    "--hide", is_flag=True, help="Print a MutatingAdmissionPolicy that hides devices from containers that request none."
)
@policy_options
def admission_policies(*, guard: "GuardAction | None", hide: bool, source: PolicyOptions) -> None:
    """Print admission policies as YAML, generated from the mappings and settings: API servers apply them without the webhook.

    They hold for the vendors of the settings `target` and `served`. Print and apply them again when mappings or settings
    change; the annotation vgpu-webhook.io/written-by has the digest of the policy.

    \b
    Examples:
      vgpu-webhook admission-policies --guard Deny --values values.yaml | kubectl apply -f -
      vgpu-webhook admission-policies --hide --context production
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    from webhook import __version__
    from webhook.admission_policies import guard_objects, hide_objects
    from webhook.cli.manifests.files import yaml_stream
    from webhook.cli.policy_source import sourced_policy
    from webhook.cli.terminal import Failure

    if guard is None and not hide:
        raise click.UsageError("what should be printed? --guard Deny, Warn or Audit, --hide, or both")
    found = sourced_policy(source)
    printed = {
        "--guard": None if guard is None else guard_objects(found.policy, __version__, guard),
        "--hide": hide_objects(found.policy, __version__) if hide else None,
    }
    empty = [option for option, objects in printed.items() if objects == []]
    if empty:
        reason = "set `target`, or `served`" if not found.policy.settings.target else "its mapping has nothing for it"
        raise Failure([f"{option}: no policy can be made for {found.title}: {reason}" for option in empty])
    objects = [each for made in printed.values() for each in made or ()]
    click.echo(yaml_stream(objects), nl=False)
