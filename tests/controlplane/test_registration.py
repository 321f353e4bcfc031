"""The webhook configuration on a real API server, with nobody behind it: what an outage holds back, and what not."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest
from msgspec.structs import replace

from tests.cluster.gpu_pods import keys_of, many_vendors, ordinary_pods, pod, requesting_pods, resources_of
from webhook.cluster.registration.names import GPU_KEYS as CONDITION
from webhook.cluster.registration.names import MAX_EXPRESSION, conditions, names_set
from webhook.cluster.registration.wanted import API_VERSION, AUDIT, ENFORCE, NAME, Site, Wanted, registration, wanted_by
from webhook.mapping.model.compiling import MOST, Capacity
from webhook.mapping.model.vendor import LetsThrough

from . import objects
from .client import Answer, Client, Object
from .plane import ControlPlane

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200), pytest.mark.once("loss")]

OWN_LABEL = "registration.example/inject"
"""Other tests have the usual one for webhooks of their own."""

DEAD = "https://127.0.0.1:1/mutate"
GPU_RESOURCES = {"nvidia.com/gpu": "1"}
GPU_POD = pod(limits=GPU_RESOURCES, requests=GPU_RESOURCES)
LONG = 40
CONFIGURATIONS = "mutatingwebhookconfigurations"

Create: TypeAlias = Callable[[Object], Answer]


def namespace(plane: ControlPlane, name: str, **labels: str) -> str:
    """Create a namespace unless it exists, with its own label and the webhook's labels in `ours`."""
    ours = {f"vgpu-webhook.io/{key}": value for key, value in labels.items()}
    if plane.client.get("v1", "namespaces", name).status == 404:
        plane.create_namespace(objects.namespace(name, {OWN_LABEL: "enabled", **ours}))
    return name


def refused_by(answer: Answer) -> str | None:
    """Which webhook could not be called, None where the pod was created."""
    if answer.status == 201:
        return None
    assert answer.status == 500, answer.message
    return next(name for name in (ENFORCE, AUDIT) if f'failed calling webhook "{name}"' in answer.message)


def replace_registration(client: Client, configuration: Object) -> None:
    """Put this webhook configuration in place of any that is there."""
    client.delete(API_VERSION, CONFIGURATIONS, NAME)
    client.create(configuration).accepted()


@pytest.fixture(scope="module")
def many() -> Wanted:
    """What a policy of many vendors wants."""
    return replace(wanted_by(many_vendors()), opt_in=OWN_LABEL, timeout=1)


@pytest.fixture(scope="module")
def create(control_plane: ControlPlane, many: Wanted) -> Iterator[Create]:
    """Creates pods (as dry runs) in an enforcing namespace, while the webhook configuration calls nobody."""
    where = namespace(control_plane, "dead-enforce")
    client = control_plane.client
    replace_registration(client, registration(many, Site(DEAD, own_namespace="dead-own"), version="0.1.0"))

    def create(manifest: Object) -> Answer:
        return client.create(manifest, where, dry_run=True)

    control_plane.wait_until(lambda: create(GPU_POD).status != 201, "the webhook configuration is in force")
    yield create
    client.delete(API_VERSION, CONFIGURATIONS, NAME).accepted()


def served_by(ordinary: Object) -> Iterator[pytest.MarkDecorator]:
    """Which API servers store a pod at all: the default of the feature gate RelaxedEnvironmentVariableValidation."""
    names = [variable["name"] for container in ordinary["spec"]["containers"] for variable in container.get("env", ())]
    if any("/" in name for name in names):
        yield pytest.mark.kubernetes("1.32", why="older API servers refuse a slash in the name of a variable")


@pytest.mark.parametrize(
    "ordinary", [pytest.param(each, id=each["metadata"]["name"], marks=[*served_by(each)]) for each in ordinary_pods()]
)
def test_ordinary_pods_are_created(create: Create, ordinary: Object) -> None:
    """With the webhook dead, a pod that needs no GPU never learns of it."""
    answer = create(ordinary)
    assert answer.status == 201, answer.message


