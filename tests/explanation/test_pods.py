"""What `explain` says of a pod is what the decision did: its rows are made of the trace of the same steps."""

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.decided import CONTEXT, POLICY, decided, pod_with, view
from tests.decisions.any_to_any import SOURCES, TARGET, VENDORS, policy_for
from tests.decisions.test_cases import CASES, FOLDERS, context_in, decided_in, pod_in, policy_in
from tests.decisions.test_keys import CASES as KEY_CASES
from tests.decisions.test_keys import pod_of
from tests.depth import few_or_all, in_turn, one_in, partners
from tests.naming import each_of, naming
from tests.yaml_text import hold, load_yaml
from webhook.admission import Context, Decision, decide
from webhook.explanation.pods import Explained, explain_pod, finding_data, trace
from webhook.labels import MODE
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.reasons import Step
from webhook.request import bytes_text, parse_quantity

Json = dict[str, Any]


@cache
def explained_case(folder: Path) -> Explained:
    """A case, explained."""
    pod = view(load_yaml((folder / "pod.yaml").read_text()))
    return explain_pod(pod, context_in(folder), policy_in(folder))


def lefts(container: Explained, label: str) -> list[str]:
    """The left texts of the rows of a label."""
    return [left for left, _ in container["rows"].get(label, ())]


def assert_rows_are_the_decisions(pod: Json, context: Context, policy: Policy) -> int:
    """Findings are the decision's, rows say what the status says; returns how many numbers became others, as warnings say."""
    decision, explained = decided(pod, policy, context), explain_pod(view(pod), context, policy)
    assert (explained["allowed"], explained["code"]) == (decision.allowed, decision.reason.code)
    assert decision.denial is None or finding_data(decision.denial) == explained["denial"]
    if explained["denial"] is None and explained["mode"] != "audit":
        findings = dict.fromkeys(each for each in (*decision.warnings, *decision.notes) if not each.expected)
        messages = [finding.message.removeprefix("under enforce: ") for finding in findings]
        assert [finding["message"] for finding in explained["findings"]] == messages
    entries = explained["status"].get("containers", {})
    assert entries.keys() <= {container["name"] for container in explained["containers"]}
    steps = 0
    for container in explained["containers"]:
        assert "stays unchanged: None" not in lefts(container, "means")
        if container["name"] in entries:
            assert_container_is_as_reported(container, entries[container["name"]])
        steps += assert_roundings_are_reported(container, decision)
    return steps


def assert_container_is_as_reported(container: Explained, entry: Json) -> None:
    """Keys, amounts, defaults, target, written keys and shim are those of the status."""
    rows = container["rows"]
    keys, written = ([re.sub("^(label|annotation|nodeSelector) ", "", text) for text in lefts(container, label)]
                     for label in ("keys", "written"))  # fmt: skip
    assert keys == [f"{key}: {value}" for key, value in entry["keys"].items()]
    assert written == ([f"{key}: {value}" for key, value in entry.get("written", {}).items()] or ["nothing"])
    means = dict(zip(("devices", "memory", "cores"), rows["means"], strict=False))
    assert {dimension: left for dimension, (left, _) in means.items()} == {
        dimension: in_rows(dimension, amount) for dimension, amount in entry["request"].items()
    }
    filled = {
        dimension
        for dimension, (_, why) in means.items()
        if why.startswith(("filled in: ", "a count alone is whole devices here"))
    }
    assert filled == entry.get("defaults", {}).keys()
    assert ("gets" in rows) == ("allocation" in entry)
    if "allocation" in entry:
        allocation = entry["allocation"]
        assert rows["gets"][0][0].startswith(in_rows("devices", allocation["devices"]))
        whole = rows["gets"][0][0].endswith(", whole")
        amounts = [in_rows(name, allocation[name]).removesuffix(" per device") for name in ("memory", "cores")]
        assert whole or all(amount in rows["gets"][0][0] for amount in amounts)
    assert lefts(container, "target") == ([entry["target"]] if "target" in entry else [])
    if "shim" in entry:
        assert rows["shim"][0][0].startswith(f"{entry['shim']}: ")


def in_rows(dimension: str, amount: Any) -> str:
    """An amount of the status, as rows have it."""
    if dimension == "devices":
        return "1 device" if amount == 1 else f"{amount} devices"
    if amount == "unlimited":
        return f"no limit of {dimension}"
    spaced = f"{amount.removesuffix('Mi')} MiB" if amount.endswith("Mi") else amount.replace("%", " %")
    return f"{'all ' if amount == '100%' else f'{spaced} of '}{dimension} per device"


def assert_roundings_are_reported(container: Explained, decision: Decision) -> int:
    """Every number that became another is in a warning of the same code about the same container; how many there are."""
    rows = container["rows"].get("rounded", ())
    steps = [
        (finding, finding.step)
        for finding in decision.warnings
        if finding.container == container["name"] and finding.step is not None
    ]
    for finding, step in steps:
        assert all(number in finding.message for number in numbers(step)), finding
    if decision.patch_json:
        known = [(step.what, finding.reason.code) for finding, step in steps]
        assert [(left.partition(": ")[0], code) for left, code in rows] == known
    return len(rows)


def numbers(step: Step) -> list[str]:
    """The numbers of a step as messages spell them."""
    subject = step.what.removesuffix(" per device")
    return [subject, *("no limit" if text == "unlimited" else in_words(text) for text in (step.before, step.after))]


