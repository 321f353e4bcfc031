"""Options that several commands share: the policy, the cluster and manifests; and what a shell completes as their values."""

import functools
import itertools
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from webhook.cli.terminal import DENIED, FOUND, Failure, tell
from webhook.text import shown

if TYPE_CHECKING:
    from webhook.cli.files import Manifest
    from webhook.cluster.client import Api


Command = TypeVar("Command", bound=Callable[..., Any])
_Found = TypeVar("_Found")


class GivenPath(click.Path):
    """A file or folder; an empty name, of a variable that is not set, names none, and not the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path as `click.Path` does."""
        if value == "":
            self.fail("the name is empty", param, ctx)
        return super().convert(value, param, ctx)


class PolicyCommand(click.Command):
    """A command whose help has the options that choose a policy in a line: `policy_records` explain them, once for all."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = [(each.name, record) for each in self.get_params(ctx) if (record := each.get_help_record(ctx))]
        policy = {*PolicyOptions._fields} - {"cluster"}
        with formatter.section("Options"):
            formatter.write_dl([record for name, record in records if name not in policy])
        with formatter.section("Policy, explained by `vgpu-webhook --help`"):
            formatter.write_text(", ".join(option.split()[0] for name, (option, _) in records if name in policy))


def configured(command: Command) -> Command:
    """Give a command the options ``--mappings`` and ``--settings``."""
    mappings = click.option(
        "--mappings",
        metavar="DIR",
        type=GivenPath(path_type=Path),
        help="Mappings (*.yaml) over the built-in ones.",
    )
    settings = click.option(
        "--settings",
        metavar="FILE",
        type=GivenPath(path_type=Path),
        help="The settings (`vgpu-webhook schema settings`).",
    )
    return mappings(settings(command))


class PolicyOptions(NamedTuple):
    """The options that choose a policy: values, documents, or a cluster; `cluster` is that of this process, unnamed."""

    values: tuple[Path, ...] = ()
    mappings: Path | None = None
    settings: Path | None = None
    context: str | None = None
    kubeconfig: Path | None = None
    release_namespace: str | None = None
    cluster: bool = False

    @property
    def named(self) -> tuple[str, ...]:
        """Those that name a source of the policy."""
        return tuple(option for option in _SOURCES if getattr(self, option.removeprefix("--")) not in {None, (), False})

    @property
    def in_cluster(self) -> bool:
        """Whether they mean a policy in force."""
        return any(_SOURCES[option] == "cluster" for option in self.named)

    @property
    def from_files(self) -> tuple[str, ...]:
        """Those that name files of a policy."""
        return tuple(option for option in self.named if _SOURCES[option] != "cluster")

    def check(self) -> None:
        """Reject options that contradict each other."""
        first_of_kinds = [next(group) for _, group in itertools.groupby(self.named, _SOURCES.get)]
        if len(first_of_kinds) > 1:
            within = self.values and first_of_kinds[1].removeprefix("--")
            remedy = "remove one of them"
            if within in {"mappings", "settings"}:
                remedy += f", or put the {within} below `{within}:` of the values"
            raise click.UsageError(f"{' and '.join(first_of_kinds[:2])} are different sources of the policy: {remedy}")
        if self.release_namespace is not None and not self.in_cluster:
            raise click.UsageError("--release-namespace needs --context or --kubeconfig")


_SOURCES: Final = {
    "--values": "chart",
    "--mappings": "documents",
    "--settings": "documents",
    "--context": "cluster",
    "--kubeconfig": "cluster",
    "--cluster": "cluster",
}
"""The options that name a source of the policy, each with its kind; those of one kind go together."""


def policy_options(command: Command) -> Command:
    """Give a command the options of `PolicyOptions`, which it gets as `source`; it adds ``--cluster`` itself."""

    @functools.wraps(command)
    def gathered(**given: Any) -> Any:
        source = {name: given.pop(name) for name in PolicyOptions._fields if name in given}
        return command(source=PolicyOptions(**source), **given)

    chart = click.option(
        "--values",
        metavar="FILE",
        type=GivenPath(path_type=Path),
        multiple=True,
        help="Of an installation with these values. Repeatable.",
    )
    context = click.option(
        "--context",
        metavar="NAME",
        help="In force in the cluster of this context.",
    )
    made: Any = chart(configured(context(of_cluster(gathered))))
    return made  # type: ignore[no-any-return]


def policy_records(ctx: click.Context) -> list[tuple[str, str]]:
    """The options of `policy_options`, each with its help."""
    options = click.command(policy_options(print)).params
    return [record for each in options if (record := each.get_help_record(ctx))]


def of_cluster(command: Command) -> Command:
    """Give a command the options ``--kubeconfig`` and ``--release-namespace``."""
    kubeconfig = click.option(
        "--kubeconfig",
        metavar="FILE",
        type=GivenPath(path_type=Path),
        help="Instead of KUBECONFIG, the pod's, ~/.kube/config.",
    )
    release_namespace = click.option(
        "--release-namespace",
        metavar="NS",
        help="Of the webhook; else the pod's own, or vgpu-webhook.",
    )
    return kubeconfig(release_namespace(command))


def in_cluster(source: PolicyOptions, task: "Callable[[Api, str], Awaitable[_Found]]") -> _Found:
    """Run a task with the API server of these options, and the webhook's own namespace there; name what was not read."""
    import asyncio

    from webhook.cluster.client import ApiError
    from webhook.cluster.connection import connect, release_namespace_of
    from webhook.doctor import first_of

    async def run() -> _Found:
        api = await connect(source.kubeconfig, source.context)
        try:
            return await task(api, release_namespace_of(source.release_namespace))
        finally:
            for line in first_of([*dict.fromkeys(map(str, api.unread))]):
                tell(f"warning: {shown(line)}")
            await api.close()

    try:
        return asyncio.run(run())
    except ApiError as error:
        raise Failure([str(error)]) from error


