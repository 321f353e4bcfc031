"""Updates of pods: what schedulers own, and ephemeral containers; ordinary updates are never sent."""

from collections.abc import Iterator
from typing import Any

import pytest

from webhook.cluster.registration.wanted import NAME, VALIDATING

from .client import Answer
from .in_cluster import calls, installed, set_settings
from .objects import mapping, namespace, pod
from .plane import ControlPlane

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200), pytest.mark.once("isolation")]

Json = dict[str, Any]
OWN = "updates-own"
TEAM = "updates-team"
LABEL = "updates.example/gpu"
MARK = "hami.io/vgpu-devices-allocated"
OPTED_OUT: Json = {"metadata": {"labels": {"vgpu-webhook.io/inject": "disabled"}}}
WEBHOOK = "updates.validate.vgpu-webhook.io"
DENIED = f'admission webhook "{WEBHOOK}" denied the request: '
EPHEMERAL = "ephemeralcontainers.validate.vgpu-webhook.io"
DENIED_LATER = f'admission webhook "{EPHEMERAL}" denied the request: '


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A webhook that does not judge updates yet, with a pod that it has changed and one without devices."""
    plane = control_plane
    plane.create_namespace(namespace(TEAM, {LABEL: "enabled"}))
    with installed(plane, tmp_path_factory.mktemp("updates"), OWN, settings("[pods]")):

        def called() -> bool:
            created = plane.client.create(pod("probe"), TEAM, dry_run=True)
            return bool(created.accepted()["spec"]["schedulerName"] != "default-scheduler")

        plane.wait_until(called, "called")
        for name in ("share", "late", "many"):
            plane.client.create(pod(name, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}), TEAM).accepted()
        for name in ("plain", "quiet"):
            plane.client.create(pod(name, {"cpu": "1"}), TEAM).accepted()
        annotated = pod("annotated", {"cpu": "1"})
        annotated["metadata"]["annotations"] = {"gpu-memory": "2000"}
        plane.client.create(annotated, TEAM).accepted()
        older = pod("older", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})
        older["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
        plane.client.create(older, TEAM).accepted()
        claim = {"name": "own", "resourceClaimTemplateName": "own"}
        plane.client.create(pod("claiming", {"cpu": "1"}, resourceClaims=[claim]), TEAM).accepted()
        yield plane
        for name in ("share", "late", "many", "plain", "quiet", "annotated", "claiming", "older"):
            plane.client.delete("v1", "pods", name, TEAM)


def settings(validation: str) -> str:
    """The settings."""
    return f"optInLabel: {LABEL}\npodSecurityDefault: privileged\nvalidation: {validation}\n"


def annotate(plane: ControlPlane, key: str, value: str | None, name: str = "share") -> Answer:
    """What `kubectl annotate` does."""
    return plane.client.patch("v1", "pods", name, {"metadata": {"annotations": {key: value}}}, TEAM)


def annotations(number: int, value: str | None = "") -> Json:
    """As many annotations that mean nothing."""
    return {"metadata": {"annotations": {f"{each:x}": value for each in range(number)}}}


def debug(plane: ControlPlane, name: str, of: str = "share", more: Json | None = None, **env: str) -> Answer:
    """What `kubectl debug` does to a pod with a share."""
    container = {
        "name": name,
        "image": "registry.example/shell:1",
        "env": [{"name": key, "value": value} for key, value in env.items()],
        **(more or {}),
    }
    found = plane.client.get("v1", "pods", of, TEAM).accepted()
    present = found["spec"].get("ephemeralContainers") or []
    change = {"spec": {"ephemeralContainers": [*present, container]}}
    return plane.client.patch("v1", "pods", f"{of}/ephemeralcontainers", change, TEAM)


def test_nobody_hears_of_it_at_first(plane: ControlPlane) -> None:
    """What was seen: an allocation is forged, and an ephemeral container sees every device; then both are judged."""
    assert annotate(plane, MARK, "forged").status == 200
    assert annotate(plane, MARK, None).status == 200
    assert debug(plane, "first", NVIDIA_VISIBLE_DEVICES="all").status == 200
    assert debug(plane, "writer", more=WRITING).status == 200
    plane.client.patch("v1", "pods", "many", annotations(48_000), TEAM).accepted()
    assert plane.client.patch("v1", "pods", "late", OPTED_OUT, TEAM).status == 200
    set_settings(plane, OWN, settings("[pods, ephemeralContainers, updates]")).accepted()

    def switched() -> bool:
        # Pods are not judged at first, so there may be no webhook yet.
        found = plane.client.call("GET", f"{VALIDATING.collection}/{NAME}").body.get("webhooks") or []
        judged = {WEBHOOK, EPHEMERAL} <= {each["name"] for each in found}
        return judged and annotate(plane, MARK, "x").status == 403 and debug(plane, "x", more=WRITING).status == 422

    plane.wait_until(switched, "judged")


def test_a_forged_allocation(plane: ControlPlane) -> None:
    """Denied with the key and who may change it; a pod without devices is nobody's concern."""
    refused = annotate(plane, MARK, "forged")
    assert refused.message == (
        f"{DENIED}VGW613: metadata.annotations[{MARK}] belongs to a scheduler, and admin may not change it: leave it, or list "
        "that user under `ownedBy` of the mapping"
    )
    assert annotate(plane, MARK, "forged", "plain").status == 200


