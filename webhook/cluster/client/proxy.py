"""The proxy for an address, from the environment as Go programs read it, so that all programs of a cluster agree.

Python's standard library does not support networks in ``NO_PROXY``. In a cluster, the API server is called by its
address, so it would be called through the proxy even with ``NO_PROXY=10.0.0.0/8``.
"""

import ipaddress
from collections.abc import Mapping

from yarl import URL


def proxy_for(url: URL, environment: Mapping[str, str]) -> str | None:
    """The proxy to use for a URL; None for none."""
    name = f"{url.scheme}_proxy"
    proxy = environment.get(name.upper()) or environment.get(name)
    if not proxy or _excepted(url, environment.get("NO_PROXY") or environment.get("no_proxy") or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _excepted(url: URL, exceptions: str) -> bool:
    host = (url.host or "").lower()
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or any(_names(entry, host, url.port) for entry in _entries(exceptions))
    return address.is_loopback or any(_covers(entry, address, url.port) for entry in _entries(exceptions))


def _entries(exceptions: str) -> list[str]:
    return [entry for part in exceptions.split(",") if (entry := part.strip().lower())]


def _names(entry: str, host: str, port: int | None) -> bool:
    name, colon, number = entry.partition(":")
    if colon and number != str(port):
        return False
    # Go's rule: an entry with a leading dot matches only names below it, one without also matches the name itself.
    name = name.removeprefix("*") if name.startswith("*.") else name
    return name in {"*", host} or host.endswith(name if name.startswith(".") else f".{name}")


def _covers(entry: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int | None) -> bool:
    if entry == "*":
        return True
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        name, colon, number = entry.rpartition(":")
        return bool(colon) and name.strip("[]") == str(address) and number == str(port)
