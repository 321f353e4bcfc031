"""Pods whose metadata has no name and no maps."""

from typing import Any

from tests.decided import TEAM, decided
from tests.decisions.any_to_any import POLICY, TARGET
from tests.naming import each_of
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Namespace


def stored(metadata: dict[str, Any]) -> Any:
    """A pod that requests a share in a foreign vendor's keys, as it is stored; it is not changed a second time."""
    limits = {"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "16"}
    container = {"name": "main", "resources": {"limits": limits, "requests": dict(limits)}}
    pod: Any = {**metadata, "spec": {"containers": [container]}}
    context = Context(Namespace("team", TEAM.labels, {TARGET: "nvidia"}), "privileged")
    for patched in (True, False):
        decision = decided(pod, POLICY, context)
        assert decision.denial is None
        assert bool(decision.patch) is patched
        pod = apply_strictly(pod, decision.patch)
    return pod


@each_of(
    "sent",
    [
        {},
        {"metadata": {}},
        {"metadata": {"name": ""}},
        {"metadata": {"name": None, "labels": None, "annotations": None}},
        {"metadata": {"generateName": "a-"}},
    ],
)
def test_names_may_be_missing(sent: dict[str, Any]) -> None:
    """A pod is changed as one with a name is, maps that are missing are made, and nothing else is added to its metadata."""
    named, unnamed = stored({"metadata": {"name": "a"}}), stored(sent)
    assert unnamed["spec"] == named["spec"]
    assert unnamed["metadata"] == {
        **sent.get("metadata", {}),
        **{key: named["metadata"][key] for key in ("annotations", "labels")},
    }
