"""Whether the API server keeps the capacities of claims, and which claims of namespaces no device allows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.doctor.scene import HEALTHY, REFUSED, but, device_class, outcome, result_of, space
from tests.doctor.test_devices import device, slice_of
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Namespace, decide
from webhook.doctor.drivers import claiming, trial_manifest, trial_template
from webhook.doctor.facts import ClusterFacts, Item, TemplateDryRun
from webhook.doctor.result import Level
from webhook.labels import CLAIM, TARGET
from webhook.mapping.load import load_policy
from webhook.pod import Pod, decode_pod
from webhook.request import ClaimTemplate

DRIVER = "hami-core-gpu.project-hami.io"
POLICY = outcome(settings="target: dra-hami").policy
TEAM = space("team")


def pod(name: str, gibibytes: int, **annotations: str) -> dict[str, Any]:
    """A pod with so much memory of one device."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(gibibytes * 1024)}
    container = {"name": "main", "image": "app", "resources": {"limits": limits}}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": [container]}}


def read(body: Mapping[str, Any]) -> Pod:
    """A pod as the doctor has it."""
    return decode_pod(msgspec.json.encode(body))


def template_of(body: Mapping[str, Any]) -> ClaimTemplate:
    """The template that a pod gets."""
    [template] = decide(read(body), Context(TEAM), POLICY).objects
    return template


def stored(template: ClaimTemplate, namespace: str = "team") -> Item:
    """The same as the API server has it."""
    return msgspec.convert(template.manifest(namespace, {CLAIM: "true"}), Item)


def claimed(body: Mapping[str, Any]) -> Pod:
    """A pod as the webhook has left it."""
    decision = decide(read(body), Context(TEAM), POLICY)
    return read(apply_strictly(body, msgspec.json.decode(decision.patch_json)))


def facts(pods: Sequence[Pod] = (), templates: Sequence[Item] = (), **changes: Any) -> ClusterFacts:
    """A cluster whose driver has a device of 16 GiB."""
    return but(
        outcome=outcome(settings="target: dra-hami"),
        device_classes=[device_class(DRIVER)],
        resource_slices=[slice_of(device("16Gi"), driver=DRIVER)],
        pods={"team": pods},
        templates=templates,
        **changes,
    )


def lines(seen: ClusterFacts) -> list[str]:
    """What would stay Pending."""
    result = result_of(seen, "devices")
    assert (result.level is Level.WARNING) is bool(result.details)
    return list(result.details)


TOO_MUCH = f"cores 0, memory 20Gi: no device of {DRIVER} gives that; the most is cores 100, memory 16Gi"


def test_pods_with_claims_before_them_and_templates() -> None:
    """Of each template its pods: those that name it, and those that would, created again; none is enough."""
    small, large = pod("small", 4), pod("large", 20)
    name = template_of(large).name
    fine = facts([claimed(small), read(small)], [stored(template_of(small))])
    assert lines(fine) == []
    assert "(1 kind of claims)" in result_of(fine, "devices").message
    pending = f"team: {{}} of {name}: {TOO_MUCH}"
    assert lines(facts([claimed(large)])) == [pending.format("1 pod")]
    assert lines(facts([claimed(large), claimed(large), read(large)])) == [pending.format("3 pods")]
    assert lines(facts([], [stored(template_of(large))])) == [pending.format("0 pods")]
    assert lines(facts([], [stored(template_of(large), "elsewhere")])) == []


def test_what_a_pod_selects() -> None:
    """By the annotations of its source."""
    t4 = pod("t4", 4, **{"nvidia.com/use-gputype": "T4"})
    a100 = pod("a100", 4, **{"nvidia.com/use-gputype": "A100"})
    [line] = lines(facts([claimed(t4), claimed(a100)]))
    assert line.endswith(f"no such device of {DRIVER} has a productName as selected: a100")