def test_an_allocation_forged_beside_a_status(plane: ControlPlane) -> None:
    """Who may update the status of a pod can change its annotations with it."""
    change = {"metadata": {"annotations": {MARK: "forged"}}, "status": {"message": "x"}}
    refused = plane.client.patch("v1", "pods", "share/status", change, TEAM)
    assert refused.message.startswith(f"{DENIED}VGW613: metadata.annotations[{MARK}]")


def test_ordinary_updates_are_not_sent(plane: ControlPlane) -> None:
    """The API server's own count stays as it is, whatever else of a pod changes."""
    before = calls(plane, WEBHOOK)
    for number in range(20):
        assert annotate(plane, "example.com/step", str(number)).status == 200
    client = plane.client
    assert client.patch("v1", "pods", "share", {"metadata": {"labels": {"a": "b"}}}, TEAM).status == 200
    condition = {"type": "Ready", "status": "False"}
    assert client.patch("v1", "pods", "share/status", {"status": {"conditions": [condition]}}, TEAM).status == 200
    assert client.patch("v1", "pods", "share", {"spec": {"activeDeadlineSeconds": 9}}, TEAM).status == 200
    assert calls(plane, WEBHOOK) == before
    assert annotate(plane, MARK, "forged").status == 403
    # Twice where its cache was behind: a refused change is tried again on the pod as it is stored.
    assert calls(plane, WEBHOOK) in (before + 1, before + 2)


WRITING: Json = {"volumeMounts": [{"name": "vgpu-shim", "mountPath": "/x"}]}
PRIVILEGED: Json = {"securityContext": {"privileged": True}}


@pytest.mark.parametrize("of", ["share", "annotated", "claiming"])
def test_ephemeral_containers(plane: ControlPlane, of: str) -> None:
    """One that shows other devices, lifts the limit, or writes to the library of all is denied; any other is added."""
    for name, env in (("all", {"NVIDIA_VISIBLE_DEVICES": "all"}), ("free", {"CUDA_DISABLE_CONTROL": "true"})):
        refused = debug(plane, name, of, None, **env)
        assert refused.message.startswith(f"{DENIED_LATER}VGW605: container {name}: ")
    assert debug(plane, "root", of, PRIVILEGED).message.startswith(f"{DENIED_LATER}VGW506: container root: ")
    if of == "share":
        assert debug(plane, "writer-again", of, WRITING).message.startswith(
            f"{DENIED_LATER}VGW604: container writer-again: "
        )
        writing = WRITING["volumeMounts"][0] | {"readOnly": True}
        assert debug(plane, "reader", of, {"volumeMounts": [writing]}).status == 200
    assert debug(plane, "shell", of, TERM="xterm").status == 200


