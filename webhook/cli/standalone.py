"""``serve --standalone``: without a cluster, from files."""

from pathlib import Path
from typing import Final

from webhook.admission import decide
from webhook.cli.failure import Failure
from webhook.cli.serving import announce_to, logger, names_of, run_to_end, served
from webhook.mapping.load import load_policy
from webhook.mapping.problem import MappingError
from webhook.server.mutate import Current
from webhook.server.namespaces import load_namespaces
from webhook.server.run import Options, Service, serve

AUTHORITY: Final = "vgpu-webhook standalone authority"


def serve_standalone(
    options: Options,
    configured: tuple[Path | None, Path | None, str | None],
    namespaces: Path | None,
    state_dir: Path,
    log_level: str,
) -> None:
    """Serves until the end.

    Args:
        options: of the server.
        configured: the folder of mappings, the settings document and the target, as far as they are said.
        namespaces: Namespace documents.
        state_dir: where the certificate is kept.
        log_level: of the log.

    Raises:
        Failure: what is configured cannot be used, or an endpoint is not to be had.
    """
    try:
        policy = load_policy(*configured)
        known_namespaces = load_namespaces(namespaces, policy.settings.opt_in_label)
    except MappingError as error:
        raise Failure(map(str, error.problems)) from error
    except OSError as error:
        raise Failure([f"{error.filename}: {error.strerror}"]) from error
    service = Service(
        decide=decide,
        current=Current(policy),
        namespaces=known_namespaces,
        pod_security_default="privileged",
        tls=served(state_dir, AUTHORITY, names_of(options.listen)),
        log=logger(log_level),
    )
    run_to_end(serve(service, options, lambda addresses: announce_to(state_dir, addresses)))
