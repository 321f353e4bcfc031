"""The benchmarks measure what they say: pods as controllers create them, and goals that are compared rightly."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks.__main__ import Row, check_measured, unmeasured
from benchmarks.client import Client, Connection, Sample
from benchmarks.decide import NAMESPACE
from benchmarks.figures import Figure
from benchmarks.held import NAME, Held, tell
from benchmarks.streams import LARGE, OF_TRACE, REPLICAS, SMALL, TRANSLATED, Pair, Stream, streams
from benchmarks.trace import GIB_PER_GPU, TraceRequest, trace
from webhook.admission import Context, decide
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import ENTRY, Memo
from webhook.pod import decode_pod
from webhook.reasons import Reason
from webhook.review import decode_review

POLICY = load_policy()
CONTEXT = Context(NAMESPACE, "privileged")
TRACE_FILE = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
a,3000,5600,1,815,,LS,Running,0,1,0
b,12000,57344,0,0,,LS,Running,0,1,0
c,3000,5600,1,815,,BE,Running,5,9,6
d,8000,30517,4,1000,V100M16|V100M32,LS,Running,0,1,0
"""
SHARED = TraceRequest(3000, 5600, 1, 815)
ORDINARY = TraceRequest(12000, 57344, 0, 0)
SEVERAL = TraceRequest(8000, 30517, 4, 1000)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A trace, and no peer."""
    file = tmp_path / "trace.csv"
    file.write_text(TRACE_FILE)
    monkeypatch.setenv("TRACE", str(file))
    monkeypatch.delenv("PEER", raising=False)
    monkeypatch.delenv("PEER_PID", raising=False)
    monkeypatch.delenv("WITHOUT", raising=False)


def stream(name: str) -> Stream:
    """The stream of this name, from its first review."""
    (found,) = (each for each in streams() if each.name == name)
    return found


def pods(name: str, count: int) -> Iterator[dict[str, Any]]:
    """The first pods of a stream."""
    return (json.loads(body)["request"]["object"] for body in islice(stream(name).bodies, count))


def test_every_pod_is_allowed_and_has_its_size() -> None:
    """The pods of every stream are changed, if they request a GPU, and no mark is left in a review."""
    for each in streams():
        for body in islice(each.bodies, 8):
            assert re.search(rb"@\w+@", body) is None
            size = LARGE if each.large else SMALL
            assert (size // 2 if each.name == "ordinary CPU pods" else 0.99 * size) < len(body) < 1.1 * size
            pod = decode_review(body).pod
            assert pod is not None
            requests_gpu = re.search(rb'"(nvidia|aliyun|volcano|koordinator)\.(com|sh)/v?gpu', body) is not None
            assert decide(pod, CONTEXT, POLICY).reason is (Reason.CHANGED if requests_gpu else Reason.NO_GPU_KEYS)


def test_one_template() -> None:
    """Pods of one template differ in the uid of the review and in the volume of the token, and in nothing else."""
    first, second = islice(stream("one template").bodies, 2)
    assert first != second
    changed = re.sub(rb"kube-api-access-\w{5}", b"", re.sub(rb'"uid":"[\w-]+"', b"", first))
    assert re.sub(rb"kube-api-access-\w{5}", b"", re.sub(rb'"uid":"[\w-]+"', b"", second)) == changed


@pytest.mark.parametrize("name", ["all different", "all different, 64 KB"])
def test_all_different(name: str) -> None:
    """No two pods have a name, a label of their own, a variable or a share of a GPU in common."""
    names, labels, variables, shares = set(), set(), set(), set()
    count = 5_000 if name == "all different" else 300
    for pod in pods(name, count):
        container = pod["spec"]["containers"][0]
        limits = container["resources"]["limits"]
        names.add(pod["metadata"]["generateName"])
        labels.add(pod["metadata"]["labels"]["app"])
        variables.add((container["env"][2]["name"], container["env"][2]["value"]))
        shares.add((limits["nvidia.com/gpumem"], limits["nvidia.com/gpucores"]))
    assert [len(each) for each in (names, labels, variables, shares)] == [count] * 4


@pytest.mark.parametrize("pair", TRANSLATED, ids=lambda pair: f"{pair.source} to {pair.target}")
def test_all_different_and_translated(pair: Pair) -> None:
    """No two shares are alike, each is written in keys of the target, and the peer is sent the same in its own."""
    found = stream(f"all different, {pair.source} to {pair.target}")
    assert found.peers is not None
    shares, written = set(), {"nvidia": "nvidia.com/gpumem", "koordinator": "koordinator.sh/gpu-memory"}[pair.target]
    for number, (body, peers) in enumerate(zip(islice(found.bodies, 1000), found.peers, strict=False)):
        limits, same = (
            json.loads(each)["request"]["object"]["spec"]["containers"][0]["resources"]["limits"]
            for each in (body, peers)
        )
        shares.add(tuple(limits.values()))
        assert same["nvidia.com/gpucores"] in limits.values()
        if number % 100 == 0:
            pod = decode_review(body).pod
            assert pod is not None
            assert written in decide(pod, CONTEXT, POLICY).patch_json.decode()
    assert len(shares) == 1000


def test_goals_that_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are named, and end the run at once, unless it is told to go without them."""
    assert list(unmeasured()) == ["peer"]
    assert "PEER and PEER_PID not set" in unmeasured()["peer"]
    assert all(each.name in unmeasured()["peer"] for each in streams() if each.below_peer)
    monkeypatch.setenv("PEER", "https://127.0.0.1:8443/webhook")
    assert "; PEER_PID not set" in f"; {unmeasured()['peer']}"
    monkeypatch.setenv("PEER_PID", "1")
    check_measured(unmeasured())
    monkeypatch.delenv("TRACE")
    assert all(name in unmeasured()["trace"] for name in OF_TRACE)
    for without, told in (("", "WITHOUT=trace"), ("peer", "Jobs of the trace"), ("trace,moon", "write trace or peer")):
        monkeypatch.setenv("WITHOUT", without)
        with pytest.raises(SystemExit, match=told):
            check_measured(unmeasured())
    monkeypatch.setenv("WITHOUT", "trace")
    check_measured(unmeasured())


