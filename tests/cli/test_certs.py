"""``certs show`` and ``certs rotate`` on a folder; what they do in a cluster stands with the control plane's tests."""

import datetime as dt
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from certs.ca import Pair, issue, make_ca
from certs.serving import Serving
from certs.state import Retired, RotationRequest, State, decode, fingerprint
from certs.store import Directory
from tests.cli.conftest import Run
from tests.cluster.fake_api import FakeApi, reading
from tests.waiting import PATIENCE

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


def test_show(run: Run, tmp_path: Path, stored: State) -> None:
    """Every certificate with its end; no key."""
    assert stored.ca is not None
    assert stored.next_ca is not None
    assert stored.serving_pair is not None
    folder = keep(tmp_path / "state", stored)
    result = run("certs", "show", "--state-dir", str(folder))
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == [f"{folder}:"]
    shown = {(keys[0], keys[1], keys[2]) for keys in lines[1:4]}
    assert shown == {
        ("CA", "current", fingerprint(stored.ca.certificate)[:16]),
        ("CA", "next", fingerprint(stored.next_ca.certificate)[:16]),
        ("CA", "retired", fingerprint(stored.retired[0].certificate)[:16]),
    }
    assert lines[4][:2] == ["certificate", fingerprint(stored.serving_pair.certificate)[:16]]
    assert "for localhost, 127.0.0.1" in result.stdout
    assert f"remains until {stored.retired[0].until:%Y-%m-%d}" in result.stdout
    assert "PRIVATE" not in result.stdout


def test_show_as_json(run: Run, tmp_path: Path, stored: State) -> None:
    """Whole fingerprints, for scripts."""
    assert stored.serving_pair is not None
    assert stored.ca is not None
    result = run("certs", "show", "--state-dir", str(keep(tmp_path / "state", stored)), "-o", "json")
    printed = json.loads(result.stdout)
    assert printed["servingCertificate"]["fingerprint"] == fingerprint(stored.serving_pair.certificate)
    assert printed["servingCertificate"]["issuer"] == fingerprint(stored.ca.certificate)
    assert [each["state"] for each in printed["cas"]].count("current") == 1
    assert (printed["rotationRequest"], printed["problems"], printed["served"]) == (None, [], None)
    assert "PRIVATE" not in result.stdout


def test_what_cannot_be_used_is_reported(run: Run, tmp_path: Path, stored: State) -> None:
    """A serving certificate whose key is another's."""
    assert stored.ca is not None
    other = issue(stored.ca, ["localhost"], NOW)
    files = stored.files() | {"tls.key": other.key_pem}
    directory = Directory(tmp_path / "state")
    directory.write_blocking(files, directory.read_blocking().version)
    result = run("certs", "show", "--state-dir", str(tmp_path / "state"))
    assert result.exit_code == 0
    assert "problem: the serving certificate has a key that belongs to another certificate" in result.stdout


def test_nothing_kept(run: Run, tmp_path: Path) -> None:
    """An empty folder, and none at all."""
    why = f"{tmp_path} contains no certificates: either the webhook has not started yet, or it serves a provided"
    shown = run("certs", "show", "--state-dir", str(tmp_path)).stdout
    assert shown.startswith(f"{tmp_path}: nothing is stored\n{why}")
    result = run("certs", "rotate", "--state-dir", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {why}")
    result = run("certs", "show", "--state-dir", str(tmp_path / "missing"))
    assert (result.exit_code, result.stderr) == (1, f"error: {tmp_path / 'missing'}: no such folder\n")


def test_a_folder_or_a_cluster(run: Run, tmp_path: Path) -> None:
    """Not both."""
    result = run("certs", "show", "--state-dir", str(tmp_path), "--release-namespace", "ours")
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


@pytest.fixture
def shown(stored: State) -> Iterator[tuple[Pair, str]]:
    """A server that shows a serving certificate of its own, and its address."""
    assert stored.ca is not None
    other = issue(stored.ca, ["localhost"], NOW)
    serving = Serving()
    serving.swap(other.certificate_pem, other.key_pem, NOW, ["localhost"], [stored.ca.certificate])
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with serving.context.wrap_socket(connection, server_side=True):
                pass

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield other, f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join(PATIENCE)


def test_what_is_served(run: Run, tmp_path: Path, stored: State, shown: tuple[Pair, str]) -> None:
    """The certificate that a server presents is compared with the stored one."""
    other, address = shown
    result = run("certs", "show", "--state-dir", str(keep(tmp_path / "state", stored)), "--address", address)
    until = f"{other.not_after:%Y-%m-%d}"
    expected = f"{address} serves another certificate, {fingerprint(other.certificate)[:16]}, until {until}\n"
    assert result.stdout.endswith(expected)


def test_nobody_there(run: Run, tmp_path: Path, stored: State) -> None:
    """A server that is not available is reported as such."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    result = run("certs", "show", "--state-dir", str(keep(tmp_path / "state", stored)), "--address", address)
    assert result.exit_code == 0
    assert f"{address} cannot be reached from here: " in result.stdout


SECRETS = "/api/v1/namespaces/gpu/secrets/vgpu-webhook-certificates"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/00-vgpu-webhook"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A cluster with a webhook configuration, and without a Secret of the webhook's own."""
    api = reading({SECRETS: 404, REGISTRATION: {"metadata": {"name": "00-vgpu-webhook"}, "webhooks": []}})

    async def connected(kubeconfig: Path | None) -> FakeApi:
        return api

    monkeypatch.setattr("webhook.cli.commands.certs.connect", connected)
    return api


def test_a_registration_and_no_certificates(run: Run, cluster: FakeApi) -> None:
    """If the owner of the served certificate is unknown, the output says so; only the Secret and the registration are read."""
    for command in ("rotate", "show"):
        result = run("certs", command, "--release-namespace", "gpu")
        assert "contains no certificates: either the webhook has not started yet, or it serves a" in result.output
        assert "there is no webhook configuration" not in result.output
    assert {path for _, path, _ in cluster.requests} == {SECRETS, REGISTRATION}
    cluster.answers[REGISTRATION] = 404
    assert "there is no webhook configuration" in run("certs", "show", "--release-namespace", "gpu").stdout


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
    assert "the webhook does not renew" in run("certs", "show", "--state-dir", str(tmp_path)).stdout
