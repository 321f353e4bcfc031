"""The pods of `examples/` on a real control plane: what is stored, what is reported, and that `mutate` says the same."""

import re

import pytest

from .cluster import Cluster, annotated, comparable, denial
from .examples import Example, example, example_names
from .offline import mutate
from .plane import ControlPlane
from .written import written

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]


DENIED = ("09", "11", "12", "18", "19", "20", "26")


@pytest.mark.parametrize("name", ["01", *DENIED])
def test_mode_warn(cluster: Cluster, name: str) -> None:
    """In a namespace of mode warn the same is reported, denials as warnings too, and nothing is changed."""
    sent = example(name)
    warned = cluster.submit(sent.moved("shares-warned"))
    assert comparable(warned.accepted()) == cluster.untreated(sent)
    enforced = cluster.submit(sent)
    expected = enforced.warnings if enforced.status == 201 else (*enforced.warnings, denial(enforced))
    assert expected
    would = {re.sub(r"under enforce(, denied)?: ", "", warning, count=1) for warning in warned.warnings}
    assert set(expected) <= would
    assert all("under enforce: " in warning or "under enforce, denied: " in warning for warning in warned.warnings)


@pytest.mark.parametrize("name, count", [("07", 1), ("08", 1), ("29", 2)])
def test_workloads(cluster: Cluster, controllers: ControlPlane, name: str, count: int) -> None:
    """The pods that the controller manager makes of a workload are treated like bare ones; the workload is not."""
    sent = example(name)
    bare = written(cluster.submit(sent).accepted())
    for pod in cluster.run(sent, count):
        assert sent.pod["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
        found = written(pod)
        assert bare["annotations"].items() <= found["annotations"].items()
        assert {**found, "labels": {}, "annotations": {}} == {**bare, "labels": {}, "annotations": {}}
        assert annotated(pod) is (name != "07")


def spelled_alike(message: str) -> str:
    """Return a message without an absurd number: the API server sends 1e10000000 as 10e9999999."""
    return re.sub(r"\b\d+e\d{7,}\b", "ABSURD", message)


@pytest.mark.parametrize("name", example_names())
def test_offline_says_the_same(cluster: Cluster, name: str) -> None:
    """`mutate` prints, in every field that is ever written, what the API server stores, and gives the same messages.

    What that is for each example stands in tests/cli/transcripts.
    """
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


def test_no_bug_was_counted(cluster: Cluster) -> None:
    """None of the above was answered with an internal error that a retry or a failure policy hid."""
    assert "vgpu_webhook_bugs_total 0.0" in cluster.product.metrics().splitlines()
