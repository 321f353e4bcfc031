"""``certs rotate`` on a folder; what it does in a cluster stands with the control plane's tests."""

import datetime as dt
from pathlib import Path

import pytest
from msgspec.structs import replace

from certs.rotation import RotationRequest, State
from certs.store import Directory
from certs.x509 import issue, make_ca
from tests.certs.made import DAY
from tests.certs.made import stored as holding
from tests.cli.conftest import Run
from tests.cluster.fake_api import FakeApi, reading

NOW = dt.datetime.now(dt.UTC)


def keep(folder: Path, stored: State) -> Path:
    """A folder that keeps something."""
    directory = Directory(folder)
    assert directory.write_blocking(stored.files(), directory.read_blocking().version)
    return folder


@pytest.fixture
def stored() -> State:
    """A CA, an older one, and a serving certificate."""
    authority, old = make_ca("current", NOW), make_ca("old", NOW - DAY)
    return holding(authority, pair=issue(authority, ["localhost", "127.0.0.1"], NOW)).trusting(old.certificate)


@pytest.mark.parametrize(
    "arguments, rotation", [((), RotationRequest.SERVING_CERTIFICATE), (("--ca",), RotationRequest.CA)]
)
def test_rotate(run: Run, tmp_path: Path, stored: State, arguments: tuple[str, ...], rotation: RotationRequest) -> None:
    """Only the request is added to the stored files."""
    folder = keep(tmp_path / "state", stored)
    result = run("certs", "rotate", "--state-dir", str(folder), *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"requested a new {'CA' if arguments else 'serving certificate'} in {folder}" in result.stdout
    assert Directory(folder).read_blocking().files == replace(stored, requested=rotation).files()


def test_one_is_coming_already(run: Run, tmp_path: Path, stored: State) -> None:
    """The output says so."""
    coming = make_ca("coming", NOW + DAY)
    whole = replace(stored.trusting(coming.certificate), signers=(*stored.signers, coming))
    folder = keep(tmp_path / "state", whole)
    assert "has a next CA already" in run("certs", "rotate", "--ca", "--state-dir", str(folder)).stdout


SECRETS = "/api/v1/namespaces/gpu/secrets/vgpu-webhook-certificates"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A cluster without a Secret of the webhook's own."""
    api = reading({SECRETS: 404})

    async def connected(kubeconfig: Path | None, context: str | None) -> FakeApi:
        return api

    monkeypatch.setattr("webhook.cluster.connection.connect", connected)
    return api


def test_no_certificates(run: Run, cluster: FakeApi) -> None:
    """If the owner of the served certificate is unknown, the output says so; only the Secret is read."""
    result = run("certs", "rotate", "--release-namespace", "gpu")
    assert "contains no certificates: either the webhook has not started yet, or it serves a" in result.output
    assert {path for _, path, _ in cluster.requests} == {SECRETS}


def test_a_folder_of_somebody_else(run: Run, tmp_path: Path, stored: State) -> None:
    """A pair without its CA's key is not the webhook's: nothing is written beside it."""
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (tmp_path / name).write_bytes(stored.files()[name])
    result = run("certs", "rotate", "--state-dir", str(tmp_path))
    assert result.exit_code == 1
    assert f"{tmp_path} holds certificates that the webhook does not renew (the CA has no key)" in result.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
