"""`POST /validate` over real sockets."""

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.server.harness import Answer, Server, call, get, pod, request, review, serving
from webhook.admission import Namespace, decide
from webhook.mapping.load import load_policy
from webhook.server.reviews import Described

POLICY = load_policy()
HIDING = replace(POLICY, settings=POLICY.settings.model_copy(update={"hide_devices": True, "target": "nvidia"}))
SHARE = {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
GROUPS = {"ConfigMap": "", "Deployment": "apps", "Job": "batch", "Widget": "example.com", "Pod": ""}


def validation(obj: Any, kind: str = "Deployment", **more: Any) -> bytes:
    """The review of an object of a kind."""
    return review(obj, kind={"group": GROUPS[kind], "version": "v1", "kind": kind}, **more)


def deployment(*containers: Any) -> Any:
    """A Deployment."""
    return {"metadata": {"name": "web"}, "spec": {"template": {"spec": {"containers": list(containers)}}}}


async def validated(server: Server, body: bytes) -> Answer:
    """The answer."""
    return await call(server, request(body, path="/validate"))


async def test_a_new_pod_is_judged_and_not_changed() -> None:
    """It is what `/mutate` would still change."""
    untreated = {**pod(), "spec": {"containers": [SHARE]}}
    async with serving(policy=POLICY) as server:
        for obj, allowed in ((untreated, False), (pod(), True)):
            response = (await validated(server, review(obj))).json["response"]
            assert response["allowed"] is allowed
            assert "patch" not in response
        lines = [line for line in server.log if line["event"] == "review"]
        assert {line["path"] for line in lines} == {"/validate"}
        metrics = (await get(server, "/metrics")).body.decode()
    assert 'vgpu_webhook_validations_total{outcome="denied",reason="undone"} 1.0' in metrics
    assert 'vgpu_webhook_validations_total{outcome="allowed",reason="no_gpu_keys"} 1.0' in metrics
    assert "vgpu_webhook_reviews_total{" not in metrics


async def test_a_workload_gets_warnings() -> None:
    """Created or changed; never a denial. Of its own keys, too, which nothing reads."""
    bad = {**SHARE, "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "150"}}}
    workload = deployment(SHARE, bad)
    workload["metadata"]["annotations"] = {"hami.io/gpu-scheduler-policy": "binpack"}
    async with serving(policy=POLICY) as server:
        for operation in ("CREATE", "UPDATE"):
            response = (await validated(server, validation(workload, operation=operation))).json["response"]
            assert response["allowed"] is True
            assert response["warnings"][0].startswith("VGW303: container main: the pods will be denied: ")
            assert any(text.startswith("VGW106: nothing reads hami.io/") for text in response["warnings"])
        quiet = (await validated(server, validation(deployment({"name": "main", "image": "i"})))).json["response"]
    assert "warnings" not in quiet


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(validation(deployment(SHARE), "Widget"), id="unknown kind"),
        pytest.param(validation(deployment(SHARE), subResource="scale"), id="subresource"),
        pytest.param(validation({"spec": {"template": []}}), id="another shape"),
        pytest.param(validation({"spec": {"template": {"spec": {"containers": 3}}}}), id="no pod"),
        pytest.param(validation([1]), id="no object"),
        pytest.param(validation({"a": [{} for _ in range(70_000)]}), id="too many parts"),
        pytest.param(validation(pod(), "Pod", operation="UPDATE", oldObject=pod()), id="update of a pod"),
        pytest.param(
            validation(pod(), "Pod", operation="UPDATE", oldObject=pod(), subResource="ephemeralcontainers"),
            id="none new",
        ),
        pytest.param(validation(pod(), "Pod", operation="UPDATE", oldObject=pod(), subResource="status"), id="status"),
        pytest.param(review().replace(b'"object"', b'"other"').replace(b"CREATE", b"DELETE"), id="nothing"),
    ],
)
async def test_what_is_not_judged_is_allowed(body: bytes) -> None:
    """Without a word: it is nobody's here."""
    async with serving(policy=POLICY) as server:
        answer = await validated(server, body)
    assert answer.status == 200
    assert answer.json["response"]["allowed"] is True
    assert "warnings" not in answer.json["response"]


async def test_a_bug_is_no_denial() -> None:
    """The stand-in's policy is none: 500, counted."""
    async with serving() as server:
        assert (await validated(server, validation(deployment(SHARE)))).status == 500
        metrics = (await get(server, "/metrics")).body.decode()
    assert "vgpu_webhook_bugs_total 1.0" in metrics
    assert 'vgpu_webhook_validations_total{outcome="failed",reason="internal_error"} 1.0' in metrics


