"""The pods of `examples/` on a real control plane: what is stored, what is reported, and that `mutate` says the same."""

import re
import time
from dataclasses import dataclass, field

import pytest

from webhook.quantity import Number

from .client import Answer, Object
from .cluster import Cluster, annotated, comparable, denial
from .examples import Example, example, example_names
from .offline import mutate
from .plane import ControlPlane
from .written import account, amounts, environment, our_mounts, our_volumes, written

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

SHIM = "/usr/local/vgpu-shim"
LIBRARY = f"{SHIM}/libvgpu.so"
IMAGE_PATH = "/usr/local/nvidia/lib:/usr/local/nvidia/lib64"
ILUVATAR_PATH = "/usr/local/iluvatar/lib64:/usr/local/corex/lib64"
VOLUMES = {
    "vgpu-shim": {"name": "vgpu-shim", "hostPath": {"path": SHIM, "type": "Directory"}},
    "vgpu-shim-state": {"name": "vgpu-shim-state", "emptyDir": {"sizeLimit": "64Mi"}},
}
MOUNTS = {
    SHIM: "vgpu-shim",
    "/tmp/vgpulock": "vgpu-shim-state/lock",
    "/tmp/vgpu-cache": "vgpu-shim-state/cache",
}
SCHEDULER_SET = "VGW509"  # every pod that names no scheduler


def shim(memory: int, cores: int | None = None, path: str = f"{SHIM}:{IMAGE_PATH}") -> dict[str, str]:
    """Return the variables that carry a limit to the shim and make the loader find it."""
    limits = {"CUDA_DEVICE_MEMORY_LIMIT": f"{memory}m"}
    if cores is not None:
        limits["CUDA_DEVICE_SM_LIMIT"] = str(cores)
    return limits | {
        "LD_LIBRARY_PATH": path,
        "LD_PRELOAD": LIBRARY,
        "CUDA_REDIRECT": LIBRARY,
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/tmp/vgpu-cache/train.cache",
    }


@dataclass(frozen=True, slots=True)
class Row:
    """What an example is stored as: its resources and variables, and the codes of its warnings."""

    example: str
    resources: dict[str, Number]
    variables: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    """What each says, as a pattern, by its code."""


def nvidia(gpu: int, gpumem: int, gpucores: int | None = None) -> dict[str, Number]:
    """Return resources in the keys of that vendor."""
    return {
        f"nvidia.com/{name}": number
        for name, number in {"gpu": gpu, "gpumem": gpumem, "gpucores": gpucores}.items()
        if number is not None
    }


CHANGED = [
    Row("01", nvidia(1, 5000), shim(5000), {"VGW101": "5000", SCHEDULER_SET: "hami-scheduler .was default-scheduler"}),
    Row("02", nvidia(1, 3000, 30), shim(3000, 30)),
    Row("03", nvidia(1, 3000), shim(3000), {"VGW101": r"nvidia\.com/gpu\b"}),
    Row(
        "04",
        {"iluvatar.ai/vgpu": 1, "iluvatar.ai/vcuda-core": 50, "iluvatar.ai/vcuda-memory": 64},
        {"LD_LIBRARY_PATH": ILUVATAR_PATH},
    ),
    Row("05", nvidia(1, 16384, 50), shim(16384, 50), {"VGW202": "image"}),
    Row("06", {"iluvatar.ai/vgpu": 2, "iluvatar.ai/vcuda-core": 200}, {}, {"VGW108": r"\b50\b.*\b200\b"}),
    Row(
        "08",
        nvidia(4, 2048),
        {**shim(2048), "ALIYUN_COM_GPU_MEM_CONTAINER": "2"},
        {"VGW208": "ALIYUN_COM_GPU_MEM_CONTAINER=2", "VGW209": "ALIYUN_COM_GPU_MEM_DEV"},
    ),
    Row("10", nvidia(1, 4096, 50), shim(4096, 50)),
    Row("13", nvidia(1, 3000), shim(3000, path=f"{SHIM}:/opt/lib"), {"VGW609": "LD_LIBRARY_PATH"}),
    Row("21", nvidia(1, 3000), shim(3000)),
    Row("25", {"acme.example/vgpu": 1, "acme.example/vgpu-memory": 3000}, shim(3000), {"VGW101": "acme.example/vgpu"}),
    Row("27", nvidia(1, 5000), shim(5000), {"VGW101": "5000", "VGW106": r"nvidia\.com/gpumem"}),
    Row("29", nvidia(1, 5000), shim(5000), {"VGW101": "5000"}),
    Row("30", nvidia(1, 5000), {}, {"VGW101": "5000"}),
]
UNTOUCHED = ["07", "14", "15", "16", "17", "22", "23"]


