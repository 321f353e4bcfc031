"""The guard: marks that only a scheduler may write, and bounds; what lifts a limit is in `told/guard.yaml`."""

from typing import Any

import pytest

from tests.admission.scene import SHIM, Held, Outcome, Scene, pod, run, vendor
from webhook.admission.guard import MAX_MOUNTS, guard_pod
from webhook.reasons import Denied, Reason


def test_annotations_that_are_stripped_have_a_bound() -> None:
    """An honest pod has a handful."""
    many = vendor(guard=[{"annotation": "acme.io/*", "unless": [], "action": "strip"}])
    sent = pod()
    sent["metadata"]["annotations"] = {f"acme.io/a{i}": "x" for i in range(257)}
    with pytest.raises(Denied) as caught:
        run(guard_pod, sent, Scene([Held(many)]))
    finding = caught.value.finding
    assert (finding.reason, finding.field) == (Reason.TOO_MANY, None)
    assert (
        finding.message == "more than 256 variables, keys and mounts have to be removed: remove them from the manifest"
    )


OWNED = vendor(
    variables={"chip": {"values": "[A-Z][0-9]"}},
    owned=[
        "acme.io/node",
        "acme.io/*-allocated",
        "acme.io/{chip}-ids",
        {"label": "acme.io/bound"},
        {"label": "acme.io/{chip}"},
    ],
    ownedBy=["system:acme"],
    shim=SHIM,
)
MARKS: dict[str, Any] = {
    "annotations": {
        "acme.io/node": "n1",
        "acme.io/a-b-allocated": "x",
        "acme.io/A1-ids": "0",
        "acme.io/wish": "y",
        "mine": "z",
    },
    "labels": {"acme.io/bound": "1", "acme.io/A1": "1", "acme.io/node": "kept", "app": "a"},
}


def marked(*held: Held, user: str = "") -> Outcome:
    """What the guard makes of a pod with a scheduler's marks."""
    sent = pod({"name": "a"}, {"name": "b"})
    sent["metadata"] |= MARKS
    return run(guard_pod, sent, Scene([*held, *[None] * (2 - len(held))], user=user))


def test_scheduler_may_write_its_own_marks() -> None:
    """A user listed under `ownedBy` of an owner of the key may write it."""
    assert marked(Held(OWNED), user="system:acme").patch == ()
    shared = vendor("other", owned=["acme.io/node"])
    outcome = marked(Held(OWNED), Held(shared), user="system:acme")
    assert outcome.patch == ()
    assert marked(Held(OWNED), user="somebody").patch != ()


MOUNTS: list[dict[str, Any]] = [
    {"mount": "/acme/lib", "from": {"hostPath": "/opt/acme/lib*"}, "action": "allow"},
    {"mount": ["/acme/lib", "/acme/lib/*"], "unless": []},
    {"mount": "/acme/shown*", "unless": [], "whole": True},
]


def test_mounts_that_are_compared_are_few() -> None:
    """So that one pod takes no time; without a part of a guarded path in any of them, there may be more."""
    many = [{"name": "v", "mountPath": f"/data/{number}"} for number in range(MAX_MOUNTS + 1)]
    held = Held(vendor(guard=MOUNTS))
    assert run(guard_pod, pod({"name": "main", "volumeMounts": many}), Scene([held])).patch == ()
    of_node = pod({"name": "main", "volumeMounts": many})
    of_node["spec"]["volumes"] = [{"name": "v", "hostPath": {"path": "/data"}}]
    near = [{**many[0], "mountPath": "/acme/lib64"}, *many[1:]]
    for sent, guard, why in (
        (pod({"name": "main", "volumeMounts": near}), MOUNTS, ", some of which may be guarded"),
        (of_node, [{"hostPath": "/dev", "unless": []}], " beside a hostPath"),
    ):
        with pytest.raises(Denied) as caught:
            run(guard_pod, sent, Scene([Held(vendor(guard=guard))]))
        finding = caught.value.finding
        assert (finding.reason, finding.container, finding.field) == (Reason.TOO_MANY, "main", "volumeMounts")
        assert finding.message == f"more than {MAX_MOUNTS} mounts{why}: split the container, or mount fewer"
