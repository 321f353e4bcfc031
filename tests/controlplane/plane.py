"""One control plane: etcd, the API server, and on demand the controller manager and the scheduler."""

import datetime as dt
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.x509 import issue, make_ca
from tests.waiting import PATIENCE

from .build import Binaries
from .client import Client, Object, wait_until
from .processes import Process, ProcessEndedError, free_ports

T = TypeVar("T")

START_TIMEOUT = 60.0
ATTEMPTS = 3


class ControlPlane:
    """A running control plane on free ports of the loopback interface, its files below one folder.

    Use it as a context manager: what runs is stopped at the end, logs stay in the folder, data does not.

    Attributes:
        names: those of the API server's certificate.
    """

    names: tuple[str, ...] = ("127.0.0.1", "localhost")

    def __init__(self, binaries: Binaries, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.binaries = binaries
        self._running = ExitStack()
        self._processes: list[Process] = []
        self._optional: set[str] = set()
        self._account_key = folder / "service-account.key"
        token = secrets.token_hex(16)
        (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
        _write_key(self._account_key)
        try:
            self.client = self._start(token)
        except BaseException:
            self.stop()
            raise
        self.write_kubeconfig(self.kubeconfig)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.client.server)
        return parts.hostname or "", parts.port or 0

    def start_controller_manager(self) -> None:
        """Start the controller manager, which makes the pods of workloads, unless it runs already."""
        self._start_optional(
            "kube-controller-manager",
            f"--service-account-private-key-file={self._account_key}",
            f"--root-ca-file={self.client.ca_file}",
            # Nodes are objects without a kubelet here: nobody renews their leases.
            "--node-monitor-grace-period=24h",
            "--node-startup-grace-period=24h",
        )

    def start_scheduler(self, names: Iterable[str]) -> None:
        """Start the scheduler, which binds pods to the nodes that a test has created, unless it runs already.

        Args:
            names: by which pods may ask for it, besides `default-scheduler`; stand-ins for vendors' own schedulers.
        """
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.kubeconfig)},
            "profiles": [{"schedulerName": name} for name in sorted({"default-scheduler", *names})],
        }
        file = self.folder / "scheduler.json"
        file.write_text(json.dumps(configuration))
        self._start_optional("kube-scheduler", f"--config={file}")

    def create_namespace(self, manifest: Object) -> None:
        """Create a namespace with the service account that pods in it run as; one that a first try has left is put right."""
        name = manifest["metadata"]["name"]
        answer = self.client.create(manifest)
        if answer.status == 409:
            answer = self.client.patch("v1", "namespaces", name, manifest)
        answer.accepted()
        # The controller manager makes it too, but later, and may not be running.
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        answer = self.client.create(account, name)
        if answer.status != 409:
            answer.accepted()

    def wait_until(self, probe: Callable[[], T | None], what: str, timeout: float = PATIENCE) -> T:
        """Wait like the client's `wait_until`, but fail at once when a component has ended."""

        def checked() -> T | None:
            self.check()
            return probe()

        return wait_until(checked, what, timeout)

    def check(self) -> None:
        """Fail with the end of its log if a component has ended."""
        for process in self._processes:
            process.check()

    def stop(self) -> None:
        """Stop everything, last started first, and remove the data."""
        self._running.close()
        self._processes.clear()
        self._optional.clear()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def _start(self, token: str) -> Client:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._start_once(token)
            except ProcessEndedError:
                # A port that was free may have been taken by somebody else in between; other reasons come back.
                self.stop()
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError

    def _start_once(self, token: str) -> Client:
        etcd_port, peer_port, api_port = free_ports(3)
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}",
            f"--initial-cluster=default=http://127.0.0.1:{peer_port}",
            "--log-level=warn",
        )
        certificate, key, ca = self._certify()
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--secure-port={api_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # it refuses a loopback address
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._account_key}",
            f"--service-account-signing-key-file={self._account_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--allow-privileged=true",
            "--profiling=false",
        )
        client = Client(f"https://127.0.0.1:{api_port}", token, str(ca))

        def ready() -> Client | None:
            self.check()
            try:
                return client if client.call("GET", "/readyz").status == 200 else None
            except OSError:
                return None

        return wait_until(ready, "API server ready", START_TIMEOUT)

    def _certify(self) -> tuple[Path, Path, Path]:
        """Write the API server's certificate, its key and the CA: those that it makes by itself are RSA, and cost it more."""
        now = dt.datetime.now(dt.UTC)
        ca = make_ca("control plane", now)
        pair = issue(ca, self.names, now)
        files = self.folder / "apiserver.crt", self.folder / "apiserver.key", self.folder / "ca.crt"
        for file, content in zip(files, (pair.certificate_pem, pair.key_pem, ca.certificate_pem), strict=True):
            file.write_bytes(content)
        return files

    def _start_optional(self, component: str, *arguments: str) -> None:
        if component in self._optional:
            return
        [port] = free_ports(1)
        self._optional.add(component)
        self._run(
            component,
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / component}",
            *arguments,
        )

    def _run(self, component: str, *arguments: str) -> None:
        command = [str(self.binaries.path(component)), *arguments]
        # Collecting garbage is a fifth of what they take; with this they do so less often, in 150 MB more.
        environment = {**os.environ, "GOGC": "400"}
        process = Process(command, self.folder / f"{component}.log", environment)
        # The API server waits for the end of watches, and nobody needs the data.
        self._running.callback(process.stop, grace=1)
        self._processes.append(process)

    def write_kubeconfig(self, path: Path, *, token: str = "", server: str = "") -> Path:
        """Write what leads here, as another user or by another way if these are given; JSON is YAML too."""
        cluster = {"server": server or self.client.server, "certificate-authority": self.client.ca_file}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": token or self.client.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }
        path.write_text(json.dumps(config))
        return path


def _write_key(path: Path) -> None:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    key = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