def test_what_is_held(tmp_path: Path) -> None:
    """All memories together, those of former policies too."""
    memos = [Memo(), Memo()]
    memos[0].keep("a", 1, 100)
    memos[1].keep("a", 1, 200)
    tell(memos, tmp_path)
    assert Held(*json.loads((tmp_path / NAME).read_text())) == Held(2, 300 + 2 * ENTRY)


def test_replicas() -> None:
    """Pods of an indexed Job and of a StatefulSet have its labels and an index of their own; then comes the next owner."""
    jobs = list(pods("indexed Jobs", REPLICAS + 1))
    assert len({pod["metadata"]["labels"]["controller-uid"] for pod in jobs[:REPLICAS]}) == 1
    index = "batch.kubernetes.io/job-completion-index"
    assert [pod["metadata"]["labels"][index] for pod in jobs] == [*map(str, range(REPLICAS)), "0"]
    assert jobs[REPLICAS]["metadata"]["labels"]["job-name"] != jobs[0]["metadata"]["labels"]["job-name"]
    replicas = list(pods("StatefulSets", REPLICAS + 1))
    assert len({pod["metadata"]["name"] for pod in replicas}) == REPLICAS + 1
    assert len({pod["metadata"]["labels"]["app"] for pod in replicas}) == 2


def test_trace() -> None:
    """Requests are counted, and mean the same in both vendors' names; a share is rounded up, and quantities are canonical."""
    assert trace() == {SHARED: 2, ORDINARY: 1, SEVERAL: 1}
    assert SHARED.hami == {
        "cpu": "3",
        "memory": "5600Mi",
        "nvidia.com/gpu": "1",
        "nvidia.com/gpumem-percentage": "82",
        "nvidia.com/gpucores": "82",
    }
    assert SHARED.aliyun == {"cpu": "3", "memory": "5600Mi", "aliyun.com/gpu-mem": "14"}
    assert SEVERAL.hami["nvidia.com/gpu"] == "4"
    assert SEVERAL.aliyun["aliyun.com/gpu-mem"] == str(4 * GIB_PER_GPU)
    assert (SEVERAL.aliyun_labels, SHARED.aliyun_labels) == ({"aliyun.com/gpu-count": "4"}, {})
    assert ORDINARY.hami == ORDINARY.aliyun == {"cpu": "12", "memory": "56Gi"}


def test_jobs_of_the_trace() -> None:
    """Each is a Job of its own, in the trace's proportions, and Aliyun's are translated."""
    jobs = list(pods("Jobs of the trace, Aliyun to nvidia", 40))
    assert len({pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] for pod in jobs}) == 40
    limits = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in jobs]
    assert sum("aliyun.com/gpu-mem" in each for each in limits) == 30
    translated = next(pod for pod in jobs if "aliyun.com/gpu-count" in pod["metadata"]["labels"])
    decision = decide(decode_pod(json.dumps(translated).encode()), CONTEXT, POLICY)
    assert "nvidia.com/gpumem" in decision.patch_json.decode()


def test_streams_without_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the file its streams are left out, and the others stay."""
    names = [each.name for each in streams()]
    monkeypatch.delenv("TRACE")
    assert [each.name for each in streams()] == [name for name in names if "trace" not in name]


@pytest.mark.parametrize(
    "headers, body",
    [
        (b"Content-Length: 16", b'{"allowed":true}'),
        (b"Transfer-Encoding: chunked", b'10\r\n{"allowed":true}\r\n0\r\n\r\n'),
    ],
)
def test_ends_of_answers(headers: bytes, body: bytes) -> None:
    """An answer is complete with its last byte, whether its length or its chunks say so."""
    whole = b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n\r\n" + body
    tls = Mock(recv=Mock(side_effect=[whole[at : at + 1] for at in range(len(whole))]))
    connection = Connection(tls)
    assert [Client.answered(connection) for _ in whole] == [False] * (len(whole) - 1) + [True]


def sample(cpu: float, latency: float = 0.001) -> list[Sample]:
    """One round of a hundred reviews."""
    return [Sample(100, 1.0, 100 * cpu, [latency] * 100)]


def test_goals_of_a_row() -> None:
    """A row is over if it takes too many times the empty handler, is too slow, or takes more than the peer."""
    row = Row(Stream("s", iter(()), 1.6), sample(100e-6), sample(160e-6))
    assert row.missed == []
    assert replace(row, ours=sample(161e-6, 0.006)).missed == ["CPU", "p99"]
    assert replace(row, stream=replace(row.stream, large=True), ours=sample(160e-6, 0.006)).missed == []
    assert replace(row, peer=sample(90e-6)).missed == []
    below = replace(row, stream=replace(row.stream, below_peer=True))
    assert below.missed == replace(below, peer=sample(float("nan"))).missed == []
    assert replace(below, peer=sample(90e-6)).missed == ["the peer"]
    assert "over: the peer" in str(replace(below, peer=sample(90e-6)))
    assert len(str(replace(row, peer=sample(90e-6)))) > len(str(row))


def test_figure() -> None:
    """A figure meets its goal if it is not more."""
    figure = Figure("start to ready", 0.6, 0.6, "s")
    assert (figure.met, replace(figure, value=0.61).met) == (True, False)
    assert (str(figure).split()[-1], str(replace(figure, value=0.61)).split()[-1]) == ("ok", "over")
