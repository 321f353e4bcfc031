"""Outages that a webhook would make itself: it starts, and callers trust nobody, or somebody who is gone.

The settle time is so long that whoever waits for it does not become ready within these tests. Which bundles and Secrets are
served at once: tests/certs/test_bootstrap.py.
"""

import base64
from typing import Any

import pytest

from certs.x509 import make_ca
from tests.certs.made import NOW

from .test_certificates import GROUP, KIND, NAME, OWN, SECRET, Site, places, site

__all__ = ["places", "site"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200), pytest.mark.once("loss")]

SETTLE = ("--ca-settle", "600")
STRANGER = make_ca("stranger", NOW).certificate_pem


def change(site: Site, *bundles: bytes, ignore: bool = False) -> None:
    """Change the configuration by hand: the bundle of each webhook, and whether the first may be left out."""
    configuration = site.plane.client.get(GROUP, KIND, NAME).accepted()
    for webhook, bundle in zip(configuration["webhooks"], bundles, strict=True):
        webhook["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
    if ignore:
        configuration["webhooks"][0]["failurePolicy"] = "Ignore"
    site.plane.client.call("PUT", f"/apis/{GROUP}/{KIND}/{NAME}", configuration).accepted()


def policy(site: Site) -> Any:
    """What happens to pods while nobody answers."""
    return site.plane.client.get(GROUP, KIND, NAME).accepted()["webhooks"][0]["failurePolicy"]


def test_ignore_is_left_while_nobody_serves(site: Site) -> None:
    """`Ignore` stays, so that pods are created, until a replica answers; then `Fail` is restored, and both are reported.

    The Secret is lost, and one bundle a stranger's: it is ready in seconds all the same.
    """
    plane = site.plane
    with site.replica(*SETTLE):
        plane.wait_until(site.treated, "treated")
    plane.client.delete("v1", "secrets", SECRET, OWN).accepted()
    change(site, STRANGER, b"", ignore=True)
    plane.wait_until(lambda: site.create().status == 201, "API servers let pods pass")
    with site.replica(*SETTLE, ready=False) as replica:
        plane.wait_until(lambda: policy(site) == "Fail", "waiting for answers again")
        site.served()  # nobody is shown a certificate before that
        plane.wait_until(site.treated, "treated again")
        plane.wait_until(lambda: replica.has_told("pods are admitted unchanged until"), "told")