def test_every_key_of_every_vendor_is_held_back(create: Create) -> None:
    """With the webhook dead, no spelling of any key gets past it."""
    pods = list(requesting_pods(many_vendors()))
    assert len(pods) > 100
    passed = [requesting.title for requesting in pods if refused_by(create(requesting.pod)) != ENFORCE]
    assert passed == []


@pytest.mark.parametrize(
    "key",
    [
        *("nvidia.com/gpumem", "nvidia.com/gpumemm", "hami.io/vgpu-node", "hami.io/vgpu-nodes"),
        *("gpushare.alibabacloud.com/x", "ALIYUN_COM_GPU_MEM_IDX", "xALIYUN_COM_GPU_MEM_IDX"),
        *("nvidia.com/container.main.gpu-memory.limit", "nvidia.com/container.main.gpu-memory.limits"),
        *("a.tencent.com/predicate-time-1", "tencent.com/predicate", "volcano.sh/gpu-num", "volcano.sh/job-name"),
        *("nvidia.com", "gpu-memory", "gpu-memory-x", "tensor-fusion.ai/vram-limit", "tensor-fusion.ai/x"),
    ],
)
def test_the_api_server_reads_the_reach_as_we_do(create: Create, many: Wanted, key: str) -> None:
    """What the expression lets through is what the reach says, for labels, annotations and resources."""
    for manifest in (pod(labels={key: "1"}), pod(annotations={key: "1"})):
        assert (refused_by(create(manifest)) == ENFORCE) is many.matched_names.has_pod([], keys_of(manifest))
    if "/" in key:
        manifest = pod(limits={key: "1"}, requests={key: "1"})
        assert (refused_by(create(manifest)) == ENFORCE) is many.matched_names.has_pod(resources_of(manifest), [])


def test_the_refusal_says_why(create: Create) -> None:
    """A person at kubectl reads which webhook could not be called, and how that failed."""
    message = create(GPU_POD).message
    assert f'failed calling webhook "{ENFORCE}"' in message
    assert DEAD in message
    assert "connection refused" in message


def test_large_pods_are_within_the_budget(create: Create) -> None:
    """30 containers of 8 devices each and 250 annotations are looked at, and not sent."""
    strange = {f"device.example/{number}": "1" for number in range(8)}
    manifest = pod(annotations={f"team.example/{'x' * LONG}-{number}": "1" for number in range(250)})
    container = {"image": "app", "resources": {"limits": strange, "requests": strange}}
    manifest["spec"]["containers"] = [{"name": f"c{number}", **container} for number in range(30)]
    answer = create(manifest)
    assert answer.status == 201, answer.message


@pytest.mark.parametrize(
    "name, labels, expected",
    [
        ("dead-warn", {"mode": "warn"}, None),
        ("dead-audit", {"mode": "audit"}, None),
        ("dead-said", {"mode": "enforce"}, ENFORCE),
        ("dead-rollout", {"rollout": "10"}, ENFORCE),
        ("dead-misread", {"mode": "warning"}, ENFORCE),
        ("dead-own", {}, None),
        ("kube-system", {}, None),
        ("kube-node-lease", {}, None),
    ],
)
def test_namespaces(
    create: Create, control_plane: ControlPlane, name: str, labels: dict[str, str], expected: str | None
) -> None:
    """GPU pods wait where shares are enforced only; the cluster's own namespaces and the webhook's never do."""
    namespace(control_plane, name, **labels)
    if name.startswith("kube-"):
        patch = {"metadata": {"labels": {OWN_LABEL: "enabled"}}}
        control_plane.client.patch("v1", "namespaces", name, patch).accepted()
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        control_plane.client.create(account, name)
    answer = control_plane.client.create(GPU_POD, name, dry_run=True)
    assert refused_by(answer) == expected