@dataclass(frozen=True, slots=True)
class Denied:
    """Why an example is denied: the code of the reason, the HTTP code, and what the message says, as patterns."""

    example: str
    code: str
    status: int
    warnings: tuple[str, ...]


DENIED = [
    Denied("09", "VGW305", 422, (r"aliyun\.com/gpu-mem", r"aliyun\.com/gpu-count", r"\b8\b", r"\b3\b", r"\b6\b|\b9\b")),
    Denied("11", "VGW308", 422, (r"tencent\.com/vcuda-core", r"\b150\b", r"\b100\b", r"\b200\b")),
    Denied("12", "VGW303", 422, (r"aliyun\.com/gpu-mem", r"8 GiB")),
    Denied("18", "VGW312", 422, ("nvidia", "iluvatar")),
    Denied("19", "VGW506", 403, ("privileged",)),
    Denied("20", "VGW504", 403, ("nodeName",)),
    Denied("24", "VGW301", 400, (r"nvidia\.com/gpumem",)),
    Denied("26", "VGW313", 422, (r"nvidia\.com/gpumemory", r"nvidia\.com/gpumem\b")),
]


def codes(warnings: tuple[str, ...]) -> set[str]:
    """Return the codes that warnings begin with."""
    return {warning.partition(":")[0] for warning in warnings}


def assert_stored_as(row: Row, pod: Object) -> None:
    """Fail unless a pod is stored as its row says."""
    [container] = pod["spec"]["containers"]
    assert amounts(container["resources"]["limits"]) == row.resources
    assert amounts(container["resources"]["requests"]) == row.resources
    assert environment(container) == row.variables
    assert pod["spec"]["schedulerName"] == "hami-scheduler"
    carried = "LD_PRELOAD" in row.variables
    assert our_volumes(pod) == (VOLUMES if carried else {})
    assert our_mounts(container) == (MOUNTS if carried else {})
    assert re.search(r'"[0-9a-f]{12}"', pod["metadata"]["annotations"]["vgpu-webhook.io/status"])
    assert account(pod)


@pytest.mark.parametrize("row", CHANGED, ids=lambda row: row.example)
def test_changed(cluster: Cluster, row: Row) -> None:
    """A pod that requests a share is stored as the one that will really run, and its author is warned."""
    answer = cluster.submit(example(row.example))
    assert_stored_as(row, answer.accepted())
    assert codes(answer.warnings) - {SCHEDULER_SET} == set(row.warnings) - {SCHEDULER_SET}
    for code, pattern in row.warnings.items():
        assert any(warning.startswith(code) and re.search(pattern, warning) for warning in answer.warnings)


@pytest.mark.parametrize("name", UNTOUCHED)
def test_untouched(cluster: Cluster, name: str) -> None:
    """A pod that is none of ours, or already right, is stored as where no webhook is, and nothing is reported."""
    sent = example(name)
    answer = cluster.submit(sent)
    assert comparable(answer.accepted()) == cluster.untreated(sent)
    assert not annotated(answer.body)
    assert answer.warnings == ()


@pytest.mark.parametrize("row", DENIED, ids=lambda row: row.example)
def test_denied(cluster: Cluster, row: Denied) -> None:
    """A request that is impossible or ambiguous is refused with what was read and what to write instead."""
    answer = cluster.submit(example(row.example))
    message = denial(answer)
    assert row.code in message
    assert answer.status == row.status
    for pattern in row.warnings:
        assert re.search(pattern, message), message


