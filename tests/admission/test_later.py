"""What is said of pods that others change after the webhook has, to the letter: a table for each who looks at them.

A pod is that of a `case` of `tests/cases`, or given in short, as in `told/`; it is stored as it was decided, unless it is
`foreign`. Then it was changed `before`, which nobody has to judge, and by the `change` that somebody has to: `again` decides
anew, `judge` looks before it is stored, `update` at the change alone, `ephemeral` at the containers that are `added`.
`then` is what the namespace, its `user` or the `settings` are by now.

``--update-golden`` writes `told` anew.
"""

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.admission.test_told import context_of, line, pod_of, policy_in, policy_of
from tests.decided import decided, view
from tests.decisions import test_cases as cases
from tests.strict_patch import apply_strictly
from tests.yaml_text import hold, load_yaml, put
from webhook.admission import Context, Decision, decide
from webhook.admission.judge import judge_ephemeral, judge_pod, judge_update
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod, decode_pod

FILES = sorted(Path(__file__).with_name("later").iterdir())
Json = dict[str, Any]
Look = Callable[[Pod, Pod, Json, Context, Policy], Decision]


def ephemeral(_: Pod, pod: Pod, case: Json, context: Context, policy: Policy) -> Decision:
    """The judgement of containers that are added to a pod."""
    later = decode_pod(json.dumps({"spec": {"ephemeralContainers": case["added"]}}).encode())
    return judge_ephemeral(pod, later, context, policy)


LOOKS: Mapping[str, Look] = {
    "again": lambda _, pod, __, context, policy: decide(pod, context, policy),
    "judge": lambda _, pod, __, context, policy: judge_pod(pod, context, policy),
    "update": lambda before, pod, _, context, policy: judge_update(before, pod, context, policy),
    "ephemeral": ephemeral,
}


def told_of(case: Json) -> str:
    """What comes of it: the denial, or that it is allowed, or how it is decided again; then warnings."""
    pod, context, policy = pod_of(case), context_of(case), policy_in(case)
    if "case" in case:
        folder = cases.CASES / case["case"]
        pod, context, policy = json.loads(cases.pod_in(folder)), cases.context_in(folder), cases.policy_in(folder)
    if not case.get("foreign"):
        pod = apply_strictly(pod, decided(pod, policy, context).patch)
    for path, value in case.get("before", {}).items():
        put(pod, path, value)
    before = copy.deepcopy(pod)
    for path, value in case.get("change", {}).items():
        put(pod, path, value)
    if "then" in case:
        later = context_of(case["then"])
        policy = policy_of("", case["then"]["settings"], "") if "settings" in case["then"] else policy
        context = Context(later.namespace, later.pod_security_default, case["then"].get("user", ""))
    found = LOOKS[case["look"]](view(before), view(pod), case, context, policy)
    told = [line("warning", each) for each in found.warnings]
    if found.denial is not None and not found.allowed:
        return "\n".join([line("denied", found.denial), *told])
    return "\n".join([found.reason.code if case["look"] == "again" else "allowed", *told])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_told(file: Path, *, update_golden: bool) -> None:
    """Each pod has what its line says."""
    hold(file, "pods", told_of, update=update_golden)


def test_a_share_before_its_library() -> None:
    """An init container that another webhook puts first would start without the library."""
    folder = cases.CASES / "shim-init-container"
    pod = load_yaml((folder / "expected.yaml").read_text())
    containers = pod["spec"]["initContainers"]
    containers.append(containers.pop(0))
    denial = cases.decided_in(folder, pod).denial
    message = "container metrics: it needs the library that the init container vgpu-shim brings: put it after that one"
    assert denial is not None
    assert line("denied", denial) == f"denied VGW604: {message} [initContainers]"
