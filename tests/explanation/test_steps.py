"""What `explain` says of numbers is what the decision did: every step is one that was reported, with its numbers."""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest

from tests.decisions.test_any_to_any import CONTEXT, TARGET, VENDORS, policy_for
from tests.decisions.test_cases import CASES, context_in, policy_in
from tests.decisions.test_keys import CASES as KEY_CASES
from tests.decisions.test_keys import pod_of
from tests.depth import few_or_all, partners
from tests.yaml_text import load_yaml
from webhook.admission import Context, Decision, decide
from webhook.explanation.model import PodExplained, Rounding
from webhook.explanation.pods import explain_pod
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.quantity import bytes_text, parse_quantity

Json = dict[str, Any]


def assert_steps_are_the_decisions(pod: Json, context: Context, policy: Policy) -> int:
    """Every number that became another is in a warning of the same code about the same container; how many there are."""
    view = decode_pod(json.dumps(pod).encode())
    decision, explained = decide(view, context, policy), explain_pod(view, context, policy)
    steps = [(container.name, step) for container in explained.containers for step in container.rounded]
    for container, step in steps:
        messages = [
            finding.message
            for finding in decision.warnings
            if finding.reason.code == step.code and finding.container == container
        ]
        assert any(all(number in message for number in numbers(step)) for message in messages), (step, messages)
    assert_amounts_are_the_decisions(explained, decision)
    return len(steps)


def numbers(step: Rounding) -> list[str]:
    """The numbers of a step as messages spell them."""
    subject = step.what.removesuffix(" per device")
    return [subject, *("no limit" if text == "unlimited" else in_words(text) for text in (step.before, step.after))]


def in_words(amount: str) -> str:
    """``2048Mi`` as a message has it: 2 GiB."""
    if amount.endswith("Mi"):
        return bytes_text(parse_quantity(amount))
    return re.sub(r"%$", " %", amount)


def assert_amounts_are_the_decisions(explained: PodExplained, decision: Decision) -> None:
    """What was read, what the container will hold and what is written are what the status says."""
    for container in explained.containers:
        status = decision.status.get("containers", {}).get(container.name)
        if status is None:
            continue
        read = {each.dimension: each.amount for each in container.meaning}
        assert read == {dimension: str(amount) for dimension, amount in status["request"].items()}
        assert container.allocation is not None
        holds = {
            "devices": container.allocation.devices,
            "memory": container.allocation.memory,
            "cores": container.allocation.cores,
        }
        assert holds == status.get("allocation", status["request"])
        assert {key.key: key.value for key in container.written} == status.get("written", {})


FIRM = [folder for folder in sorted(CASES.iterdir()) if not {"warn", "audit"} & set(folder.name.split("-"))]
"""Cases of namespaces that enforce: elsewhere nothing is written, and `explain` shows what would be."""


@pytest.mark.parametrize("folder", FIRM, ids=lambda folder: folder.name)
def test_steps_of_a_case(folder: Any) -> None:
    """The cases of decisions."""
    pod = load_yaml((folder / "pod.yaml").read_text())
    assert_steps_are_the_decisions(pod, context_in(folder), policy_in(folder))


def words_of(vendor: str, most: int = sys.maxsize) -> Iterator[tuple[Json, Policy]]:
    """What the vendor's pages say, on order for so many targets."""
    for each in KEY_CASES:
        name, case = cast("tuple[str, Json]", each.values)
        if name != vendor:
            continue
        policy = policy_for(vendor, json.dumps({"extends": vendor, **case["with"]}) if "with" in case else "")
        for target in (None, vendor, *partners(vendor, VENDORS, most)):
            pod = pod_of(case)
            if target is not None:
                pod["metadata"]["annotations"] = {**pod["metadata"]["annotations"], TARGET: target}
            yield pod, policy


@few_or_all
@pytest.mark.parametrize("vendor", VENDORS)
def test_steps_of_keys(vendor: str, most: int) -> None:
    """The requests of every vendor's pages, to every target."""
    for pod, policy in words_of(vendor, most):
        assert_steps_are_the_decisions(pod, CONTEXT, policy)


def test_there_are_steps() -> None:
    """Enough of these requests are rounded for the tests above to show something."""
    assert sum(assert_steps_are_the_decisions(pod, CONTEXT, policy) for pod, policy in words_of("qgpu")) > 20


def test_only_what_became_another_number_is_a_step() -> None:
    """Three devices are not 300 % of cores, and what is left over of a total is taken by nobody."""
    side = {"tke.cloud.tencent.com/qgpu-core": "250", "tke.cloud.tencent.com/qgpu-memory": "17"}
    pod = pod_of({"limits": side, "annotations": {TARGET: "nvidia"}})
    explained = explain_pod(decode_pod(json.dumps(pod).encode()), CONTEXT, policy_for())
    assert [(step.what, step.before, step.after) for step in explained.containers[0].rounded] == [
        ("tke.cloud.tencent.com/qgpu-memory", "17 over 3 devices", "5 each"),
        ("tke.cloud.tencent.com/qgpu-core", "250 over 3 devices", "83 each"),
    ]
    assert_steps_are_the_decisions(pod, CONTEXT, policy_for())
