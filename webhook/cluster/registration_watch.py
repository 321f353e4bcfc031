"""A watch on the one registration, so that whatever is done to it is seen at once."""

import msgspec
from structlog.typing import FilteringBoundLogger

from webhook.cluster.api import Api
from webhook.cluster.reflector import Reflector
from webhook.cluster.registrar import COLLECTION, Registrar
from webhook.cluster.registration import NAME


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""


class Configuration(msgspec.Struct, frozen=True):
    """As much of the registration as tells that it changed; the registrar reads the whole itself."""

    metadata: _Metadata


def watch_registration(api: Api, registrar: Registrar, log: FilteringBoundLogger) -> Reflector[Configuration, str]:
    """A reflector that has the registrar look whenever the registration changed; its versions are what is held."""
    return Reflector(
        api,
        COLLECTION,
        Configuration,
        lambda configuration: configuration.metadata.resource_version,
        log,
        changed=lambda _: registrar.check(),
        query={"fieldSelector": f"metadata.name={NAME}"},
    )
