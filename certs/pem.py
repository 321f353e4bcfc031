"""Splits PEM texts into certificates without decoding them: a broken certificate does not make the others unusable."""

import base64
import binascii
import re
from typing import Final

_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


def blocks(text: bytes) -> list[bytes]:
    """The certificates of a text, each in PEM."""
    return [block[0] for block in _BLOCK.finditer(text)]


def by_der(text: bytes) -> dict[bytes, bytes]:
    """The certificates of a text: the DER of each, and its PEM. Blocks that are not base64 are skipped."""
    certificates = {}
    for block in _BLOCK.finditer(text):
        try:
            certificates[base64.b64decode(block[1], validate=False)] = block[0]
        except (binascii.Error, ValueError):
            continue
    return certificates
