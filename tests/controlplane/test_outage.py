"""Outages that a webhook would make itself: it starts, and callers trust nobody, or somebody who is gone.

The settle time is so long that whoever waits for it does not become ready within these tests.
"""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from certs.ca import make_ca
from tests.certs.made import NOW
from webhook.cluster.registration.desired import PODS

from .plane import ControlPlane
from .test_certificates import GROUP, KIND, NAME, OWN, SECRET, Site, places, site

__all__ = ["places", "site"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

SETTLE = ("--ca-settle", "600")
STRANGER = base64.b64encode(make_ca("stranger", NOW).certificate_pem).decode()


def bundle(*each: str | None) -> Callable[[dict[str, Any]], None]:
    """What puts one bundle into each webhook."""

    def put(configuration: dict[str, Any]) -> None:
        for webhook, first in zip(configuration["webhooks"], each, strict=True):
            webhook["clientConfig"].pop("caBundle", None)
            if first is not None:
                webhook["clientConfig"]["caBundle"] = first

    return put


def change(plane: ControlPlane, *changes: Callable[[dict[str, Any]], None]) -> None:
    """Change the configuration by hand."""
    configuration = plane.client.get(GROUP, KIND, NAME).accepted()
    for each in changes:
        each(configuration)
    plane.client.call("PUT", f"/apis/{GROUP}/{KIND}/{NAME}", configuration).accepted()


def lost(site: Site) -> None:
    """No Secret any more."""
    site.plane.client.delete("v1", "secrets", SECRET, OWN).accepted()


def corrupted(site: Site) -> None:
    """All keys, and what they sign."""
    site.change(ca_key=b"garbage", tls_crt=b"garbage", tls_key=b"garbage")


def garbage(site: Site) -> None:
    """No file can be read."""
    site.change(ca_crt=b"garbage", ca_key=b"garbage", tls_crt=b"garbage", tls_key=b"garbage")


def unchanged(_site: Site) -> None:
    """Nothing happens to it."""


@pytest.mark.parametrize(
    "damage, bundles, seconds",
    [
        pytest.param(unchanged, (None, None), 8, marks=pytest.mark.deep),
        pytest.param(unchanged, ("", None), 8, marks=pytest.mark.deep),
        pytest.param(unchanged, (STRANGER, STRANGER), 8, marks=pytest.mark.deep),
        pytest.param(unchanged, (base64.b64encode(b"garbage").decode(),) * 2, 8, marks=pytest.mark.deep),
        pytest.param(lost, (None, None), 8, marks=pytest.mark.deep),
        (lost, (STRANGER, None), 20),
        pytest.param(lost, None, 20, marks=pytest.mark.deep),
        pytest.param(corrupted, None, 20, marks=pytest.mark.deep),
        pytest.param(garbage, (None, None), 8, marks=pytest.mark.deep),
        pytest.param(garbage, None, 20, marks=pytest.mark.deep),
    ],
    ids=[
        "emptied",
        "one emptied",
        "a stranger's",
        "garbage",
        "Secret lost and emptied",
        "Secret lost, one a stranger's, one empty",
        "Secret lost",
        "keys corrupted",
        "Secret corrupted and emptied",
        "Secret corrupted",
    ],
)
def test_all_stopped_and_started(
    site: Site, damage: Callable[[Site], None], bundles: tuple[str | None, str | None] | None, seconds: float
) -> None:
    """Both replicas are ready in seconds, whenever they start, and pods are treated."""
    plane = site.plane
    with site.replica(*SETTLE):
        plane.wait_until(site.treated, "treated", 20)
    damage(site)
    if bundles is not None:
        change(plane, bundle(*bundles))
    with site.replica(*SETTLE, ready=False) as first:
        plane.wait_until(first.ready, "ready again", seconds)
        with site.replica(*SETTLE, ready=False) as other:
            plane.wait_until(other.ready, "another one ready", seconds)
            plane.wait_until(site.treated, "treated again", 5)


def test_ignore_is_left_while_nobody_serves(site: Site) -> None:
    """`Ignore` stays, so that pods are created, until a replica answers; then `Fail` is restored, and both are reported."""
    plane = site.plane
    with site.replica(*SETTLE):
        plane.wait_until(site.treated, "treated", 20)
    lost(site)

    def ignoring(configuration: dict[str, Any]) -> None:
        configuration["webhooks"][0]["failurePolicy"] = "Ignore"

    change(plane, ignoring)

    def policy() -> str:
        found: str = plane.client.get(GROUP, KIND, NAME).accepted()["webhooks"][0]["failurePolicy"]
        return found

    with site.replica(*SETTLE, ready=False) as replica:
        while not replica.ready():
            answer = site.create()
            # The replica may begin to serve between the two calls for one pod, of which the first was ignored.
            assert answer.status == 201 or PODS in answer.body["message"]
            assert policy() == "Ignore" or replica.ready()
        plane.wait_until(lambda: policy() == "Fail", "waiting for answers again", 5)
        plane.wait_until(site.treated, "treated again", 5)
        assert replica.has_told("pods are admitted unchanged until")
