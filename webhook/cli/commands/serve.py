"""``vgpu-webhook serve``: starts the server from arguments and environment variables."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from webhook.cli.options import GivenPath, PolicyOptions, configured, of_cluster
from webhook.cli.terminal import Failure

if TYPE_CHECKING:
    from webhook.replica.run import Addresses
    from webhook.server.http import Endpoint

MAX_PORT: Final = 65535


class EndpointType(click.ParamType["Endpoint"]):
    """``ADDR:PORT``; ``:PORT`` means all addresses, port 0 a free port."""

    name = "ADDR:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Endpoint":
        """Parse the text of an option."""
        from webhook.server.http import Endpoint

        if isinstance(value, Endpoint):
            return value
        host, colon, port = str(value).rpartition(":")
        if not colon or not re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) or int(port) > MAX_PORT:
            self.fail(f"{value!r} is not ADDR:PORT, such as 127.0.0.1:8443, [::1]:8443 or :8443", param, ctx)
        host = host.removeprefix("[").removesuffix("]")
        return Endpoint(host or None, int(port))


ENDPOINT: Final = EndpointType()

_Kind = TypeVar("_Kind")


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Report errors as other commands do."""
    from webhook.replica.run import StartError

    try:
        yield
    except StartError as error:
        raise Failure([str(error)]) from error


