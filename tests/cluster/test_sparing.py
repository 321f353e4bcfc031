"""No new pods wait for an answer that no replica can give; namespaces where pods already wait stay as they are."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.cluster.keeping import Keeping
from tests.cluster.test_reconciler import IGNORE, SITE, Replica, bundled, bundles, pem
from tests.cluster.things import Clock
from webhook.cluster.registration.writer import QUIET, RegistrationMatter


class Answering:
    """Whether a replica serves."""

    def __init__(self) -> None:
        self.serving = False

    def __call__(self) -> bool:
        return self.serving


def policies(api: Keeping) -> list[str]:
    """What an outage means for each webhook."""
    return [webhook["failurePolicy"] for webhook in api.webhooks]


DAMAGE: dict[str, dict[str, Any] | None] = {
    "ignoring": IGNORE,
    "without the first": {"webhooks 0": None},
    "emptied": {**bundled(b""), **IGNORE},
    "none": None,
}
"""What others have done before."""


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
async def test_nothing_waits_before_somebody_serves(
    damage: dict[str, Any] | None, clock_and_api: tuple[Clock, Keeping]
) -> None:
    """Whoever set `Ignore`, and where there is no configuration; the rest is repaired, and `Fail` follows the first answer."""
    clock, api = clock_and_api
    site = replace(SITE, ca_bundle=pem("A"))
    answering = Answering()
    if damage is not None:
        await Replica(api, clock, site=site).look()
        api.set(damage)
    replica = Replica(api, clock, site=site, serving=answering)
    for _ in range(3):
        await replica.look()
        clock.now += QUIET
    assert policies(api) == ["Ignore", "Ignore"]
    assert bundles(api) == [pem("A"), pem("A")]
    assert replica.writer.as_desired is False
    assert replica.kinds.count(RegistrationMatter.FAILING_OPEN) == 1
    answering.serving = True
    await replica.look()
    assert policies(api) == ["Fail", "Ignore"]
    assert replica.writer.as_desired is True
    assert RegistrationMatter.REPAIRED not in replica.kinds, "nobody else has done anything"
    assert not any(replica.writer.repairs.values())


async def test_what_waits_goes_on_waiting(clock_and_api: tuple[Clock, Keeping]) -> None:
    """Nothing is opened by a replica that does not serve, or not any more."""
    clock, api = clock_and_api
    await Replica(api, clock).look()
    replica = Replica(api, clock, serving=lambda: False)
    for _ in range(3):
        await replica.look()
        clock.now += QUIET
    assert policies(api) == ["Fail", "Ignore"]
    assert replica.writer.as_desired is True


async def test_nothing_waits_before_cert_manager_has_filled_the_bundle_in(clock_and_api: tuple[Clock, Keeping]) -> None:
    """Who serves cannot be called before that."""
    clock, api = clock_and_api
    replica = Replica(api, clock, site=replace(SITE, ca_bundle=b"", inject_ca_from="gpu/webhook"))
    await replica.look()
    assert policies(api) == ["Ignore", "Ignore"]
    api.set(bundled(pem("C")))
    await replica.look()
    assert policies(api) == ["Fail", "Ignore"]
    assert RegistrationMatter.REPAIRED not in replica.kinds
    api.set(bundled(b""))
    await replica.look()
    assert policies(api) == ["Fail", "Ignore"], "nothing is opened"


@pytest.fixture
def clock_and_api() -> tuple[Clock, Keeping]:
    """The clock of all replicas, and the API server."""
    return Clock(), Keeping()