async def test_updates_of_pods() -> None:
    """A mark of a scheduler, and an ephemeral container that sees every device."""
    old: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [SHARE], "nodeName": "n"}}
    marked = {**old, "metadata": {"name": "p", "annotations": {"hami.io/vgpu-devices-allocated": "x"}}}
    every = {"name": "shell", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    debugged = {**old, "spec": {**old["spec"], "ephemeralContainers": [every]}}
    async with serving(policy=POLICY) as server:
        more: dict[str, Any]
        for new, more, code in ((marked, {}, "VGW613"), (debugged, {"subResource": "ephemeralcontainers"}, "VGW605")):
            body = validation(new, "Pod", operation="UPDATE", oldObject=old, **more)
            response = (await validated(server, body)).json["response"]
            assert response["allowed"] is False
            assert response["status"]["message"].startswith(f"{code}: ")
        present = validation(debugged, "Pod", operation="UPDATE", oldObject=debugged, subResource="ephemeralcontainers")
        assert (await validated(server, present)).json["response"]["allowed"] is True


async def test_an_update_of_a_pod_that_is_too_large_is_denied() -> None:
    """An error would be ignored."""
    new = {**pod(), "metadata": {"name": "p", "annotations": {"a": "{" * 70_000}}}
    async with serving(policy=POLICY) as server:
        response = (await validated(server, validation(new, "Pod", operation="UPDATE", oldObject=pod()))).json[
            "response"
        ]
    assert response["allowed"] is False


def as_sent(body: bytes) -> bytes:
    """A review as an API server writes it: without blanks."""
    return json.dumps(json.loads(body), separators=(",", ":")).encode()


DEEP = b"[" * 3_000 + b"]" * 3_000
UPDATED: dict[str, Any] = {"operation": "UPDATE", "oldObject": pod()}
UNREADABLE = {
    "nested too deeply": as_sent(review({**pod(), "@": 1}, **UPDATED)).replace(b'"@":1', b'"@":' + DEEP),
    "the old one": as_sent(review(operation="UPDATE", oldObject={"@": 1})).replace(b'"@":1', b'"@":' + DEEP),
    "the status": as_sent(review({"@": 1}, **UPDATED, subResource="status")).replace(b'"@":1', b'"@":' + DEEP),
    "another type": as_sent(review({"spec": {"containers": 7}}, **UPDATED)),
    "an ephemeral container": as_sent(
        review({"spec": {"ephemeralContainers": [7]}}, **UPDATED, subResource="ephemeralcontainers")
    ),
    "too large": as_sent(review({**pod(), "metadata": {"annotations": {"a": "x" * 8_000_000}}}, **UPDATED)),
    "a new pod": as_sent(review({**pod(), "@": 1})).replace(b'"@":1', b'"@":' + DEEP),
    "a new pod with too many objects": as_sent(review({"spec": {"containers": [{}] * 300_000}})),
    "a new pod that is too large": as_sent(review({**pod(), "metadata": {"annotations": {"a": "<" * 8_000_000}}})),
}
MODES = {"enforce": False, "audit": True, "warn": True}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("path", ["/validate", "/mutate"])
async def test_what_cannot_be_read_is_denied(body: bytes, path: str) -> None:
    """Whatever keeps it from being read: an error would be ignored. Not where pods are never denied."""
    spaces = {
        mode: Namespace(
            "team", {"vgpu-webhook.io/inject": "enabled", "vgpu-webhook.io/mode": mode, "vgpu-webhook.io/rollout": "1"}
        )
        for mode in MODES
    } | {"none": Namespace("team")}
    for mode, space in spaces.items():
        async with serving(policy=POLICY, namespaces=Described({"team": space})) as server:
            answer = await call(server, request(body, path=path))
        assert answer.status == 200, answer.body
        judged = b"UPDATE" not in body or path == "/validate"
        assert answer.json["response"]["allowed"] is (MODES.get(mode, True) or not judged)
        if judged and mode == "enforce":
            code, what, _ = answer.json["response"]["status"]["message"].split(": ", 2)
            assert code == "VGW318"
            assert what.endswith(("cannot be decoded", "is larger than 7340032 bytes", "more than 262144 JSON objects"))


async def test_braces_in_texts_are_no_objects() -> None:
    """Three variables of 90,000 braces: nothing that is hard to read."""
    env = [{"name": f"E{number}", "value": "{" * 90_000} for number in range(3)]
    async with serving(decide=decide, policy=HIDING) as server:
        response = (
            await call(server, request(as_sent(review({"spec": {"containers": [{"name": "c", "env": env}]}}))))
        ).json["response"]
    assert b"NVIDIA_VISIBLE_DEVICES" in base64.b64decode(response["patch"])


async def test_a_status_that_cannot_be_read_hides_nothing() -> None:
    """Anybody can write it."""
    status = {"vgpu-webhook.io/status": f'{{"x":{DEEP.decode()}}}'}
    made = {"metadata": {"annotations": status}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with serving(decide=decide, policy=HIDING) as server:
        response = (await call(server, request(as_sent(review(made))))).json["response"]
    assert b"NVIDIA_VISIBLE_DEVICES" in base64.b64decode(response["patch"])


async def test_unreadable_workloads_and_documents_are_let_through() -> None:
    """Nothing of them concerns a device before there is a pod, or a document in force."""
    async with serving(policy=POLICY) as server:
        for kind in ("Deployment", "ConfigMap"):
            body = as_sent(validation({"@": 1}, kind)).replace(b'"@":1', b'"@":' + DEEP)
            assert (await validated(server, body)).json["response"]["allowed"] is True