@click.command(
    context_settings={"auto_envvar_prefix": "VGPU_WEBHOOK", "show_default": True},
    epilog="""\b
Endpoints:
  https://LISTEN/mutate         AdmissionReview v1, for the API server
  http://PLAIN-LISTEN/healthz   liveness
  http://PLAIN-LISTEN/readyz    ready for reviews
  http://PLAIN-LISTEN/metrics   for Prometheus

SIGTERM ends the server after --drain-grace, during which it still answers. Ctrl-C, or a second SIGTERM, ends it as
soon as the requests in flight are answered.

Each option can also be an environment variable: VGPU_WEBHOOK_ and its name, such as VGPU_WEBHOOK_STATE_DIR.""",
)
@click.option(
    "--standalone",
    is_flag=True,
    help="Serve without a cluster: with a CA of its own, and mappings and namespaces from files.",
)
@click.option("--listen", type=ENDPOINT, default=":8443", help="Address for admission reviews, over TLS.")
@click.option("--plain-listen", type=ENDPOINT, default=":8080", help="Address for probes and Prometheus.")
@configured
@click.option(
    "--namespaces",
    metavar="FILE|DIR",
    type=GivenPath(path_type=Path),
    help="Namespace objects (YAML), for their labels and annotations. A namespace without one counts as opted in, "
    "with Pod Security level privileged.",
)
@of_cluster
@click.option(
    "--url", metavar="URL", help="The https URL at which API servers reach the webhook, instead of a Service."
)
@click.option(
    "--service", metavar="NS/NAME", help="The Service of the webhook. In a pod: RELEASE-NAMESPACE/vgpu-webhook."
)
@click.option(
    "--registration",
    type=click.Choice(["managed", "static"]),
    default="managed",
    help="Whether the webhook maintains its webhook configuration (managed), or only reports differences (static).",
)
@click.option(
    "--owner-events",
    metavar="BOOLEAN",
    type=bool,
    default=True,
    help="Whether Events on workloads, such as Deployments, tell that their pods are changed or denied.",
)
@click.option(
    "--claims",
    is_flag=True,
    help="Create the ResourceClaimTemplates of pods whose target writes resource claims; without it they are denied.",
)
@click.option("--reuse-port", is_flag=True, help="Share the port with other processes on this machine.")
@click.option(
    "--state-dir",
    metavar="DIR",
    type=GivenPath(path_type=Path, file_okay=False),
    help="Folder for the webhook's own CA and certificate; clients have to trust DIR/ca.crt. Without it: the Secret "
    "vgpu-webhook-certificates in a cluster, .vgpu-webhook with --standalone.",
)
@click.option(
    "--certificate-dir",
    metavar="DIR",
    type=GivenPath(path_type=Path, file_okay=False),
    help="Folder with a certificate that another system renews, such as a mounted Secret of cert-manager: tls.crt, "
    "tls.key, optionally ca.crt. It is reloaded when it changes, and never written.",
)
@click.option(
    "--ca-settle",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=120,
    help="Time between publishing a new CA and serving a certificate that it signed, so that API servers can read the CA.",
)
@click.option(
    "--certificate-days",
    metavar="DAYS",
    type=click.IntRange(1, 825),
    default=90,
    help="Validity of the webhook's own serving certificates; they are renewed after two thirds of it.",
)
@click.option(
    "--extra-name",
    "extra_names",
    metavar="NAME",
    multiple=True,
    envvar="VGPU_WEBHOOK_EXTRA_NAME",  # that of the parameter would be in the plural
    help="An additional DNS name or IP address of the server. Repeatable.",
)
@click.option(
    "--client-ca-file",
    metavar="FILE",
    type=GivenPath(path_type=Path, dir_okay=False),
    help="CAs (PEM) of the client certificates that callers must present; without it none is required. It is read once.",
)
@click.option(
    "--inject-ca-from",
    metavar="NS/NAME",
    help="The Certificate whose CAs cert-manager itself writes into the webhook configuration.",
)
@click.option(
    "--drain-grace",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=10,
    help="How long reviews are still answered after SIGTERM, while the Service's endpoints are updated.",
)
@click.option(
    "--connections",
    metavar="COUNT",
    type=click.IntRange(min=16),
    default=512,
    help="Maximum number of connections for reviews: a further one replaces the one that has been idle for the longest. "
    "Each takes memory. The file descriptors of the process limit it, too.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    help="Level of the JSON log on stderr: denials are logged as info, other reviews as debug.",
)
@_failures()
def serve(
    *,
    standalone: bool,
    mappings: Path | None,
    settings: Path | None,
    namespaces: Path | None,
    connections: int,
    log_level: str,
    **others: Any,
) -> None:
    """Answer admission reviews over HTTPS.

    In a cluster, it watches ConfigMaps and Namespaces, and maintains its webhook configuration: in a pod without any
    option, outside a pod with a kubeconfig and --url. With --standalone, nothing else is needed. The server creates and
    renews its own certificate unless one is provided (--certificate-dir), and prints a line once it is ready.
    """
    from webhook.replica.run import CertificateOptions, Options
    from webhook.server.limits import Limits

    certificate_options = _options(CertificateOptions, others)
    certificate_options.check()
    limits = Limits(connections=connections)
    options = _options(Options, others, limits=limits)
    if standalone:
        from webhook.cli.policy_source import sourced_policy
        from webhook.cli.simulate import load_namespaces
        from webhook.replica.run import serve_standalone

        of_a_cluster = ("kubeconfig", "release_namespace", "url", "service", "inject_ca_from")
        _reject({name: others[name] for name in of_a_cluster}, "--standalone, which needs no cluster")
        policy = sourced_policy(PolicyOptions(mappings=mappings, settings=settings)).policy
        known = load_namespaces(namespaces, policy.settings.opt_in_label)
        serve_standalone(options, policy, known, certificate_options, log_level, announce=_announce)
        return
    from webhook.replica.in_cluster import ClusterOptions, serve_clustered

    of_files = {"mappings": mappings, "settings": settings, "namespaces": namespaces}
    _reject(of_files, "a cluster: ConfigMaps and Namespaces are used instead (or add --standalone)")
    serve_clustered(options, _options(ClusterOptions, others), certificate_options, log_level, _announce)


def _options(kind: type[_Kind], values: Mapping[str, Any], **more: Any) -> _Kind:
    """Make options of the values that are called like its parameters."""
    names = signature(kind).parameters.keys() - more.keys()
    return kind(**{name: values[name] for name in names}, **more)


def _announce(addresses: "Addresses", trusted: str) -> None:
    """Print one line for people, once reviews are answered; it ends with what clients have to trust."""
    # The log has the same line, so a closed stdout is no reason to end.
    with contextlib.suppress(OSError):
        click.echo(f"ready: {addresses} (clients trust {trusted})")


def _reject(options: Mapping[str, object], context: str) -> None:
    """Report an option that has a value."""
    for name, value in options.items():
        if value is not None:
            raise Failure([f"--{name.replace('_', '-')} cannot be used with {context}"])
