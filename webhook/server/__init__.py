"""HTTP around `decide`: sockets, TLS, limits, drain, metrics and logs; nothing here knows what a GPU is."""

import os
from importlib import import_module
from typing import Final

_AUTHORITIES: Final = "SSL_CERT_FILE"  # of OpenSSL: the file with the CAs of the machine


def _import_aiohttp() -> None:
    """Import aiohttp without the CAs of the machine: it reads them twice, which took a seventh of the start, and 2 MiB.

    Every client here names its own. What is started or made later finds the variable as it was.
    """
    named = os.environ.get(_AUTHORITIES)
    os.environ[_AUTHORITIES] = os.devnull
    try:
        import_module("aiohttp")
    finally:
        del os.environ[_AUTHORITIES]
        if named is not None:
            os.environ[_AUTHORITIES] = named


_import_aiohttp()
