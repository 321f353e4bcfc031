"""A watch on the one webhook configuration, so that whatever is done to it is seen at once."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from structlog.typing import FilteringBoundLogger

from certs.pem import by_der
from webhook.cluster.client.api import Api
from webhook.cluster.client.metadata import ObjectMetadata
from webhook.cluster.client.reflector import Reflector
from webhook.cluster.registration.ca_bundles import bundle_of
from webhook.cluster.registration.desired import COLLECTION, NAME


class _ClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    ca_bundle: str | None = None


class _Webhook(msgspec.Struct, frozen=True, rename="camel"):
    client_config: _ClientConfig = _ClientConfig()


class Configuration(msgspec.Struct, frozen=True):
    """The part of the configuration that shows that it changed and whom its callers trust; the reconciler reads all."""

    metadata: ObjectMetadata
    webhooks: tuple[_Webhook, ...] | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """What is held of the webhook configuration.

    Attributes:
        version: its resourceVersion.
        bundles: of each webhook the CAs (DER) that its callers trust.
    """

    version: str
    bundles: tuple[frozenset[bytes], ...]


def watch_registration(
    api: Api, changed: Callable[[], None], log: FilteringBoundLogger
) -> Reflector[Configuration, Watched]:
    """A reflector that says whenever the webhook configuration changed; see `bundles_in` for what its callers trust."""
    return Reflector(
        api,
        COLLECTION,
        Configuration,
        _watched,
        log,
        changed=lambda _: changed(),
        query={"fieldSelector": f"metadata.name={NAME}"},
    )


def bundles_in(reflector: Reflector[Configuration, Watched]) -> tuple[frozenset[bytes], ...] | None:
    """The CAs (DER) of each webhook of the webhook configuration; None if there is no webhook configuration."""
    found = next(iter(reflector.objects.values()), None)
    return None if found is None else found.bundles


def _watched(configuration: Configuration) -> Watched:
    encoded = [{"clientConfig": {"caBundle": one.client_config.ca_bundle}} for one in configuration.webhooks or ()]
    return Watched(configuration.metadata.resource_version, tuple(frozenset(by_der(bundle_of(one))) for one in encoded))
