"""The namespace of the ConfigMaps is deleted and created again, or emptied: the policy stays in force."""

import asyncio

import pytest

from tests.cluster.config_maps import vendor
from webhook.cluster.configuration.config_maps import LAST_GOOD_NAME, SETTINGS_KEY, SETTINGS_NAME
from webhook.mapping.load import load_policy

from .plane import ControlPlane
from .test_live_policy import Place, Replica, do, replica, until

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600)]

TIMEOUT = 7


def timeout(first: Replica) -> int:
    """What the settings in force say, or the default."""
    return first.policies[-1].settings.timeout_seconds


def fill(place: Place) -> None:
    """Settings and a mapping."""
    place.write(SETTINGS_NAME, f"timeoutSeconds: {TIMEOUT}\n", SETTINGS_KEY)
    place.write("acme", vendor("acme", about="one"))


def events(place: Place) -> list[str]:
    """What `kubectl describe` shows of the record."""
    return [reason for _, reason, _ in place.events(LAST_GOOD_NAME)]


def end(place: Place) -> None:
    """Delete the namespace, wait until it is gone, and make another one."""
    client = place.plane.client
    client.delete("v1", "namespaces", place.name).accepted()
    place.plane.wait_until(lambda: client.get("v1", "namespaces", place.name).status == 404, "gone", 60)
    place.plane.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place.name}})


def empty(place: Place) -> None:
    """Delete all ConfigMaps at once."""
    place.plane.client.call("DELETE", f"/api/v1/namespaces/{place.name}/configmaps").accepted()


def empty_one_by_one(place: Place) -> None:
    """As `kubectl delete configmap --all` does, the record last."""
    for name in ("acme", SETTINGS_NAME, LAST_GOOD_NAME):
        place.remove(name)


@pytest.mark.deep
@pytest.mark.parametrize("loss", [end, empty, empty_one_by_one], ids=lambda each: each.__name__)
async def test_what_was_in_force_stays(controllers: ControlPlane, loss: object) -> None:
    """Through the loss and after it, in both replicas; it is reported, and only a deliberate change ends it."""
    assert callable(loss)
    place = Place(controllers)
    fill(place)
    async with replica(place) as first, replica(place) as other:
        await until(lambda: timeout(first) == timeout(other) == TIMEOUT, "settings in force")
        await until(lambda: SETTINGS_NAME in place.recorded(), "kept")
        before = first.policies[-1].digest
        await do(loss, place)
        await until(lambda: "config_maps_lost" in first.logged and "config_maps_lost" in other.logged, "told", 30)
        await until(lambda: "ConfigMapsLost" in events(place), "an Event", 90)
        await until(lambda: SETTINGS_NAME in place.recorded(), "kept again", 90)
        await asyncio.sleep(2)
        for each in (first, other):
            assert {policy.digest for policy in each.policies[-1:]} == {before}
            assert sorted(each.live.lost) == ["acme", SETTINGS_NAME]
            assert any("vanished without a deletion; still in force" in line for line in each.live.lines())
        assert len(first.policies) == 1 + (first.policies[0].digest != before), "it never changed"
        async with replica(place) as late:
            assert [policy.digest for policy in late.policies] == [load_policy().digest], "one that starts now"
            assert not late.live.lost
            await asyncio.sleep(2)
            await until(lambda: SETTINGS_NAME in place.recorded(), "the others still keep it", 30)

        await do(place.write, SETTINGS_NAME, "timeoutSeconds: 9\n", SETTINGS_KEY)
        await until(lambda: timeout(first) == timeout(other) == 9, "new settings")
        assert list(first.live.lost) == ["acme"]
        await do(place.write, "acme", vendor("acme", about="two"))
        await until(lambda: first.describes("two")() and other.describes("two")(), "a new mapping")
        assert not first.live.lost
        await asyncio.sleep(11)
        await do(place.remove, SETTINGS_NAME)
        default = load_policy().settings.timeout_seconds
        await until(lambda: timeout(first) == timeout(other) == default, "an act", 30)
        assert first.describes("two")()
