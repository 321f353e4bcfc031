"""The CAs in a ``caBundle``, compared by their DER, not by their text."""

import base64
import binascii
from collections.abc import Iterable
from typing import Final

from certs.pem import by_der
from webhook.cluster.client.api import Object

INJECTED: Final = "cert-manager.io/inject-"
"""The prefix of the annotations that make cert-manager fill in ``caBundle``."""


def bundle_of(webhook: Object) -> bytes:
    """The bundle of one webhook; empty if it has none that can be decoded."""
    config = webhook.get("clientConfig")
    encoded = config.get("caBundle") if isinstance(config, dict) else None
    try:
        return base64.b64decode(encoded) if isinstance(encoded, str) else b""
    except (binascii.Error, ValueError):
        return b""


def injected(configuration: Object) -> bool:
    """Whether cert-manager fills in the bundles of a configuration."""
    metadata = configuration.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and any(str(key).startswith(INJECTED) for key in annotations)


def widened(ours: bytes, theirs: bytes) -> bytes:
    """A bundle with the CAs of both; `theirs`, unchanged, if it has all of them already."""
    own, others = by_der(ours), by_der(theirs)
    if not own:
        return ours
    if own.keys() <= others.keys():
        return theirs
    return _joined([ours, *(block for der, block in others.items() if der not in own)])


def _joined(parts: Iterable[bytes]) -> bytes:
    return b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts)
