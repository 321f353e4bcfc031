"""``serve --standalone``: serves without a cluster, from files."""

from pathlib import Path
from typing import Final

from certs.state import BUNDLE
from certs.store import Directory
from webhook.admission import decide
from webhook.mapping.model.policy import Policy
from webhook.replica.run import Announce, Options, Service, serve_until_stopped
from webhook.replica.start import CertificateOptions, certificates_of, logger, run_to_end, serving_names, started
from webhook.server.mutate import Current
from webhook.server.namespaces import Described

CA_NAME: Final = "vgpu-webhook standalone CA"
STATE_DIR: Final = ".vgpu-webhook"
"""The default folder of the CA and the certificate."""


def serve_standalone(
    options: Options,
    policy: Policy,
    namespaces: Described,
    certificate_options: CertificateOptions,
    log_level: str,
    *,
    announce: Announce,
) -> None:
    """Serve until the process is to end.

    Args:
        options: of the server.
        policy: decides about pods.
        namespaces: the known ones.
        certificate_options: the options about certificates.
        log_level: a key of `webhook.server.logs.LEVELS`.
        announce: called once reviews are answered.

    Raises:
        StartError: the certificate cannot be used, or an endpoint is not available.
    """
    directory = Directory(certificate_options.certificate_dir or certificate_options.state_dir or Path(STATE_DIR))
    log = logger(log_level)
    certificates = certificates_of(certificate_options, log)

    async def work() -> None:
        if certificate_options.certificate_dir is not None:
            certificates.follow(directory, certificate_options.extra_names, trusting=True)
        else:
            certificates.keep(directory, certificate_options.rules(CA_NAME, serving_names(options.listen)))
        await started(certificates)
        service = Service(
            decide=decide,
            current=Current(policy),
            namespaces=namespaces,
            pod_security_default="privileged",
            certificates=certificates,
            log=log,
        )
        await serve_until_stopped(service, options, lambda addresses: announce(addresses, str(directory.path / BUNDLE)))

    run_to_end(work())
