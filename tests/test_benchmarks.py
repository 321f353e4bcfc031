"""The benchmark measures what it says: reviews of the right size that give every step something to do, known or never seen."""

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from benchmarks.reviews import LARGE, SMALL, TEMPLATES, Load, in_turn, never_seen, one_pod
from webhook.admission import Context, Namespace, decide
from webhook.labels import INJECT
from webhook.mapping.load import load_policy
from webhook.mapping.model.memo import Memo
from webhook.reasons import Reason
from webhook.review import decode_review

CONTEXT = Context(Namespace("team", {INJECT: "enabled"}), "privileged")
POLICY = load_policy()


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The policy's memory, empty at first: the results that were found in it."""
    found: list[object] = []
    POLICY.memo.clear()

    def get(memo: Memo, key: Any, get: Callable[[Memo, Any], Any] = Memo.get) -> Any:
        result = get(memo, key)
        if result is not None:
            found.append(result)
        return result

    monkeypatch.setattr(Memo, "get", get)
    return found


def bodies(sent: Load, count: int, size: int) -> Iterator[bytes]:
    """The next reviews, each of about that size."""
    for request in islice(sent.requests, count):
        head, _, body = request.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}\r\n".encode() in head
        assert size <= len(body) < size * 1.1
        yield body


def decided(body: bytes, *, filled: bool) -> None:
    """It is the creation of a pod that gets a shim, and a default if its memory was left out."""
    pod = decode_review(body).pod
    assert pod is not None
    decision = decide(pod, CONTEXT, POLICY)
    assert decision.reason is Reason.CHANGED
    assert (Reason.DEFAULT_FILLED in {finding.reason for finding in decision.warnings}) is filled
    assert any(operation["path"] == "/spec/volumes/-" for operation in decision.patch)


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("stream,different", [(one_pod, 1), (in_turn, TEMPLATES)])
def test_pods_that_come_again(
    size: int, stream: Callable[[int], Load], different: int, remembered: list[object]
) -> None:
    """There are as many as is reported; after one turn each is found in the memory."""
    sent = stream(size)
    first = list(bodies(sent, different, size))
    assert len(set(first)) == different
    assert list(bodies(sent, different, size)) == first
    for body in first:
        decided(body, filled=True)
    for body in first:
        remembered.clear()
        decided(body, filled=True)
        assert remembered


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_pods_never_seen(size: int, remembered: list[object]) -> None:
    """Nothing of a pod is found in the memory, though the templates before it are in there."""
    sent = never_seen(size)
    for body in bodies(sent, 64, size):
        remembered.clear()
        decided(body, filled=False)
        assert remembered == []


def test_what_differs_in_pods_never_seen() -> None:
    """Of 20,000 pods no two have a name, a label of their own, a variable or a share of a GPU in common."""
    names, labels, variables, shares = set(), set(), set(), set()
    for body in bodies(never_seen(SMALL), 20_000, SMALL):
        pod = json.loads(body)["request"]["object"]
        container = pod["spec"]["containers"][0]
        limits = container["resources"]["limits"]
        names.add(pod["metadata"]["generateName"])
        labels.add(pod["metadata"]["labels"]["app"])
        variables.add((container["env"][1]["name"], container["env"][1]["value"]))
        shares.add((limits["nvidia.com/gpumem"], limits["nvidia.com/gpucores"]))
    assert [len(each) for each in (names, labels, variables, shares)] == [20_000] * 4
