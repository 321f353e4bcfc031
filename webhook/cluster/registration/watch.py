"""Watches the webhook configuration, so that every change to it is noticed at once."""

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
    """The version and the bundles of the webhook configuration; the reconciler reads the rest."""

    metadata: ObjectMetadata
    webhooks: tuple[_Webhook, ...] | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """The part of the webhook configuration that is stored.

    Attributes:
        version: its resourceVersion.
        bundles: the CAs (DER) of each webhook.
    """

    version: str
    bundles: tuple[frozenset[bytes], ...]


def watch_registration(
    api: Api, changed: Callable[[], None], log: FilteringBoundLogger
) -> Reflector[Configuration, Watched]:
    """Make a reflector that calls `changed` whenever the webhook configuration changes; see also `bundles_in`."""
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
    """The CAs (DER) of each webhook; None if there is no webhook configuration."""
    found = next(iter(reflector.objects.values()), None)
    return None if found is None else found.bundles


def _watched(configuration: Configuration) -> Watched:
    encoded = [
        {"clientConfig": {"caBundle": webhook.client_config.ca_bundle}} for webhook in configuration.webhooks or ()
    ]
    return Watched(
        configuration.metadata.resource_version, tuple(frozenset(by_der(bundle_of(webhook))) for webhook in encoded)
    )
