"""``certs rotate`` on a folder; what it does in a cluster stands with the control plane's tests."""

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest

from certs.ca import issue, make_ca
from certs.state import Retired, RotationRequest, State, decode
from certs.store import Directory
from tests.cli.conftest import Run
from tests.cluster.fake_api import FakeApi, reading

NOW = dt.datetime.now(dt.UTC)


def keep(folder: Path, stored: State) -> Path:
    """A folder that keeps something."""
    directory = Directory(folder)
    assert directory.write_blocking(stored.files(), directory.read_blocking().version)
    return folder


def kept_in(folder: Path) -> State:
    """What a folder keeps."""
    stored = decode(Directory(folder).read_blocking().files).state
    assert stored is not None
    return stored


@pytest.fixture
def stored() -> State:
    """A CA, one that is next, one that has retired, and a serving certificate."""
    authority, coming, old = (make_ca(name, NOW) for name in ("current", "coming", "old"))
    leaf = issue(authority, ["localhost", "127.0.0.1"], NOW)
    return State(authority, coming, (Retired(old.certificate, NOW + dt.timedelta(days=30)),), leaf)


def test_nothing_kept(run: Run, tmp_path: Path) -> None:
    """An empty folder, and none at all."""
    why = f"{tmp_path} contains no certificates: either the webhook has not started yet, or it serves a provided"
    result = run("certs", "rotate", "--state-dir", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {why}")
    result = run("certs", "rotate", "--state-dir", str(tmp_path / "missing"))
    assert (result.exit_code, result.stderr) == (1, f"error: {tmp_path / 'missing'}: no such folder\n")


def test_a_folder_or_a_cluster(run: Run, tmp_path: Path) -> None:
    """Not both."""
    result = run("certs", "rotate", "--state-dir", str(tmp_path), "--release-namespace", "ours")
    assert result.exit_code == 1
    assert "--state-dir replaces a cluster" in result.stderr


@pytest.mark.parametrize(
    "arguments, before, rotation, message",
    [
        ((), None, RotationRequest.SERVING_CERTIFICATE, "serving certificate"),
        (("--ca",), None, RotationRequest.CA, "CA"),
        (("--ca",), RotationRequest.SERVING_CERTIFICATE, RotationRequest.CA, "CA"),
        ((), RotationRequest.CA, RotationRequest.CA, "serving certificate"),
    ],
)
def test_rotate(  # noqa: PLR0917  (pytest passes them by name)
    run: Run,
    tmp_path: Path,
    stored: State,
    arguments: tuple[str, ...],
    before: RotationRequest | None,
    rotation: RotationRequest,
    message: str,
) -> None:
    """Only the request is added to the stored files; a new CA includes a new serving certificate."""
    without = replace(stored, next_ca=None, requested=before)
    folder = keep(tmp_path / "state", without)
    result = run("certs", "rotate", "--state-dir", str(folder), *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"requested a new {message} in {folder}" in result.stdout
    now = kept_in(folder)
    assert now.requested is rotation
    assert replace(now, requested=None).files() == replace(without, requested=None).files()


def test_one_is_coming_already(run: Run, tmp_path: Path, stored: State) -> None:
    """The output says so."""
    folder = keep(tmp_path / "state", stored)
    assert "has a next CA already" in run("certs", "rotate", "--ca", "--state-dir", str(folder)).stdout


SECRETS = "/api/v1/namespaces/gpu/secrets/vgpu-webhook-certificates"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A cluster without a Secret of the webhook's own."""
    api = reading({SECRETS: 404})

    async def connected(kubeconfig: Path | None) -> FakeApi:
        return api

    monkeypatch.setattr("webhook.cli.commands.certs.connect", connected)
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
    assert (
        f"{tmp_path} holds a certificate without the key of its CA, which the webhook does not renew" in result.stderr
    )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
