"""``vgpu-webhook serve``: the server, from arguments and environment variables."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from webhook.cli.failure import Failure
from webhook.cli.options import configured, configured_policy, of_cluster

if TYPE_CHECKING:
    from webhook.replica.run import Addresses
    from webhook.server.listener import Endpoint

MAX_PORT: Final = 65535


class EndpointType(click.ParamType["Endpoint"]):
    """``ADDR:PORT``; ``:PORT`` listens on all addresses, port 0 on one that is free."""

    name = "ADDR:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Endpoint":
        """Read the text of an option."""
        from webhook.server.listener import Endpoint

        if isinstance(value, Endpoint):
            return value
        host, colon, port = str(value).rpartition(":")
        if not colon or not re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) or int(port) > MAX_PORT:
            self.fail(f"{value!r} is not ADDR:PORT, such as 127.0.0.1:8443, [::1]:8443 or :8443", param, ctx)
        host = host.removeprefix("[").removesuffix("]")
        return Endpoint(host or None, int(port))


ENDPOINT: Final = EndpointType()


@click.command(
    context_settings={"auto_envvar_prefix": "VGPU_WEBHOOK", "show_default": True},
    epilog="""\b
Endpoints:
  https://LISTEN/mutate            AdmissionReview v1, for the API server
  http://PLAIN-LISTEN/healthz      alive
  http://PLAIN-LISTEN/readyz       ready for reviews
  http://PLAIN-LISTEN/metrics      for Prometheus

SIGTERM ends the server after the drain grace, during which it still answers. Ctrl-C, or a second SIGTERM, ends it as
soon as the requests in flight are answered.

Each option can be an environment variable, too: VGPU_WEBHOOK_ and its name, such as VGPU_WEBHOOK_STATE_DIR.""",
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
    type=click.Path(path_type=Path),
    help="Namespace objects (YAML), for their labels and annotations. A namespace without one counts as opted in, "
    "with Pod Security level privileged.",
)
@of_cluster()
@click.option(
    "--url", metavar="URL", help="The https URL at which API servers reach the webhook, instead of a Service."
)
@click.option(
    "--service", metavar="NS/NAME", help="The Service of the webhook. In a pod: RELEASE-NAMESPACE/vgpu-webhook."
)
@click.option(
    "--registration",
    type=click.Choice(["managed", "static", "off"]),
    default="managed",
    help="The webhook configuration: kept by the webhook (managed), only compared and reported (static), or ignored (off).",
)
@click.option("--reuse-port", is_flag=True, help="Share the port with other processes on this machine.")
@click.option(
    "--state-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the webhook's own CA and certificate; clients have to trust DIR/ca.crt. Without it: the Secret "
    "vgpu-webhook-certificates in a cluster, .vgpu-webhook with --standalone.",
)
@click.option(
    "--certificate-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder with a certificate that another system renews, such as a mounted Secret of cert-manager: tls.crt, "
    "tls.key, optionally ca.crt. It is reloaded when it changes, and never written.",
)
@click.option(
    "--ca-settle",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=120,
    help="Time between publishing a new CA and serving a certificate that it signed: API servers need it to learn the "
    "CA.",
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
    help="A DNS name or IP address by which the server is called, too; may be repeated.",
)
@click.option("--cluster-domain", metavar="DOMAIN", default="cluster.local", help="What the names of Services end in.")
@click.option(
    "--client-ca-file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Authorities (PEM) of the certificates that callers have to show; without it nobody is asked for one. The file is "
    "followed.",
)
@click.option(
    "--inject-ca-from",
    metavar="NS/NAME",
    help="cert-manager's Certificate whose CAs it is to write into the webhook configuration itself.",
)
@click.option(
    "--target",
    metavar="VENDOR",
    help="What this cluster speaks: requests of its hardware family are translated to it. Beats the settings.",
)
@click.option(
    "--drain-grace",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=10,
    help="For how long reviews are still answered after SIGTERM, while the cluster's endpoints catch up.",
)
@click.option(
    "--connections",
    metavar="COUNT",
    type=click.IntRange(min=16),
    default=512,
    help="How many callers may be connected for reviews: the next one takes the place of the one that was idle for the "
    "longest. Each takes about 0.1 MiB. Never more than there are file descriptors.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    help="Of the JSON lines on stderr: denials and errors are info, every other review debug.",
)
def serve(  # noqa: PLR0917  (click passes them by name)
    standalone: bool,
    listen: "Endpoint",
    plain_listen: "Endpoint",
    mappings: Path | None,
    settings: Path | None,
    namespaces: Path | None,
    kubeconfig: Path | None,
    release_namespace: str | None,
    url: str | None,
    service: str | None,
    registration: str,
    reuse_port: bool,
    state_dir: Path | None,
    certificate_dir: Path | None,
    ca_settle: float,
    certificate_days: int,
    extra_names: tuple[str, ...],
    cluster_domain: str,
    client_ca_file: Path | None,
    inject_ca_from: str | None,
    target: str | None,
    drain_grace: float,
    connections: int,
    log_level: str,
) -> None:
    """Answer admission reviews over HTTPS.

    In a cluster it follows ConfigMaps and Namespaces and registers itself: in a pod without any option, outside one with a
    kubeconfig and --url. With --standalone nothing else is needed. Either way the server makes its own certificate unless
    it is given one (--certificate-dir), keeps it up, and prints a line once it is ready.
    """
    from webhook.replica.run import Options
    from webhook.replica.start import CertificateOptions
    from webhook.server.limits import Limits

    limits = Limits(connections=connections)
    options = Options(listen, plain_listen, drain_grace, reuse_port=reuse_port, limits=limits)
    material = CertificateOptions(
        state_dir,
        certificate_dir,
        ca_settle,
        certificate_days,
        extra_names,
        cluster_domain,
        client_ca_file,
        inject_ca_from,
    )
    with _failures():
        material.checked()
    if standalone:
        from webhook.cli.manifests.namespaces import load_namespaces
        from webhook.replica.standalone import serve_standalone

        given = {
            "--kubeconfig": kubeconfig,
            "--release-namespace": release_namespace,
            "--url": url,
            "--service": service,
            "--inject-ca-from": inject_ca_from,
        }
        _refuse_beside(given, "--standalone, which needs no cluster")
        policy = configured_policy(mappings, settings, target)
        known = load_namespaces(namespaces, policy.settings.opt_in_label)
        with _failures():
            serve_standalone(options, policy, known, material, log_level, announce=_announce)
        return
    from webhook.replica.clustered import ClusterOptions, serve_clustered

    given = {"--mappings": mappings, "--settings": settings, "--target": target, "--namespaces": namespaces}
    _refuse_beside(given, "a cluster, whose ConfigMaps and Namespaces say that (or add --standalone)")
    where = ClusterOptions(kubeconfig, release_namespace, url, service, registration)
    with _failures():
        serve_clustered(options, where, material, log_level, _announce)


def _announce(addresses: "Addresses", trusted: str) -> None:
    """One readable line, once reviews are answered; it ends with what clients have to trust."""
    # It is for whoever looks, and the log says the same: nobody has to be able to read it.
    with contextlib.suppress(OSError):
        click.echo(f"ready: {addresses} (clients trust {trusted})")


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Why a replica cannot start, told as other commands do."""
    from webhook.replica.start import StartError

    try:
        yield
    except StartError as error:
        raise Failure([str(error)]) from error


def _refuse_beside(given: Mapping[str, object], what: str) -> None:
    for option, value in given.items():
        if value is not None:
            raise Failure([f"{option} cannot stand beside {what}"])
