"""What is remembered is counted as it is: the memory of a replica depends on it."""

import gc
import json
import tracemalloc
from collections.abc import Iterator, Mapping
from itertools import count, islice, pairwise
from typing import Any, Final

import pytest

from benchmarks.decide import answer
from benchmarks.owners import DEPLOYMENT
from benchmarks.streams import AT_HOME, GPU, SMALL, TRANSLATED, never_seen
from benchmarks.workloads import template
from webhook import labels
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import MAX_BYTES

pytestmark = pytest.mark.usefixtures("remembers_at_once")

POLICY: Final = load_policy()
LEAST: Final = 0.95
MOST: Final = 1.15
"""What may be counted, in parts of what is held: texts that decisions share are counted for each."""

MOST_OF_CONSTANTS: Final = 1.3
"""The same where most texts are constants of the program, which are counted, too."""

HELD: Final = 256 * 1024
"""Bytes that are compared: beside them it does not count what a first review makes once."""


def changed(change: Any) -> Iterator[bytes]:
    """Reviews of a GPU pod; `change` gives each container of the pod by its number."""
    whole = json.loads(template(DEPLOYMENT, GPU, 100, annotations={labels.TARGET: "nvidia"}).fill(7, 0, 70))
    for number in count():
        whole["request"]["object"]["spec"]["containers"] = change(number)
        yield json.dumps(whole).encode()


def many_containers(number: int) -> list[dict[str, Any]]:
    """Each is reported."""
    limits = {"iluvatar.ai/vgpu": "1", "iluvatar.ai/vcuda-core": "50", "iluvatar.ai/vcuda-memory": str(64 + number)}
    return [{"name": f"{each}-{'x' * 60}", "resources": {"limits": limits}} for each in range(32)]


def share(number: int, name: str = "a", **more: Any) -> dict[str, Any]:
    """A container with a share like no other."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(1000 + number)}
    return {"name": name, "resources": {"limits": limits}, **more}


LONG: Final = [{"name": "A", "value": "x" * 3900}]
"""As long as they are kept."""

SENT: Final[Mapping[str, Iterator[bytes]]] = {
    "at home": never_seen(AT_HOME),
    **{f"{pair.source} to {pair.target}": never_seen(pair) for pair in TRANSLATED},
    "64 KB": never_seen(AT_HOME, 10 * SMALL, 4_000_000),
    "many containers": changed(many_containers),
    "long variables": changed(lambda number: [share(number, name, env=LONG) for name in "01"]),
    # Names are not validated before admission, and texts with such characters take several bytes for each.
    "names beyond ASCII": changed(lambda number: [share(number, "训" * 63)]),
    # A denial has findings instead of a patch.
    "denied": changed(lambda number: [share(number, securityContext={"privileged": True})]),
}
ALIKE: Final = [f"{pair.source} to {pair.target}" for pair in TRANSLATED[1:]]
"""Pods of which the same parts are remembered as of the first pair's."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in ALIKE else []) for name in SENT]
)
def test_counted_as_held(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With key, patch, texts and the encoded response, whatever is remembered; lists of variables are stored elsewhere."""
    monkeypatch.setattr("webhook.mapping.model.policy.MAX_LIST", 0)
    bodies = SENT[name]
    for body in islice(bodies, 5):
        answer(body, POLICY)
    POLICY.memo.clear()
    gc.collect()
    gc.freeze()  # of what other tests have left, the next collection would take half a second
    tracemalloc.start(1)
    try:
        before, _ = tracemalloc.get_traced_memory()
        while POLICY.memo.size < HELD:
            entries = len(POLICY.memo)
            answer(next(bodies), POLICY)
            assert len(POLICY.memo) == entries + 1
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    most = MOST_OF_CONSTANTS if name == "denied" else MOST
    assert LEAST * held < POLICY.memo.size < most * held, (POLICY.memo.size, held, len(POLICY.memo))


def test_never_over_the_bound() -> None:
    """However many pods are sent, what is held stays below the bound, and is not dropped long before it."""
    POLICY.memo.clear()
    sizes = []
    for body in islice(SENT["at home"], 1200):
        answer(body, POLICY)
        sizes.append(POLICY.memo.size)
    assert 0.98 * MAX_BYTES < max(sizes) <= MAX_BYTES
    assert sum(after < before for before, after in pairwise(sizes)) >= 2
