"""Which proxy leads to the API server."""

import pytest
from yarl import URL

from webhook.cluster.connection import proxy_for

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    "url, exceptions, direct",
    [
        ("https://10.96.0.1:443", "", False),
        ("https://10.96.0.1:443", "10.0.0.0/8", True),
        ("https://10.96.0.1:443", ".svc, .cluster.local,10.96.0.0/12", True),
        ("https://10.96.0.1:443", "10.96.0.1", True),
        ("https://10.96.0.1:443", "10.96.0.1:443", True),
        ("https://10.96.0.1:443", "10.96.0.1:6443", False),
        ("https://10.96.0.1:443", "10.96.0.2,192.168.0.0/16,garbage/99", False),
        ("https://10.96.0.1:443", "*", True),
        ("https://[fd00::1]:443", "fd00::/8", True),
        ("https://[fd00::1]:443", "[fd00::1]:443", True),
        ("https://[fd00::1]:443", "10.0.0.0/8", False),
        ("https://127.0.0.1:6443", "", True),
        ("https://localhost:6443", "", True),
        ("https://api.example.com:6443", "example.com", True),
        ("https://api.example.com:6443", ".example.com", True),
        ("https://api.example.com:6443", "*.EXAMPLE.com", True),
        ("https://example.com:6443", ".example.com", False),
        ("https://notexample.com", "example.com", False),
        ("https://api.example.com:6443", "example.com:6443", True),
        ("https://api.example.com:6443", "example.com:443", False),
        ("https://api.example.com", "*", True),
    ],
)
def test_exceptions(url: str, exceptions: str, direct: bool) -> None:  # noqa: FBT001
    """Names, addresses, networks and ports are excepted as Go excepts them."""
    assert proxy_for(URL(url), {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}) == (None if direct else PROXY)
    assert proxy_for(URL(url), {"https_proxy": PROXY, "no_proxy": exceptions}) == (None if direct else PROXY)


def test_only_for_its_scheme() -> None:
    """The proxy for plain HTTP is not that for TLS; one without a scheme is HTTP."""
    assert proxy_for(URL("https://api.example.com"), {"HTTP_PROXY": PROXY}) is None
    assert proxy_for(URL("https://api.example.com"), {}) is None
    assert proxy_for(URL("https://api.example.com"), {"HTTPS_PROXY": "proxy:3128"}) == "http://proxy:3128"
