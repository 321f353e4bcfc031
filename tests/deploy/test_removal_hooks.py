"""The hooks of the removal, rendered with a cluster: for which values, and with which rights."""

from collections.abc import Iterator

import pytest
import yaml

from tests.controlplane.client import Object
from tests.controlplane.objects import RBAC, bound, role
from tests.controlplane.plane import ControlPlane
from tests.yaml_text import load_yaml_all

from .charts import RELEASE, REQUIRED, STATIC, Chart
from .helm import HelmError

pytestmark = [pytest.mark.controlplane, pytest.mark.once("rights")]

BOTH = ["ClusterRoleBinding", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
NAMESPACE = "gpu-removal"
INSTALLER = "installer"
REMOVER = "remover"


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with two users.

    The installer may read what an installation reads, and of ClusterRoles the release's alone; the remover has every right
    but for webhook configurations.
    """
    rules = [
        {"apiGroups": ["", "apps", "networking.k8s.io", "policy"], "resources": ["*"], "verbs": ["get"]},
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["get"]},
        {"apiGroups": [RBAC], "resources": ["roles", "rolebindings"], "verbs": ["get"]},
        {
            "apiGroups": [RBAC],
            "resources": ["clusterroles", "clusterrolebindings"],
            "resourceNames": [RELEASE],
            "verbs": ["get"],
        },
    ]
    grant(control_plane, INSTALLER, rules)
    groups = ["", "apps", "networking.k8s.io", "policy", RBAC]
    grant(control_plane, REMOVER, [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}])
    yield control_plane
    for name in (INSTALLER, REMOVER):
        for resource in ("clusterrolebindings", "clusterroles"):
            control_plane.client.delete(f"{RBAC}/v1", resource, name).accepted()


def grant(plane: ControlPlane, user: str, rules: list[Object]) -> None:
    """Let a user do something everywhere."""
    granted = role(user, *rules)
    for each in (granted, bound(granted, {"apiGroup": RBAC, "kind": "User", "name": user})):
        plane.client.create(each).accepted()


def hooks(chart: Chart, plane: ControlPlane, values: Object) -> list[str]:
    """Return the kinds of the hooks that run before the removal, as the user renders them before the first installation."""
    values = {
        "image": {"repository": "vgpu-webhook"},
        "shim": {"mode": "plugin"},
        "settings": {"bareDevices": "share"},
        **values,
    }
    user = ["--kubeconfig", str(plane.kubeconfig), "--kube-as-user", INSTALLER]
    options = ["--namespace", "not-created", "--dry-run=server", *user, "--values", "-"]
    printed = chart.run("template", RELEASE, str(chart.folder), *options, text=yaml.safe_dump(values))
    objects = list(load_yaml_all(printed))
    return sorted(
        each["kind"]
        for each in objects
        if (each["metadata"].get("annotations") or {}).get("helm.sh/hook") == "pre-delete"
    )


@pytest.mark.parametrize(
    "values, kinds",
    [
        ({}, BOTH),
        ({"registration": {"mode": "static", "manifest": STATIC}}, BOTH),
        ({"rbac": {"create": False}, "registration": {"mode": "static", "manifest": STATIC}}, BOTH[1:]),
        # Replicas with rights that are not the chart's would write the configuration again, while the Service goes.
        ({"rbac": {"create": False}}, []),
        ({"registration": {"mode": "static"}}, []),
    ],
)
def test_hooks_are_rendered_with_the_rights_of_an_installer(
    helm: Chart, plane: ControlPlane, values: Object, kinds: list[str]
) -> None:
    """All empty objects, the configurations alone, or none: whoever may read namespaces gets them, others' roles unread."""
    assert hooks(helm, plane, values) == kinds


@pytest.mark.long
def test_helm_4_renders_the_same_hooks(helm4: Chart, plane: ControlPlane) -> None:
    """It reads the cluster likewise."""
    assert hooks(helm4, plane, {}) == BOTH


@pytest.mark.parametrize("version", ["helm", pytest.param("helm4", marks=pytest.mark.long)])
def test_removal_without_the_rights_can_be_taken_back(
    request: pytest.FixtureRequest, version: str, plane: ControlPlane
) -> None:
    """Nothing but the binding is changed when a hook is forbidden, and the documented rollback restores it."""
    where = ["--namespace", NAMESPACE, "--kubeconfig", str(plane.kubeconfig)]

    def subjects() -> Object | None:
        found = plane.client.get(f"{RBAC}/v1", "clusterrolebindings", RELEASE)
        return found.body.get("subjects") if found.status == 200 else None

    chart: Chart = request.getfixturevalue(version)
    chart.run("install", RELEASE, str(chart.folder), "--create-namespace", *REQUIRED, *where)
    bound = subjects()
    assert bound
    with pytest.raises(HelmError, match="webhookconfigurations"):
        chart.run("uninstall", RELEASE, *where, "--kube-as-user", REMOVER)
    assert not subjects()
    plane.client.get("apps/v1", "deployments", RELEASE, NAMESPACE).accepted()
    chart.run("rollback", RELEASE, "1", *where)
    assert subjects() == bound
    chart.run("uninstall", RELEASE, *where)
    assert plane.client.get("apps/v1", "deployments", RELEASE, NAMESPACE).status == 404