def in_words(amount: str) -> str:
    """``2048Mi`` as a message has it: 2 GiB."""
    if amount.endswith("Mi"):
        return bytes_text(parse_quantity(amount))
    return re.sub(r"%$", " %", amount)


@each_of("folder", FOLDERS)
def test_rows_of_a_case(folder: Path) -> None:
    """The cases of decisions: in `warn` and `audit`, what would be written."""
    pod = load_yaml((folder / "pod.yaml").read_text())
    assert_rows_are_the_decisions(pod, context_in(folder), policy_in(folder))


def words_of(vendor: str, most: int = sys.maxsize) -> Iterator[tuple[Json, Policy]]:
    """What the vendor's pages say, on order for so many targets."""
    for case in KEY_CASES[vendor]:
        policy = policy_for(vendor, json.dumps({"extends": vendor, **case["with"]}) if "with" in case else "")
        for target in (None, vendor, *partners(vendor, VENDORS, most)):
            pod = pod_of(case)
            if target is not None:
                pod["metadata"]["annotations"][TARGET] = target
            yield pod, policy


@few_or_all
@pytest.mark.parametrize("vendor", one_in(4, SOURCES))
def test_steps_of_keys(vendor: str, most: int) -> None:
    """The requests of every vendor's pages, to every target."""
    for pod, policy in words_of(vendor, most):
        assert_rows_are_the_decisions(pod, CONTEXT, policy)


def test_there_are_steps() -> None:
    """Enough of these requests are rounded for the tests above to show something."""
    assert sum(assert_rows_are_the_decisions(pod, CONTEXT, policy) for pod, policy in words_of("qgpu")) > 20


def test_only_what_became_another_number_is_a_step() -> None:
    """Three devices are not 300 % of cores, and what is left over of a total is taken by nobody."""
    side = {"tke.cloud.tencent.com/qgpu-core": "250", "tke.cloud.tencent.com/qgpu-memory": "17"}
    pod = pod_of({"limits": side, "annotations": {TARGET: "nvidia"}})
    explained = explain_pod(view(pod), CONTEXT, policy_for())
    assert lefts(explained["containers"][0], "rounded") == [
        "tke.cloud.tencent.com/qgpu-memory: 17 over 3 devices became 5 each",
        "tke.cloud.tencent.com/qgpu-core: 250 over 3 devices became 83 each",
    ]
    assert_rows_are_the_decisions(pod, CONTEXT, policy_for())


def test_corrections_are_not_refused() -> None:
    """Whatever is shown to be written instead, is created when it is written so."""
    corrected = 0
    for folder in FOLDERS:
        correction = explained_case(folder)["correction"]
        if correction is None or correction["remove"]:
            continue
        manifest = load_yaml((folder / "pod.yaml").read_text())
        merge(manifest, correction["manifest"])
        decision = decided_in(folder, manifest)
        assert decision.denial is None, folder.name
        corrected += 1
    assert corrected > 5


def merge(manifest: Any, part: Any) -> None:
    """Puts a part of a manifest over it, containers by their names."""
    for key, value in part.items():
        if isinstance(value, list):
            named = {each["name"]: each for each in manifest[key]}
            for each in value:
                merge(named[each["name"]], each)
        elif isinstance(value, dict):
            merge(manifest.setdefault(key, {}), value)
        else:
            manifest[key] = value


def correction_of(row: Json) -> str:
    """The numbers that are to be written instead, alike in all containers and sides, or with which code nothing is offered."""
    if "case" in row:
        explained = explained_case(CASES / row["case"])
    else:
        resources = {"limits": row["limits"], "requests": row.get("requests", row["limits"])}
        alike = [{"name": f"c{number}", "resources": resources} for number in range(row.get("containers", 1))]
        explained = explain_pod(view(pod_with(*alike)), CONTEXT, POLICY)
    if explained["correction"] is None:
        return f"nothing for {explained['denial']['code']}"
    containers = explained["correction"]["manifest"]["spec"]["containers"]
    return "\n".join(sorted({json.dumps(side) for each in containers for side in each["resources"].values()}))


def test_corrections(*, update_golden: bool) -> None:
    """Each is the one of the table."""
    hold(Path(__file__).with_name("corrections.yaml"), "pods", correction_of, update=update_golden)


MODES = ("enforce", "warn", "audit", "enfroce")


@few_or_all
def test_trace_has_the_decision(most: int) -> None:
    """The trace holds what `decide` returns, and what it would return if the namespace enforced."""
    for at, folder in enumerate(FOLDERS[:: 8 if most == 1 else 1]):
        for mode in in_turn(MODES, at, most):
            with naming(f"{folder.name} in mode {mode}"):
                assert_traced(folder, mode)


def assert_traced(folder: Path, mode: str) -> None:
    """The trace of a case in a mode has its decision."""
    pod, context, policy = decode_pod(pod_in(folder)), context_in(folder), policy_in(folder)
    labels = {key: value for key, value in context.namespace.labels.items() if key != MODE}
    enforcing = structs.replace(context, namespace=structs.replace(context.namespace, labels=labels))
    moded = structs.replace(context, namespace=structs.replace(context.namespace, labels={**labels, MODE: mode}))
    policy.memo.clear()
    traced = trace(pod, moded, policy)
    assert traced.decision == decide(pod, moded, policy)
    assert traced.enforced.denial == decide(pod, enforcing, policy).denial
    resolution = traced.steps.resolution
    if resolution is not None:
        shown = [container.settled for container in traced.containers or () if container.settled is not None]
        assert shown == list(resolution.settled)
