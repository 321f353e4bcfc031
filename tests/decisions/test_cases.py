"""Golden cases: a pod that goes in, the pod that is stored, and what is reported about it, side by side in `cases/`.

They are cases of `vgpu-webhook test` (`webhook/cli/commands/test.py`). ``--update-golden`` writes ``expected.yaml`` and
``report.txt`` anew from what the code does now: read the difference before it is committed.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from tests.decided import POLICY, TEAM, decided
from tests.naming import naming
from tests.strict_patch import apply_strictly
from tests.yaml_text import load_yaml
from webhook.admission import Context, Decision, Namespace
from webhook.cli.commands.test import judged_case
from webhook.cli.policy_source import SourcedPolicy
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.reasons import Reason
from webhook.request import parse_quantity

CASES = Path(__file__).parents[1] / "cases"
FOLDERS = sorted(CASES.iterdir())
BUILT_IN = SourcedPolicy("the built-in mappings", POLICY).with_documents


@cache
def policy_of(mappings: Path | None, settings: Path | None) -> Policy:
    """The policy of a case; most have the same."""
    return load_policy(mappings, settings)


def policy_in(folder: Path) -> Policy:
    """The built-in mappings with those of the case over them, under its settings."""
    mappings, settings = folder / "mappings", folder / "settings.yaml"
    return policy_of(mappings if mappings.exists() else None, settings if settings.exists() else None)


def context_in(folder: Path) -> Context:
    """The namespace of the case."""
    path = folder / "namespace.yaml"
    namespace = TEAM
    if path.exists():
        metadata = load_yaml(path.read_text())["metadata"]
        namespace = Namespace(metadata["name"], metadata.get("labels", {}), metadata.get("annotations", {}))
    return Context(namespace, pod_security_default="privileged")


@cache
def pod_in(folder: Path) -> bytes:
    """The pod of the case, as JSON."""
    return json.dumps(load_yaml((folder / "pod.yaml").read_text())).encode()


def decided_in(folder: Path, pod: Any) -> Decision:
    """What becomes of a pod under the policy and in the namespace of a case."""
    return decided(pod, policy_in(folder), context_in(folder))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_case(folder: Path, *, update_golden: bool) -> None:
    """What `vgpu-webhook test` says of it: the pod is stored as expected, with exactly these keys, and this is reported."""
    assert judged_case(folder, BUILT_IN, update=update_golden) == (), "--update-golden records it"


def test_cases_hold_what_always_holds() -> None:
    """The patch applies for any reader, a second pass changes nothing, and limits and requests agree."""
    for folder in FOLDERS:
        with naming(folder.name):
            assert_holds(folder)


def assert_holds(folder: Path) -> None:
    """A case holds what always holds."""
    pod = json.loads(pod_in(folder))
    decision = decided_in(folder, pod)
    stored = apply_strictly(pod, decision.patch)
    assert stored == jsonpatch.apply_patch(pod, json.loads(json.dumps(decision.patch)))
    if decision.denial is not None:
        assert not decision.patch
        return
    again = decided_in(folder, stored)
    assert again.denial is None
    assert again.patch == ()
    assert again.objects == decision.objects
    codes = {finding.reason for finding in (*again.warnings, *again.notes)}
    assert not decision.objects or Reason.CLAIM_BESIDE_REQUEST not in codes
    for path, resources in resources_written(stored, decision):
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        assert (path in limits) == (path in requests)
        if path in limits:
            assert parse_quantity(str(limits[path])) == parse_quantity(str(requests[path]))


def resources_written(pod: Any, decision: Decision) -> list[tuple[str, Any]]:
    """The resource names that a patch touches, each with the resources of its container as they are stored."""
    found: list[tuple[str, Any]] = []
    for operation in decision.patch:
        spec, kind, index, *rest = operation["path"].split("/")[1:] + [""] * 3
        if spec != "spec" or not rest or rest[0] != "resources" or rest[1] == "claims":
            continue
        resources = pod["spec"][kind][int(index)]["resources"]
        names = [rest[2]] if len(rest) > 2 and rest[2] else list(operation["value"].get("limits", operation["value"]))
        found.extend((name.replace("~1", "/").replace("~0", "~"), resources) for name in names)
    return found
