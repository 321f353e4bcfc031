"""``serve --standalone``: without a cluster, from files."""

from pathlib import Path
from typing import Final

from certs.directory import Directory
from certs.kept import BUNDLE
from webhook.admission import decide
from webhook.cli.failure import Failure
from webhook.cli.namespaces import load_namespaces
from webhook.cli.serving import Material, announce_to, certificates_of, logger, names_of, run_to_end, started
from webhook.mapping.load import load_policy
from webhook.mapping.problem import MappingError
from webhook.server.mutate import Current
from webhook.server.run import Options, Service, serve

AUTHORITY: Final = "vgpu-webhook standalone authority"
STATE_DIR: Final = ".vgpu-webhook"
"""Where authority and certificate are kept if nothing else is said."""


def serve_standalone(
    options: Options,
    configured: tuple[Path | None, Path | None, str | None],
    namespaces: Path | None,
    material: Material,
    log_level: str,
) -> None:
    """Serves until the end.

    Args:
        options: of the server.
        configured: the folder of mappings, the settings document and the target, as far as they are said.
        namespaces: Namespace documents.
        material: what is shown to callers.
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
    directory = Directory(material.certificate_dir or material.state_dir or Path(STATE_DIR))
    log = logger(log_level)
    certificates = certificates_of(material, log)

    async def work() -> None:
        if material.certificate_dir is not None:
            certificates.follow(directory, material.extra_names, trusting=True)
        else:
            certificates.keep(directory, material.rules(AUTHORITY, names_of(options.listen)))
        await started(certificates)
        service = Service(
            decide=decide,
            current=Current(policy),
            namespaces=known_namespaces,
            pod_security_default="privileged",
            certificates=certificates,
            log=log,
        )
        await serve(service, options, lambda addresses: announce_to(str(directory.path / BUNDLE), addresses))

    run_to_end(work())