def test_a_template_of_an_earlier_mapping_is_left_alone() -> None:
    """What it needs is not known."""
    other = template_of(pod("large", 20)).spec
    other["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "gone"
    assert lines(facts([], [stored(ClaimTemplate.of(other))])) == []


@pytest.mark.parametrize("changes", [{"device_classes": REFUSED}, {"resource_slices": REFUSED}, {"templates": REFUSED}])
def test_without_a_right(changes: dict[str, Any]) -> None:
    """It is a question, and no error."""
    result = result_of(replace(facts(), **changes), "devices")
    assert (result.level, "could not be read" in result.message) == (Level.WARNING, True)


def test_claims_of_some() -> None:
    """A target is also what the annotation of a namespace or of a pod names."""
    assert [vendor.name for vendor in claiming(HEALTHY)] == []
    team = Namespace("team", space("team").labels, {TARGET: "dra-hami"})
    assert [vendor.name for vendor in claiming(but(namespaces=[team]))] == ["dra-hami"]
    annotated = read(pod("one", 4, **{TARGET: "dra-nvidia"}))
    assert [vendor.name for vendor in claiming(but(pods={"team": [annotated]}))] == ["dra-nvidia"]
    assert claiming(but(namespaces=[replace_target(team, "unknown")])) == []


def replace_target(namespace: Namespace, name: str) -> Namespace:
    """The same namespace with another target."""
    return Namespace(namespace.name, namespace.labels, {TARGET: name})


def trial(status: int = 201, message: str = "", *, drop: str = "") -> ClusterFacts:
    """A cluster that has answered the dry run, without a field of the request."""
    chosen = trial_template([POLICY.vendors["dra-hami"]])
    assert chosen is not None
    vendor, sent = chosen
    spec = trial_manifest(sent)["spec"]
    spec["spec"]["devices"]["requests"][0]["exactly"].pop(drop, None)
    done = TemplateDryRun(vendor, sent, spec if status == 201 else None, status, message)
    return replace(facts(), template_dry_run=done)


@pytest.mark.parametrize(
    "seen, level, message",
    [
        (trial(), Level.OK, "keeps the capacities of dra-hami's resource claims"),
        (trial(drop="capacity"), Level.ERROR, "a share would be a whole device"),
        (trial(422, "constraints[0].matchAttribute: Required value"), Level.ERROR, "refuses what resource claims need"),
        (trial(403, "u cannot create resourceclaimtemplates"), Level.WARNING, "no resource claim could be tried"),
        (trial(404, "namespaces gpu not found"), Level.WARNING, "no resource claim could be tried"),
        (replace(facts(), template_dry_run=REFUSED), Level.WARNING, "could not be read"),
        (HEALTHY, Level.OK, "writes no resource claims"),
    ],
)
def test_the_gate(seen: ClusterFacts, level: Level, message: str) -> None:
    """What comes back is what was sent, or a share would be something else; no right is no error."""
    result = result_of(seen, "feature-gate")
    assert (result.level, message in result.message) == (level, True), result
    if level is Level.WARNING:
        assert "create resourceclaimtemplates in gpu" in result.hint


def test_what_is_tried() -> None:
    """The smallest request of the first vendor with capacities, with its constraint; under no name that pods have."""
    vendors = load_policy().vendors
    assert trial_template([vendors["dra-nvidia-mig"]]) is None
    chosen = trial_template([vendors["dra-nvidia-mig"], vendors["dra-nvidia"]])
    assert chosen is not None
    manifest = trial_manifest(chosen[1])
    assert manifest["metadata"] == {"generateName": "vgpu-webhook-check-"}
    devices = manifest["spec"]["spec"]["devices"]
    assert devices["requests"][0]["exactly"]["capacity"] == {"requests": {"memory": "1Mi"}}
    assert devices["constraints"][0]["distinctAttribute"] == "gpu.nvidia.com/uuid"


def test_selectors_of_another_kind() -> None:
    """What a later API server adds is no expression, and no reason to end."""
    classes = [msgspec.convert({"metadata": {"name": DRIVER}, "spec": {"selectors": [{}, {"cel": None}]}}, Item)]
    seen = replace(facts([claimed(pod("a", 4))], [stored(template_of(pod("a", 4)))]), device_classes=classes)
    assert result_of(seen, "devices").level is not Level.ERROR
