"""The Secret of certificates on a real API server, by a role that allows no more than its own name."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog

from certs.x509 import StoreError
from tests.waiting import alongside
from webhook.cluster.client import Api
from webhook.cluster.connection import connect
from webhook.cluster.reflector import WatchConfig
from webhook.cluster.secret import NAME, SecretStore

from .client import Object
from .objects import bound, namespace, role
from .plane import ControlPlane

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200), pytest.mark.once("rights")]

PLACE = "certificates"
PACE = WatchConfig(first=0.02, longest=0.5)


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The way of a service account that may do nothing but what the Secret needs, all of it by name."""
    client = control_plane.client
    control_plane.create_namespace(namespace(PLACE))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "webhook"}}
    client.create(account, PLACE).accepted()
    verbs = ["get", "list", "watch", "create", "patch", "update"]
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [NAME], "verbs": verbs}
    keeper = role("webhook", rule, kind="Role")
    client.create(keeper, PLACE).accepted()
    client.create(bound(keeper, {"kind": "ServiceAccount", "name": "webhook", "namespace": PLACE}), PLACE).accepted()
    file = tmp_path_factory.mktemp("secret") / "kubeconfig"
    return control_plane.write_kubeconfig(file, token=client.account_token("webhook", PLACE))


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[Api]:
    """That way, open."""
    api = await connect(kubeconfig)
    try:
        yield api
    finally:
        await api.close()


class Secret:
    """The Secret as it stands, and what hands do to it."""

    def __init__(self, plane: ControlPlane) -> None:
        self._client = plane.client

    def found(self) -> Object | None:
        answer = self._client.get("v1", "secrets", NAME, PLACE)
        return None if answer.status == 404 else answer.accepted()

    def delete(self) -> None:
        self._client.delete("v1", "secrets", NAME, PLACE)

    def create(self, **data: bytes) -> None:
        encoded = {name.replace("_", "."): base64.b64encode(content).decode() for name, content in data.items()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}, "data": encoded}
        self._client.create(secret, PLACE).accepted()


@pytest.fixture
def secret(control_plane: ControlPlane, kubeconfig: Path) -> Iterator[Secret]:
    """The Secret, missing at first."""
    secret = Secret(control_plane)
    secret.delete()
    yield secret
    secret.delete()


def store(api: Api) -> SecretStore:
    """The Secret as a store."""
    return SecretStore(api, PLACE, NAME, structlog.get_logger(), config=PACE)


async def test_the_role_is_enough_and_no_more(api: Api, secret: Secret) -> None:
    """Created, filled, read, changed and watched by name only; another name is refused."""
    first = store(api)
    assert (await first.read()).files is None
    assert await first.write({"ca.crt": b"a"}, (await first.read()).version)
    found = await asyncio.to_thread(secret.found)
    assert found is not None
    assert found["type"] == "kubernetes.io/tls"
    assert set(found["data"]) == {"ca.crt", "tls.crt", "tls.key"}
    snapshot = await first.read()
    assert snapshot.files == {"ca.crt": b"a"}
    assert await first.write({"ca.crt": b"a", "rotate": b"ca"}, snapshot.version)
    asked = await asyncio.to_thread(secret.found)
    assert asked is not None
    assert asked["metadata"]["annotations"] == {"vgpu-webhook.io/rotate": "ca"}
    snapshot = await first.read()
    assert snapshot.files == {"ca.crt": b"a", "rotate": b"ca"}
    assert await first.write({"ca.crt": b"b", "tls.crt": b"c", "tls.key": b"d"}, snapshot.version)
    assert (await first.read()).files == {"ca.crt": b"b", "tls.crt": b"c", "tls.key": b"d"}
    async with asyncio.timeout(60), alongside(first.reflector.run()):
        await first.reflector.synced.wait()
        other = store(api)
        assert await other.write({"ca.crt": b"e"}, (await other.read()).version)
        await first.changed()
    elsewhere = SecretStore(api, PLACE, "another", structlog.get_logger())
    with pytest.raises(StoreError, match=r"403 Forbidden.*a Role has to permit"):
        await elsewhere.read()
    answer = await api.request("POST", f"/api/v1/namespaces/{PLACE}/secrets", body={})
    assert answer.status == 403, "it may not create Secrets of any name"


async def test_who_read_an_older_version_writes_nothing(api: Api, secret: Secret) -> None:
    """Neither on a Secret that is there, nor on one that another hand has created, filled or deleted meanwhile."""
    first_store, other = store(api), store(api)
    nothing, same = await first_store.read(), await other.read()
    assert await first_store.write({"ca.crt": b"a"}, nothing.version)
    assert not await other.write({"ca.crt": b"b"}, same.version)
    first = await first_store.read()
    assert (await other.read()).version == first.version
    assert await first_store.write({"ca.crt": b"c"}, first.version)
    assert not await other.write({"ca.crt": b"d"}, first.version)
    latest = await other.read()
    await asyncio.to_thread(secret.delete)
    assert not await other.write({"ca.crt": b"e"}, latest.version)
    assert (await other.read()).files is None


async def test_a_secret_that_somebody_prepared(api: Api, secret: Secret) -> None:
    """Of another type and with other things in it: filled, and what is not ours stays."""
    await asyncio.to_thread(secret.create, other=b"x", tls_crt=b"")
    first = store(api)
    snapshot = await first.read()
    assert snapshot.files is None
    assert await first.write({"ca.crt": b"a"}, snapshot.version)
    found = await asyncio.to_thread(secret.found)
    assert found is not None
    assert found["type"] == "Opaque"
    assert base64.b64decode(found["data"]["other"]) == b"x"
