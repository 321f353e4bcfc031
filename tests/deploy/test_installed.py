"""An installed release, as far as it can be tried without a node: what it has no right to, what no upgrade can change."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.client import Client
from tests.controlplane.plane import ControlPlane
from tests.yaml_text import load_yaml

from .charts import INJECT, RELEASE, REQUIRED, Chart
from .helm import HelmError

pytestmark = [pytest.mark.controlplane, pytest.mark.once("rights")]

NAMESPACE = "gpu-installed"
OTHER = "kube-public"


@pytest.fixture(scope="module")
def where(helm: Chart, control_plane: ControlPlane) -> Iterator[list[str]]:
    """Options that lead Helm to a release with the chart's defaults, of which no pod runs."""
    options = ["--namespace", NAMESPACE, "--kubeconfig", str(control_plane.kubeconfig)]
    helm.run("install", RELEASE, str(helm.folder), "--create-namespace", *REQUIRED, *options)
    yield options
    helm.run("uninstall", RELEASE, *options)


REFUSED: list[tuple[str, str]] = load_yaml((Path(__file__).parent / "refused.yaml").read_text())
"""What least rights exclude. That all of those that are granted are used: `tests/node/test_rights.py`."""


def test_everything_else_is_refused(control_plane: ControlPlane, where: list[str]) -> None:
    """With a real token of the account: other Secrets, other namespaces, other webhook configurations, any pod."""
    client = control_plane.client
    account = Client(client.server, client.account_token(RELEASE, NAMESPACE), client.ca_file)
    assert account.get("v1", "namespaces", OTHER).status == 200
    answers = [
        (method, path, account.call(method, path, {} if method != "GET" else None).status) for method, path in REFUSED
    ]
    assert [each for each in answers if each[2] != 403] == []


def test_other_selector_is_refused(helm: Chart, where: list[str]) -> None:
    """Of the same Deployment: Kubernetes refuses it in the middle of an upgrade."""
    options = ("--reset-then-reuse-values", "--set", "nameOverride=shares", "--set", "fullnameOverride=vgpu-webhook")
    with pytest.raises(HelmError, match=r"the Deployment vgpu-webhook selects other pods .*restore nameOverride"):
        helm.run("upgrade", RELEASE, str(helm.folder), *INJECT, *where, *options)
