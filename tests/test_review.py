"""The wire format of reviews."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.review import NotAReviewError, ReviewError, UndecodableError, decode_review

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
SECRET = "hunter2-do-not-tell"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "web-", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"example.com/gpu": "1"}}}], "futureField": [1]},
}


def envelope(obj: Any = POD, **request: Any) -> dict[str, Any]:
    """Give a review as the API server sends it, with the request's fields replaced by `request`."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": UID,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "namespace": "team",
            "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
            "object": obj,
            "oldObject": None,
            "dryRun": True,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            **request,
        },
    }


def as_bytes(value: Any) -> bytes:
    """Give JSON."""
    return json.dumps(value).encode()


def test_creation_of_a_pod_is_decoded_into_the_view() -> None:
    """Everything that is decided by is there, and what is not read is skipped."""
    review = decode_review(as_bytes(envelope()))
    assert review.creates_pod
    assert (review.uid, review.namespace, review.user_info.username, review.dry_run) == (UID, "team", "alice", True)
    assert review.pod is not None
    assert review.pod.metadata.generate_name == "web-"
    assert [container.name for container in review.pod.spec.containers] == ["c"]


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None, "oldObject": POD},
        {"operation": "CONNECT", "subResource": "exec", "object": {"command": "sh"}},
        {"subResource": "binding", "kind": {"group": "", "version": "v1", "kind": "Binding"}},
        {"subResource": "ephemeralcontainers"},
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
        {"kind": {"group": "example.com", "version": "v1", "kind": "Pod"}},
        {"kind": {"group": "", "version": "v2", "kind": "Pod"}},
        {"kind": {"kind": "Thing"}, "object": {"spec": "no pod at all", "metadata": 3}},
        {"operation": "UPDATE", "object": {"spec": {"containers": 7}}},
    ],
)
def test_anything_else_is_decoded_without_its_object(request_: dict[str, Any]) -> None:
    """A well-formed review of something else is no error, whatever its object is."""
    review = decode_review(as_bytes(envelope(**request_)))
    assert not review.creates_pod
    assert review.uid == UID


@pytest.mark.parametrize("subresource", [None, ""])
def test_empty_subresource_is_none(subresource: str | None) -> None:
    """An empty or null subresource says that the pod itself is created."""
    assert decode_review(as_bytes(envelope(subResource=subresource))).creates_pod


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"AdmissionReview"',
        b"{",
        b"{}",
        b"\xff\xfe",
        b"[" * 1_000_000,
        b'{"request":' * 100_000,
        as_bytes({**envelope(), "apiVersion": "admission.k8s.io/v1beta1"}),
        as_bytes({**envelope(), "kind": "ConversionReview"}),
        as_bytes({**envelope(), "kind": None}),
        as_bytes({**envelope(), "request": None}),
        as_bytes({**envelope(), "request": [SECRET]}),
        as_bytes({**envelope(), "request": {}}),
        as_bytes(envelope(uid="")),
        as_bytes(envelope(uid=7)),
        as_bytes(envelope(kind="Pod")),
        as_bytes(envelope(operation={SECRET: SECRET})),
        as_bytes(envelope()) + b"}",
        as_bytes(envelope(userInfo={"username": "@"})).replace(b"@", b"\xff"),
        as_bytes(envelope(namespace="@")).replace(b"@", rb"\ud800"),
    ],
)
def test_no_review(body: bytes) -> None:
    """What is no AdmissionReview v1 is refused, and not quoted."""
    with pytest.raises(NotAReviewError) as caught:
        decode_review(body)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "obj",
    [
        None,
        [],
        SECRET,
        {"metadata": SECRET},
        {"spec": {"containers": {"name": SECRET}}},
        {"spec": {"containers": [None]}},
        {"spec": {"containers": [{"name": 7}]}},
        {"spec": {"containers": [{"resources": {"limits": {"example.com/gpu": [SECRET]}}}]}},
        {"spec": {"containers": [{"securityContext": {"privileged": SECRET}}]}},
    ],
)
def test_creation_of_what_is_no_pod(obj: Any) -> None:
    """A pod that cannot be decoded is refused by the field, and its values are not quoted."""
    with pytest.raises(UndecodableError, match="the pod cannot be decoded") as caught:
        decode_review(as_bytes(envelope(obj)))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("number", [b"1e999", b"9" * 5000, b"NaN", b"-", b"01"])
def test_pod_with_a_number_that_is_none(number: bytes) -> None:
    """What JSON or Python cannot hold as a number is refused."""
    obj = {"spec": {"containers": [{"resources": {"limits": {"example.com/gpu": "@"}}}]}}
    with pytest.raises(ReviewError):
        decode_review(as_bytes(envelope(obj)).replace(b'"@"', number))


@pytest.mark.parametrize("name", [b"\xff", rb"\ud800", rb"\udc00 and more text"])
def test_pod_with_text_that_is_no_unicode(name: bytes) -> None:
    """Bad UTF-8 and lone surrogates are refused: they could not be answered."""
    body = as_bytes(envelope({**POD, "metadata": {"name": "@"}})).replace(b"@", name)
    with pytest.raises(ReviewError):
        decode_review(body)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_review_or_its_error(body: bytes) -> None:
    """No input raises anything else."""
    with pytest.raises(NotAReviewError):
        decode_review(body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(["object", "uid", "kind", "operation", "subResource", "namespace", "userInfo", "dryRun"]),
    json_values,
)
def test_any_value_in_any_field(field: str, value: Any) -> None:
    """A review with one field replaced by anything is a review, or one of the errors."""
    try:
        review = decode_review(as_bytes(envelope(**{field: value})))
    except ReviewError:
        return
    assert review.pod is not None or not review.creates_pod