def test_namespaces_that_have_not_opted_in(create: Create, control_plane: ControlPlane) -> None:
    """Their pods are none of our business."""
    name = "dead-elsewhere"
    control_plane.create_namespace(objects.namespace(name))
    assert control_plane.client.create(GPU_POD, name, dry_run=True).status == 201


def test_only_new_pods_reach_the_webhook(create: Create, control_plane: ControlPlane) -> None:
    """Pods that run already are changed, labelled and deleted whether or not the webhook lives."""
    client, where = control_plane.client, "dead-enforce"
    client.patch("v1", "namespaces", where, {"metadata": {"labels": {OWN_LABEL: "disabled"}}}).accepted()
    control_plane.wait_until(lambda: create(GPU_POD).status == 201, "the namespace has opted out")
    client.create({**GPU_POD, "metadata": {"name": "running"}}, where).accepted()
    client.patch("v1", "namespaces", where, {"metadata": {"labels": {OWN_LABEL: "enabled"}}}).accepted()
    control_plane.wait_until(lambda: create(GPU_POD).status != 201, "the namespace has opted in")
    client.patch("v1", "pods", "running", {"metadata": {"labels": {"a": "b"}}}, where).accepted()
    client.delete("v1", "pods", "running", where).accepted()


def test_what_is_stored_is_what_was_written(create: Create, control_plane: ControlPlane, many: Wanted) -> None:
    """The API server fills nothing in, so that what is read back can be compared."""
    site = Site(DEAD, own_namespace="dead-own")
    stored = control_plane.client.get(API_VERSION, CONFIGURATIONS, NAME).accepted()
    assert stored["webhooks"] == registration(many, site)["webhooks"]


def test_as_much_as_is_permitted(control_plane: ControlPlane) -> None:
    """Names up to every bound are accepted; 20 containers of 8 devices each and 250 annotations are within the budget."""
    prefixes = [f"many.example/{number:03}" for number in range(MOST.prefixes)]
    patterns = [f"p-{number:03}.example/container-*" for number in range(MOST.patterns // 32)]
    room = Capacity()
    names: list[str] = []
    assert room.take(LetsThrough(prefixes=tuple(prefixes), keys=tuple(patterns))) == ""
    while not room.take(LetsThrough(keys=(f"vendor-{len(names):04}.example/word",))):
        names.append(f"vendor-{len(names):04}.example/word")
    want = Wanted("0" * 12, names_set(prefixes=prefixes, names=names, keys=[*names, *patterns]), "much.example/inject")
    (text,) = (
        condition["expression"] for condition in conditions(want.matched_names) if condition["name"] == CONDITION
    )
    assert MAX_EXPRESSION * 0.9 < len(text) <= MAX_EXPRESSION
    client = control_plane.client
    configuration = registration(want, Site(DEAD), version="0.1.0")
    configuration["metadata"]["name"] = "00-much"
    where = "much"
    control_plane.create_namespace(objects.namespace(where, {"much.example/inject": "enabled"}))
    client.create(configuration).accepted()
    try:
        requesting = pod(annotations={names[-1]: "1"})
        control_plane.wait_until(
            lambda: client.create(requesting, where, dry_run=True).status != 201,
            "the webhook configuration is in force",
        )
        assert refused_by(client.create(pod(annotations={patterns[-1].replace("*", "x"): "1"}), where, dry_run=True))
        assert refused_by(client.create(pod(limits={f"{prefixes[-1]}x": "1"}), where, dry_run=True))
        strange = {f"device-{number}.example/{'x' * 30}": "1" for number in range(8)}
        ordinary = pod(annotations={f"p-001.example/{'x' * LONG}-{number}": "1" for number in range(250)})
        container = {"image": "app", "resources": {"limits": strange, "requests": strange}}
        ordinary["spec"]["containers"] = [{"name": f"c{number}", **container} for number in range(20)]
        answer = client.create(ordinary, where, dry_run=True)
        assert answer.status == 201, answer.message
    finally:
        client.delete(API_VERSION, CONFIGURATIONS, "00-much").accepted()
