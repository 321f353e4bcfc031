"""The wire format of answers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.admission.decision import Decision
from webhook.reasons import Finding, Reason, ReasonKind
from webhook.review import MAX_DENIAL, MAX_WARNING, MAX_WARNINGS, MAX_WHOLE, encode_answer, warning_texts
from webhook.text import shorten

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def response(body: bytes) -> dict[str, Any]:
    """Give the response in an answer, checked for what the API server insists on."""
    answer = json.loads(body)
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    found: dict[str, Any] = answer["response"]
    assert found["uid"] == UID
    assert ("patch" in found) == ("patchType" in found)
    assert found.get("patchType", "JSONPatch") == "JSONPatch"
    return found


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason.kind is ReasonKind.DENIAL], ids=str)
def test_denial_has_code_reason_and_message(reason: Reason) -> None:
    """Every reason to deny has an HTTP code that the API server passes on as it is, and a name for it."""
    decision = Decision(allowed=False, reason=reason, denial=Finding(reason, "because", "c"))
    found = response(encode_answer(UID, decision))
    assert found["allowed"] is False
    status = found["status"]
    names = {400: "BadRequest", 403: "Forbidden", 422: "Invalid"}
    assert status == {
        "code": reason.status,
        "reason": names[reason.status],
        "message": f"{reason.code}: container c: because",
        "status": "Failure",
    }


def test_endless_denial_is_cut() -> None:
    """A message stays bounded whatever it lists."""
    denial = Finding(Reason.NEAR_MISS, "x" * 10_000)
    found = response(encode_answer(UID, Decision(allowed=False, reason=denial.reason, denial=denial)))
    assert len(found["status"]["message"]) == MAX_DENIAL


findings = st.builds(
    Finding,
    st.sampled_from([reason for reason in Reason if reason.kind is ReasonKind.WARNING]),
    st.text(max_size=300),
    st.none() | st.text(max_size=63),
)


@given(st.lists(findings, max_size=60).map(tuple))
def test_warnings_fit_the_limits(reported: tuple[Finding, ...]) -> None:
    """Warnings stay within the API server's limits, are cut where it would cut them, and omitted ones are counted."""
    texts = warning_texts(reported)
    everything = list(dict.fromkeys(finding.text for finding in reported))
    assert sum(map(len, texts)) < MAX_WARNINGS
    if sum(map(len, everything)) <= MAX_WHOLE:
        assert texts == everything
        return
    assert all(len(text) <= MAX_WARNING for text in texts)
    everything = list(dict.fromkeys(shorten(text, MAX_WARNING) for text in everything))
    if texts != everything:
        *stored, last = texts
        assert stored == everything[: len(stored)]
        assert last.startswith(f"… and {len(everything) - len(stored)} more")


def test_many_warnings_fill_the_room() -> None:
    """As many are reported as fit, no fewer."""
    reported = tuple(Finding(Reason.DEFAULT_FILLED, f"{number} " + "x" * 300) for number in range(20))
    *stored, last = warning_texts(reported)
    assert len(stored) == 15
    assert last.startswith("… and 5 more")


def test_a_long_warning_is_whole() -> None:
    """What to write instead stands at its end, and as long as all are short enough together nothing is cut."""
    long = Finding(Reason.DEFAULT_FILLED, "x" * 700)
    other = Finding(Reason.SIZE_TOO_SMALL, "y" * 2000)
    assert warning_texts((long, other)) == [long.text, other.text]
    assert [len(text) for text in warning_texts((long, other, Finding(Reason.SIZE_TOO_SMALL, "z" * 400)))] == [256] * 3