def test_no_opt_out_after_creation(plane: ControlPlane) -> None:
    """The label is denied; where it came while nobody judged, an ephemeral container is judged nevertheless."""
    refused = plane.client.patch("v1", "pods", "share", OPTED_OUT, TEAM)
    assert refused.message == (
        f"{DENIED}VGW613: metadata.labels[vgpu-webhook.io/inject] counts when a pod is created, and this one has devices: "
        "leave it, or create the pod again"
    )
    assert plane.client.patch("v1", "pods", "plain", OPTED_OUT, TEAM).status == 200
    assert debug(plane, "door", "late", NVIDIA_VISIBLE_DEVICES="all").message.startswith(DENIED_LATER)


RESIZABLE = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}


@pytest.mark.kubernetes("1.33", why="older API servers serve pods/resize behind a gate")
def test_a_resize_changes_no_share(plane: ControlPlane) -> None:
    """API servers deny it by themselves, so that it is never sent here: of a pod only CPU and memory are resized."""
    client = plane.client
    client.create(pod("resized", RESIZABLE), TEAM).accepted()
    stored = client.get("v1", "pods", "resized", TEAM).accepted()
    before = calls(plane, WEBHOOK)
    changes: tuple[dict[str, str | None], ...] = (
        {"nvidia.com/gpumem": "9000"},
        {"nvidia.com/gpumem": None},
        {"nvidia.com/gpu": None, "nvidia.com/gpumem": None},
        {"nvidia.com/gpucores": "30"},
        {"volcano.sh/vgpu-number": "1"},
        {"cpu": "2", "nvidia.com/gpu": "2"},
    )
    for changed in changes:
        refused = resize(plane, stored, changed)
        assert (refused.status, "only cpu and memory resources are mutable" in refused.message) == (422, True), refused
    refused = resize(plane, stored, {}, resources={"limits": {"nvidia.com/gpu": "2"}})
    assert refused.status == 422, refused
    marked = resize(
        plane, stored, {"cpu": "2"}, metadata={"annotations": {MARK: "forged"}, **OPTED_OUT["metadata"]}
    ).accepted()
    assert marked["spec"]["containers"][0]["resources"]["limits"] == {
        **stored["spec"]["containers"][0]["resources"]["limits"],
        "cpu": "2",
    }
    for field in ("annotations", "labels"):
        assert marked["metadata"].get(field) == stored["metadata"].get(field)
    assert calls(plane, WEBHOOK) == before
    client.delete("v1", "pods", "resized", TEAM)


def resize(
    plane: ControlPlane, stored: Json, changed: dict[str, str | None], metadata: Json | None = None, **spec: Any
) -> Answer:
    """What `kubectl patch --subresource resize` does to the amounts of the first container, and to more than it may."""
    first, *others = stored["spec"]["containers"]
    sides = {
        side: {name: amount for name, amount in {**first["resources"][side], **changed}.items() if amount is not None}
        for side in ("limits", "requests")
    }
    containers = [{**first, "resources": sides}, *others]
    change = {"metadata": metadata or {}, "spec": {"containers": containers, **spec}}
    return plane.client.patch("v1", "pods", "resized/resize", change, TEAM)


def test_the_scheduler_may(plane: ControlPlane) -> None:
    """Whoever is listed under `ownedBy`. Another is told so, also if the pod itself would be denied by now."""
    hiding = mapping("nvidia", "extends: nvidia\nguard: [{list: hami-core}, {env: A, lifts: ['1']}]\n")
    plane.client.create(hiding, OWN).accepted()
    lifted = pod("lifted", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})
    lifted["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    plane.wait_until(lambda: plane.client.create(lifted, TEAM, dry_run=True).status == 403 or None, "denied by now")
    refused = annotate(plane, MARK, "forged", "older")
    assert refused.message.startswith(f"{DENIED}VGW613: metadata.annotations[{MARK}] belongs to a scheduler"), (
        refused.message
    )
    plane.client.delete("v1", "configmaps", "nvidia", OWN).accepted()
    plane.client.create(mapping("nvidia", "extends: nvidia\nownedBy: [admin]\n"), OWN).accepted()
    plane.wait_until(lambda: annotate(plane, MARK, "written").status == 200 or None, "permitted")
    plane.client.delete("v1", "configmaps", "nvidia", OWN).accepted()
