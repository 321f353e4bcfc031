"""``vgpu-webhook explain``: explains how manifests are changed and why, or what a key means."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from webhook.cli.options import PolicyCommand, PolicyOptions, end, manifest_options, output_option
from webhook.cli.terminal import Failure, LabelledRow, block, heading, json_text, labelled, tell
from webhook.text import shown

if TYPE_CHECKING:
    from webhook.cli.policy_source import SourcedPolicy

_COLORS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("lost", "warnings", "traps"), "yellow"),
    **dict.fromkeys(("denied", "would be"), "red"),
    "remedy": "green",
}
"""Of labels; others are cyan."""


@click.command(cls=PolicyCommand)
@manifest_options(required=False)
@click.option("--name", metavar="KEY", help="Explain this resource name, label or annotation instead of manifests.")
@output_option("text", "json")
def explain(
    *,
    files: tuple[str, ...],
    namespace: str | None,
    source: PolicyOptions,
    target: str | None,
    strict: bool,
    name: str | None,
    output: Literal["text", "json"],
) -> None:
    """Explain how the webhook changes manifests and why, or what a key means.

    For each container that requests a GPU: its keys and their meaning, the defaults and their origin, what is written
    and why, what is rounded or lost, and the scheduler and shim; if it is denied, what to write instead. Objects,
    namespaces and the policy are handled as by `mutate`; the first line says which policy it is.

    \b
    Examples:
      vgpu-webhook explain -f pod.yaml --to nvidia
      vgpu-webhook explain --name aliyun.com/gpu-mem
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    if (name is None) == (not files):
        raise click.UsageError("nothing to explain: name manifests with -f, or a key with --name")
    if name is not None and (namespace, target, strict) != (None, None, True):
        options = "--namespace, --to and --no-strict"
        raise click.UsageError(f"{options} apply to manifests only: remove them, or --name")
    from webhook.cli.policy_source import check_target, sourced_policy

    sourced = sourced_policy(source)
    check_target(target, sourced.policy)
    if name is not None:
        _explain_name(name, sourced, output)
        return
    from webhook.cli.files import manifests_in
    from webhook.cli.simulate import explain_objects, simulate

    manifests, problems = manifests_in(files)
    policy = sourced.policy
    outcome = simulate(manifests, policy, problems=problems, namespace=namespace, target=target)
    objects = list(explain_objects(outcome, policy, target))
    if output == "text":
        _print("\n".join(map(object_text, objects)), sourced)
    else:
        _print_json({"objects": objects}, sourced)
    denied = any(not pod["allowed"] for each in objects for pod in each["pods"])
    end(outcome.errors, outcome.unjudged, manifests, denied=denied, strict=strict)


def object_text(obj: Mapping[str, Any]) -> str:
    """Format what `explain_objects` says, with colors, which `click.echo` strips if stdout is not a terminal."""
    title, pods = obj["title"], obj["pods"]
    texts = ["".join(_pod_lines(f"{title}, {pod['path']}" if pod["path"] else title, pod)) for pod in pods]
    return "\n".join(texts or [heading(f"{title}: no pod found in it")]) + "".join(labelled("note", obj["notes"]))


def _pod_lines(title: str, pod: Mapping[str, Any]) -> Iterator[str]:
    verdict, color = ("allowed", None) if pod["allowed"] else ("denied", "red")
    mode = "" if pod["mode"] == "enforce" else f" (mode {pod['mode']})"
    outcome = f"{pod['outcome']} ({pod['code']})"
    yield heading(f"{title} in namespace {pod['namespace']}{mode}: {verdict}, {outcome}", color)
    for container in pod["containers"]:
        yield from (f"  {line}\n" for line in heading(container["title"]).splitlines())
        yield from _row_lines(container["rows"], 4)
    yield from _row_lines(pod["rows"], 2)
    if pod["correction"] is not None:
        yield from _correction_lines(**pod["correction"])


def _row_lines(rows: "Mapping[str, Sequence[str | LabelledRow]]", indent: int) -> Iterator[str]:
    for label, each in rows.items():
        yield from labelled(label, each, indent, _COLORS.get(label, "cyan"))


def _correction_lines(manifest: Mapping[str, Any], remove: Sequence[str]) -> Iterator[str]:
    from webhook.cli.files import yaml_text

    if remove:
        yield from labelled("remove", remove, color="green")
    if manifest:
        yield from labelled("write", ["this instead; with it the pod is not denied:"], color="green")
        yield from block(yaml_text(manifest).splitlines())


def _explain_name(name: str, sourced: "SourcedPolicy", output: str) -> None:
    from difflib import get_close_matches

    from webhook.explanation.names import look_up, similar_names
    from webhook.labels import KEYS

    own = [key for key in KEYS if key.name == name]
    if own and output == "text":
        rows = ([f"{key.place} of a {key.kind}, {' or '.join(key.values)}: {key.purpose}"] for key in own)
        _print(heading(name) + "".join(part for row in rows for part in labelled("here", row)), sourced)
        return
    if own:
        uses = [{"place": key.place, "kind": key.kind, "values": key.values, "purpose": key.purpose} for key in own]
        _print_json({"name": name, "own": uses}, sourced)
        return
    found = look_up(sourced.policy, name)
    if found is None:
        meant = similar_names(sourced.policy, name) or get_close_matches(name, [key.name for key in KEYS], n=1)
        near = f"; did you mean {' or '.join(meant)}?" if meant else "; `vgpu-webhook vendors` lists the keys"
        raise Failure([shown(f"{name} is not a key of any vendor{near}")])
    if output == "text":
        _print("".join(_name_lines(**found)), sourced)
    else:
        _print_json(found, sourced)


def _name_lines(
    *, name: str, owner: str | None, choice: str | None, uses: Any, marks: Any, advice: Any, device_class: str | None
) -> Iterator[str]:
    from webhook.explanation.names import MARKS

    yield heading(name)
    if device_class is not None:
        what = f"devices of the DeviceClass {device_class}, claimed by the scheduler"
        yield from labelled("here", [f"{what}: no key of a mapping, unchanged"])
    if owner is not None:
        yield from labelled("here", [f"a key of {owner}"])
    if choice is not None:
        yield from labelled("else", [f"the setting `{choice}` has it read as the other's key"])
    for use in uses:
        yield heading(use["title"], indent=2)
        yield from _row_lines(use["rows"], 4)
    for vendor, mark in marks:
        yield from labelled(vendor, [MARKS[mark]])
    yield from labelled("advice", advice)


def _print_json(data: Mapping[str, Any], sourced: "SourcedPolicy") -> None:
    click.echo(json_text({"policy": sourced.title, **data}), nl=False)


def _print(text: str, sourced: "SourcedPolicy") -> None:
    tell(sourced.line, err=False)
    click.echo(text, nl=False)
