"""Templates in which something is still to be filled in."""

import json
from typing import Any

import pytest

from webhook.admission import Context, Namespace, decide
from webhook.admission.judge import judge_templates
from webhook.admission.placeholders import MOST, decide_template
from webhook.mapping.load import load_policy
from webhook.pod import Pod, decode_pod
from webhook.reasons import Reason

POLICY = load_policy()
SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}


def context(**labels: str) -> Context:
    """A namespace that has opted in, with further labels of the webhook."""
    own = {f"vgpu-webhook.io/{key}": value for key, value in {"inject": "enabled", **labels}.items()}
    return Context(Namespace("team", own), "privileged")


def template(*limits: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> Pod:
    """The pod of a template with containers `c0`, `c1` and so on."""
    containers = [{"name": f"c{i}", "image": "i", "resources": {"limits": each}} for i, each in enumerate(limits)]
    made = {"metadata": {"annotations": annotations}, "spec": {**spec, "containers": containers}}
    return decode_pod(json.dumps(made).encode())


@pytest.mark.parametrize(
    "text", ["{{inputs.parameters.gpus}}", "{{ n }}", "$GPUS", "${GPUS}", "${GPUS:-1}", "$(params.gpus)", "$$GPUS"]
)
@pytest.mark.parametrize(
    "name", ["nvidia.com/gpu", "aliyun.com/gpu-mem", "huawei.com/Ascend910B", "nvidia.com/mig-1g.5gb"]
)
def test_an_amount_is_open(name: str, text: str) -> None:
    """Of a template, whichever key it is; a pod with it is denied."""
    pod = template({name: text})
    decision = decide_template(pod, context(), POLICY)
    message = f"VGW119: container c0: {name} has the placeholder {text}: the pods are judged when they are created"
    assert [each.text for each in decision.warnings] == [message]
    assert (decision.allowed, decision.patch) == (True, ())
    assert [each.text for each in judge_templates([("", pod)], context(), POLICY).warnings] == [message]
    assert decide(pod, context(), POLICY).reason is Reason.BAD_QUANTITY


@pytest.mark.parametrize("text", ["two", "3 GPUs", "{}", "$", "$1", "<gpus>"])
def test_other_texts_are_wrong(text: str) -> None:
    """Nobody fills them in."""
    assert decide_template(template({"nvidia.com/gpu": text}), context(), POLICY).reason is Reason.BAD_QUANTITY


@pytest.mark.parametrize(
    "made, field",
    [
        (template({}, annotations={"gpu-fraction": "${F}"}), "annotation gpu-fraction"),
        (template(SHARE, annotations={"vgpu-webhook.io/target": "{{t}}"}), "annotation vgpu-webhook.io/target"),
        (template(SHARE, schedulerName="$S"), "spec.schedulerName"),
        (template(SHARE, nodeName="{{n}}"), "spec.nodeName"),
        (template({"nvidia.com/{{name}}": "1"}), "limits[nvidia.com/{{name}}]"),
    ],
)
def test_whatever_decides_may_be_open(made: Pod, field: str) -> None:
    """Annotations, names, the scheduler and the node."""
    decision = decide_template(made, context(), POLICY)
    assert decision.allowed
    assert [(each.reason, each.field) for each in decision.warnings] == [(Reason.PLACEHOLDER, field)]


def test_what_does_not_decide_is_no_matter() -> None:
    """Annotations of others, other resources, and a scheduler of a pod without devices."""
    quiet = template({"cpu": "$CPU"}, annotations={"example.com/a": "{{a}}"}, schedulerName="$S")
    assert decide_template(quiet, context(), POLICY) == decide(quiet, context(), POLICY)
    other = template({**SHARE, "memory": "${M}"}, annotations={"example.com/a": "{{a}}"})
    assert decide_template(other, context(), POLICY).patch == decide(other, context(), POLICY).patch != ()


def test_the_rest_is_judged() -> None:
    """A misspelled name beside it, and a container without a placeholder, unless an annotation is open."""
    misspelled = template({"nvidia.com/gpu": "$N", "nvidia.com/gpumen": "3000"})
    assert decide_template(misspelled, context(), POLICY).reason is Reason.NEAR_MISS
    beside = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "150"}
    decision = decide_template(template({"nvidia.com/gpu": "$N"}, beside), context(), POLICY)
    assert decision.denial is not None
    assert (decision.denial.reason, decision.denial.container) == (Reason.TOO_LARGE, "c1")
    assert [each.reason for each in decision.warnings] == [Reason.PLACEHOLDER]
    assert decide_template(template({"nvidia.com/gpu": "$N"}, SHARE), context(), POLICY).allowed
    # What names containers, or counts for all of them, is no mistake because a container was taken out.
    target = {"vgpu-webhook.io/target": "$T"}
    assert decide_template(template(beside, annotations=target), context(), POLICY).allowed


def test_where_nothing_is_enforced() -> None:
    """As for pods: nothing in `audit`, nor where the namespace has not opted in."""
    pod = template({"nvidia.com/gpu": "$N"})
    assert [each.reason for each in decide_template(pod, context(mode="warn"), POLICY).warnings] == [Reason.PLACEHOLDER]
    assert decide_template(pod, context(mode="audit"), POLICY).warnings == ()
    assert decide_template(pod, Context(Namespace("other")), POLICY).reason is Reason.NOT_OPTED_IN


def test_only_some_are_listed() -> None:
    """A warning for each of a few."""
    pod = template(*[{"nvidia.com/gpu": "$N"}] * (MOST + 1))
    assert len(decide_template(pod, context(), POLICY).warnings) == MOST