def output_option(*formats: str, means: str | None = None) -> Callable[[Command], Command]:
    """Give a command the option ``--output``; the first format is the default."""
    choice = click.Choice(formats)
    return click.option("-o", "--output", type=choice, default=formats[0], show_default=True, help=means)


def files_option(*, required: bool) -> Callable[[Command], Command]:
    """Give a command the option ``--filename``."""
    return click.option(
        "-f",
        "--filename",
        "files",
        type=GivenPath(),
        metavar="FILE|DIR|-",
        multiple=True,
        required=required,
        help="Manifests in YAML or JSON; a folder is read recursively. Repeatable.",
    )


def manifest_options(*, required: bool) -> Callable[[Command], Command]:
    """Give a command the options of manifests, from ``-f`` to ``--strict``, and those of `policy_options`."""
    namespace = click.option(
        "-n", "--namespace", metavar="NAME", help="Namespace of objects that name none.  [default: default]"
    )
    target = click.option(
        "--to",
        "target",
        metavar="VENDOR",
        shell_complete=vendor_names,
        help="Translate every request to this vendor, for instance nvidia; `vgpu-webhook vendors` lists them.",
    )

    def add(command: Command) -> Command:
        return files_option(required=required)(namespace(policy_options(target(strict_option(command)))))

    return add


strict_option: Final = click.option(
    "--strict/--no-strict",
    default=True,
    show_default=True,
    help="Of manifests: whether a request for a GPU that is in no pod is an error, or a warning.",
)


def end(
    unread: Sequence[object],
    unjudged: Sequence[str],
    manifests: Sequence["Manifest"] = (),
    *,
    denied: bool,
    strict: bool,
) -> None:
    """Print what was not read, or not judged, and exit with 1 or 2 if something was wrong."""
    for warning in (each for manifest in manifests for each in manifest.warnings):
        tell(f"warning: {warning}")
    for error in unread:
        tell(f"error: {error}")
    for text in unjudged:
        tell(f"{'error' if strict else 'warning'}: {text}")
    if unread or (strict and unjudged):
        sys.exit(FOUND)
    if denied:
        sys.exit(DENIED)


def vendor_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001  (click calls it so)
    """Complete a built-in vendor; as an option one that requests can be written for."""
    from webhook.mapping.load import builtin

    written = isinstance(parameter, click.Option)
    named = (name for name, each in builtin().items() if not written or each.data.get("target", True))
    return _beginning(named, incomplete)


def setting_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete ``KEY=`` of a setting that people choose."""
    from webhook.mapping.settings import Settings

    fields = Settings.model_fields.items()
    return _beginning((f"{field.alias or name}=" for name, field in fields if field.description), incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
