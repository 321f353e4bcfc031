"""Resource claims on a real API server, which validates and stores them: those without keys, and those we write."""

from typing import Any

import pytest

from tests.decisions.test_cases import CASES, decided_in
from tests.yaml_text import load_yaml
from webhook.request import ClaimTemplate, template_name

from .cluster import Cluster, denial
from .examples import Example

pytestmark = pytest.mark.controlplane

SHARE = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}}
CLAIM = {"claims": [{"name": "gpu", "request": "one"}]}
# The defaults of the feature gates DynamicResourceAllocation and DRAExtendedResource: pkg/features/kube_features.go.
CLAIMS = pytest.mark.kubernetes("1.34", why="older API servers drop resource claims")
CLASSES = pytest.mark.kubernetes("1.36", why="older API servers refuse device classes as names of resources")


def claiming(*containers: dict[str, Any], claims: bool = True) -> Example:
    """A pod with containers of these resources, and a claim to which they can refer."""
    spec: dict[str, Any] = {
        "containers": [
            {"name": f"c{number}", "image": "app", "resources": resources}
            for number, resources in enumerate(containers)
        ]
    }
    if claims:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "claiming"}, "spec": spec}
    return Example("claiming", pod, "shares")


OF_SHARES = {"limits": {"deviceclass.resource.kubernetes.io/share.gpu.nvidia.com": "1"}}
OURS = "vgpu-8a36628981b0214d7649"


@pytest.mark.parametrize(
    "claimed", [pytest.param(CLAIM, id="template", marks=CLAIMS), pytest.param(OF_SHARES, id="class", marks=CLASSES)]
)
def test_a_claim_without_keys_is_denied(cluster: Cluster, claimed: dict[str, Any]) -> None:
    """The API server sends the pod though it has no key; the message says what to write instead."""
    pod = claiming(claimed, claims=claimed is CLAIM)
    for claim in pod.manifest["spec"].get("resourceClaims", ()):
        claim["resourceClaimTemplateName"] = OURS
    answer = cluster.submit(pod)
    assert answer.status == 403
    assert "VGW330" in denial(answer)


AMOUNTS = {"memory": ("1Mi", "1023Mi", "1Gi", "1000Gi", "1Ti", "512Ki"), "cores": ("0", "1", "100", "1k")}


@CLASSES
def test_templates_are_stored_under_the_hash_of_what_is_stored(cluster: Cluster) -> None:
    """Those of all golden cases, and amounts of each kind: the API server fills nothing in and rewrites nothing."""
    pods = {folder: load_yaml((folder / "pod.yaml").read_text()) for folder in sorted(CASES.glob("claim-*"))}
    templates = {each.name: each for folder, pod in pods.items() for each in decided_in(folder, pod).objects}
    assert len(templates) > 8
    some = next(iter(templates.values()))
    for name, amounts in AMOUNTS.items():
        for amount in amounts:
            spec = some.spec
            spec["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"][name] = amount
            template = ClaimTemplate.of(spec)
            templates[template.name] = template
    for template in templates.values():
        manifest = template.manifest("shares", {"vgpu-webhook.io/claim": "true"})
        stored = cluster.plane.client.create(manifest, dry_run=True, strict=True).accepted()
        assert template_name(stored["spec"]) == template.name, stored["spec"]
