"""How much work a review is, in calls of functions: no clock is looked at, so a slower engine shows on any machine.

`calls_per_review.yaml` has the figures, of Python 3.11: all calls for the first and the next pod, and for the first those of
functions in Python. `count_calls` leaves out most of what other versions do differently;
what remains are calls of built-in functions that they no longer make.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
import yaml

from benchmarks.calls import count_calls
from benchmarks.decide import answer
from benchmarks.owners import DEPLOYMENT, INDEXED_JOB, JOB, STATEFUL_SET
from benchmarks.streams import AT_HOME, CPU_AND_MEMORY, GPU, LARGE, SMALL, TRANSLATED, Pair, sent_from
from benchmarks.trace import TraceRequest
from benchmarks.workloads import Template, small_template, template
from webhook import labels
from webhook.mapping.load import load_policy

pytestmark = pytest.mark.usefixtures("remembers_at_once")

FIGURES: Final = Path(__file__).with_name("calls_per_review.yaml")
TOLERANCE: Final = 0.02
"""Part of a figure by which another version of Python may differ: 3.12 and 3.13 differ by less than one percent."""

FEWEST: Final = 3
"""Calls that a small figure may differ by."""

POLICY: Final = load_policy()
SHARE: Final = TraceRequest(cpu=8000, memory=30517, gpus=1, share=470)
TO_NVIDIA: Final = {labels.TARGET: "nvidia"}

Pods = tuple[bytes, bytes]


def of_one_owner(pods: Template) -> Pods:
    """Two pods of one owner."""
    return pods.fill(7, 0, 70), pods.fill(7, 1, 71)


def of_two_owners(pods: Template) -> Pods:
    """Pods of two owners."""
    return pods.fill(7, 0, 70), pods.fill(8, 0, 80)


def different(pair: Pair, size: int = SMALL) -> Pods:
    """Pods of two owners with other amounts."""
    pods = sent_from(pair, size)
    return pods.fill(7, 0, 70, pair.share(2001)), pods.fill(8, 0, 80, pair.share(2002))


PODS: Final[Mapping[str, Pods]] = {
    "Deployment": of_one_owner(template(DEPLOYMENT, GPU, SMALL)),
    "Jobs, HAMi": of_two_owners(template(JOB, SHARE.hami, SMALL, same_variables=True)),
    "Jobs, Aliyun to nvidia": of_two_owners(
        template(JOB, SHARE.aliyun, SMALL, same_variables=True, annotations=TO_NVIDIA)
    ),
    "indexed Job": of_one_owner(template(INDEXED_JOB, GPU, SMALL, same_variables=True)),
    "StatefulSet": of_one_owner(template(STATEFUL_SET, GPU, SMALL, same_variables=True)),
    "all different": different(AT_HOME),
    **{f"all different, {pair.source} to {pair.target}": different(pair) for pair in TRANSLATED},
    "all different, 64 KB": different(AT_HOME, LARGE),
    "no GPU name": of_two_owners(template(DEPLOYMENT, CPU_AND_MEMORY, SMALL)),
    "ordinary CPU pods": of_two_owners(small_template(DEPLOYMENT)),
    "denied": of_two_owners(template(JOB, {**GPU, "nvidia.com/gpucores": "0.3"}, SMALL, same_variables=True)),
}
"""The first pod is decided with nothing remembered, the next one after it."""


def counted(pods: Pods) -> dict[str, int]:
    """The calls that each of the two takes, once everything that is made once has been made."""
    first, following = pods
    for body in pods:
        answer(body, POLICY)
    POLICY.memo.clear()
    calls = {
        "first": count_calls(lambda: answer(first, POLICY)),
        "next": count_calls(lambda: answer(following, POLICY)),
    }
    POLICY.memo.clear()
    return {**calls, "of Python": count_calls(lambda: answer(first, POLICY), built_in=False)}


@pytest.fixture(scope="module")
def figures(*, update_golden: bool) -> dict[str, dict[str, int]]:
    """The recorded figures."""
    if update_golden:
        calls = {name: counted(pods) for name, pods in PODS.items()}
        head = "# Calls per review; written by: pytest tests/decisions/test_calls_per_review.py --update-golden\n"
        FIGURES.write_text(head + yaml.safe_dump(calls, default_flow_style=None, sort_keys=False), encoding="utf-8")
    recorded: dict[str, dict[str, int]] = yaml.safe_load(FIGURES.read_text(encoding="utf-8"))
    return recorded


@pytest.mark.parametrize("name", PODS)
def test_calls_per_review(name: str, figures: dict[str, dict[str, int]]) -> None:
    """A review takes as many calls as is recorded, neither more nor (or the record is of no use) fewer."""
    for which, calls in counted(PODS[name]).items():
        recorded = figures[name][which]
        assert abs(calls - recorded) <= max(FEWEST, TOLERANCE * recorded), (
            f"{name}, {which} pod: {calls} calls, {recorded} recorded. If that is meant, record it with "
            "`pytest tests/decisions/test_calls_per_review.py --update-golden` and look at the difference"
        )


def test_figures_are_of_the_pods(figures: dict[str, dict[str, int]]) -> None:
    """No figure is left over, and none is missing."""
    assert list(figures) == list(PODS)