def test_absurd_quantity_is_denied_at_once(cluster: Cluster) -> None:
    """A number of ten million digits costs no more time than any other pod."""
    began = time.monotonic()
    denial(cluster.submit(example("24")))
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["01", *(row.example for row in DENIED)])
def test_mode_warn(cluster: Cluster, name: str) -> None:
    """In a namespace of mode warn the same is reported, denials as warnings too, and nothing is changed."""
    sent = example(name)
    warned = cluster.submit(sent.moved("shares-warned"))
    assert comparable(warned.accepted()) == cluster.untreated(sent)
    enforced = cluster.submit(sent)
    expected = enforced.warnings if enforced.status == 201 else (*enforced.warnings, denial(enforced))
    assert expected
    # What would happen is called so; a long warning is cut a little earlier.
    would = [re.sub(r"under enforce(, denied)?: ", "", warning, count=1) for warning in warned.warnings]
    for warning in expected:
        assert any(warning.startswith(text.removesuffix("…")) for text in would), warning
    assert all("under enforce: " in warning or "under enforce, denied: " in warning for warning in warned.warnings)


def test_only_warned(cluster: Cluster) -> None:
    """The example of that namespace is stored as where no webhook is."""
    answer = cluster.submit(example("28"))
    assert comparable(answer.accepted()) == cluster.untreated(example("28"))
    assert "VGW101" in codes(answer.warnings)


def test_what_the_user_chose_is_kept(cluster: Cluster) -> None:
    """Runtime class, toleration and node selector of the user's stay beside what is written."""
    sent = example("21")
    stored = written(cluster.submit(sent).accepted())
    assert (stored["runtimeClassName"], stored["nodeSelector"]) == ("nvidia", {"example.com/room": "north"})
    assert stored["tolerations"] == sent.pod["spec"]["tolerations"]


@pytest.mark.parametrize(
    "name, count, row",
    [
        ("07", 1, None),
        ("08", 1, next(row for row in CHANGED if row.example == "08")),
        ("29", 2, next(row for row in CHANGED if row.example == "29")),
    ],
)
def test_workloads(cluster: Cluster, controllers: ControlPlane, name: str, count: int, row: Row | None) -> None:
    """The pods that the controller manager makes of a workload are treated like bare ones; the workload is not."""
    sent = example(name)
    pods = cluster.run(sent, count)
    for pod in pods:
        template_labels = sent.pod["metadata"]["labels"]
        assert template_labels.items() <= pod["metadata"]["labels"].items()
        if row is None:
            assert not annotated(pod)
            [container] = pod["spec"]["containers"]
            assert container["resources"] == {"limits": {"aliyun.com/gpu-mem": "8"}} | {
                "requests": {"aliyun.com/gpu-mem": "8"}
            }
            assert pod["spec"]["schedulerName"] == "default-scheduler"
        else:
            assert_stored_as(row, pod)


def spelled_alike(message: str) -> str:
    """Return a message without an absurd number: the API server sends 1e10000000 as 10e9999999."""
    return re.sub(r"\b\d+e\d{7,}\b", "ABSURD", message)


@pytest.mark.parametrize("name", example_names())
def test_offline_says_the_same(cluster: Cluster, name: str) -> None:
    """`mutate` prints, in every field that is ever written, what the API server stores, and gives the same messages."""
    sent = example(name)
    answer = cluster.submit(sent)
    offline = mutate(sent)
    assert offline.warnings == answer.warnings
    if answer.status == 201:
        assert offline.exit_code == 0
        assert offline.manifest is not None
        assert written(Example(name, offline.manifest, sent.namespace).pod) == written(answer.body)
    else:
        assert (offline.exit_code, offline.manifest) == (2, None)
        assert [spelled_alike(error) for error in offline.errors] == [spelled_alike(denial(answer))]


def test_every_example_is_tested() -> None:
    """Each example stands in one of the tables above."""
    tested = {row.example for row in CHANGED} | {row.example for row in DENIED} | {*UNTOUCHED, "28"}
    assert tested == {name[:2] for name in example_names()}


def test_second_pass_changes_nothing(cluster: Cluster) -> None:
    """A stored pod that is exported and created once more is stored as it was, and nothing is reported."""
    stored = cluster.submit(example("02")).accepted()
    spec = {key: value for key, value in stored["spec"].items() if key not in ("serviceAccount", "serviceAccountName")}
    again = {**stored, "spec": spec}
    again["metadata"] = {key: stored["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    answer: Answer = cluster.submit(Example("again", again, stored["metadata"]["namespace"]))
    assert comparable(answer.accepted()) == comparable(stored)
    assert answer.warnings == ()


def test_no_bug_was_counted(cluster: Cluster) -> None:
    """None of the above was answered with an internal error that a retry or a failure policy hid."""
    assert "vgpu_webhook_bugs_total 0.0" in cluster.product.metrics().splitlines()
