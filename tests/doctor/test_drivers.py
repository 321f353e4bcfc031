"""Which targets write claims, and whether the API server keeps their capacities."""

import msgspec
import pytest

from tests.doctor.scene import HEALTHY, REFUSED, but, outcome, result_of, space
from webhook.admission import Namespace
from webhook.doctor.drivers import claiming, trial_manifest, trial_template
from webhook.doctor.facts import ClusterFacts, TemplateDryRun
from webhook.doctor.result import Level
from webhook.labels import TARGET
from webhook.mapping.load import load_policy
from webhook.pod import decode_pod

DRA_HAMI = outcome(settings="target: dra-hami")


def test_claims_of_some() -> None:
    """A target is also what the annotation of a namespace or of a pod names."""
    assert [vendor.name for vendor in claiming(HEALTHY)] == []
    team = Namespace("team", space("team").labels, {TARGET: "dra-hami"})
    assert [vendor.name for vendor in claiming(but(namespaces=[team]))] == ["dra-hami"]
    annotated = decode_pod(
        msgspec.json.encode({"metadata": {"annotations": {TARGET: "dra-nvidia"}}, "spec": {"containers": []}})
    )
    assert [vendor.name for vendor in claiming(but(pods={"team": [annotated]}))] == ["dra-nvidia"]
    assert claiming(but(namespaces=[replace_target(team, "unknown")])) == []


def replace_target(namespace: Namespace, name: str) -> Namespace:
    """The same namespace with another target."""
    return Namespace(namespace.name, namespace.labels, {TARGET: name})


def trial(status: int = 201, message: str = "", *, drop: str = "") -> ClusterFacts:
    """A cluster that has answered the dry run, without a field of the request."""
    chosen = trial_template([DRA_HAMI.policy.vendors["dra-hami"]])
    assert chosen is not None
    vendor, sent = chosen
    spec = trial_manifest(sent)["spec"]
    spec["spec"]["devices"]["requests"][0]["exactly"].pop(drop, None)
    done = TemplateDryRun(vendor, sent, spec if status == 201 else None, status, message)
    return but(outcome=DRA_HAMI, template_dry_run=done)


@pytest.mark.parametrize(
    "seen, level, message",
    [
        (trial(), Level.OK, "keeps the capacities of dra-hami's resource claims"),
        (trial(drop="capacity"), Level.ERROR, "a share would be a whole device"),
        (trial(422, "constraints[0].matchAttribute: Required value"), Level.ERROR, "refuses what resource claims need"),
        (trial(403, "u cannot create resourceclaimtemplates"), Level.WARNING, "no resource claim could be tried"),
        (trial(404, "namespaces gpu not found"), Level.WARNING, "no resource claim could be tried"),
        (but(outcome=DRA_HAMI, template_dry_run=REFUSED), Level.WARNING, "could not be read"),
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
