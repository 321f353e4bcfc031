"""The Secret of certificates: who read an older version writes nothing, and what is not ours stays."""

import base64

import structlog

from webhook.cluster.secret import SecretStore

from .fake_api import PLACE, FakeApi

SECRET = f"/api/v1/namespaces/{PLACE}/secrets/webhook"


def store(api: FakeApi) -> SecretStore:
    """One replica's."""
    return SecretStore(api, PLACE, "webhook", structlog.get_logger())


async def test_who_read_an_older_version_writes_nothing() -> None:
    """Neither where there is a Secret, nor where another hand has created, changed or deleted it meanwhile."""
    api = FakeApi()
    first, other = store(api), store(api)
    nothing, same = await first.read(), await other.read()
    assert nothing.files is None
    assert await first.write({"ca.crt": b"a"}, nothing.version)
    assert set(api.objects[SECRET]["data"]) == {"ca.crt", "tls.crt", "tls.key"}
    assert not await other.write({"ca.crt": b"b"}, same.version)
    found = await first.read()
    assert (await other.read()) == found
    assert await first.write({"ca.crt": b"a", "rotate": b"ca"}, found.version)
    assert api.objects[SECRET]["metadata"]["annotations"] == {"vgpu-webhook.io/rotate": "ca"}
    assert not await other.write({"ca.crt": b"d"}, found.version)
    latest = await other.read()
    assert latest.files == {"ca.crt": b"a", "rotate": b"ca"}
    del api.objects[SECRET]
    assert not await other.write({"ca.crt": b"e"}, latest.version)
    assert (await other.read()).files is None


async def test_who_has_read_again_writes_nothing_for_the_version_before() -> None:
    """What was decided about that one is no longer asked for, though the API server would take it."""
    api = FakeApi()
    one, other = store(api), store(api)
    assert await one.write({"ca.crt": b"a"}, (await one.read()).version)
    before = await one.read()
    assert await other.write({"ca.crt": b"b"}, (await other.read()).version)
    after = await one.read()
    assert not await one.write({"ca.crt": b"c"}, before.version)
    assert await one.read() == after


async def test_a_secret_that_somebody_prepared() -> None:
    """Of another type and with other things in it: filled, and what is not ours stays."""
    api = FakeApi()
    mine = base64.b64encode(b"x").decode()
    api.put(SECRET, {"metadata": {"name": "webhook"}, "type": "Opaque", "data": {"other": mine, "tls.crt": ""}})
    first = store(api)
    snapshot = await first.read()
    assert snapshot.files is None
    assert await first.write({"ca.crt": b"a"}, snapshot.version)
    assert api.objects[SECRET]["type"] == "Opaque"
    assert api.objects[SECRET]["data"]["other"] == mine
