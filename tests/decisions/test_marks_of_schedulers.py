"""Marks of schedulers: who may write them; what is removed is in `tests/admission/told/marks.yaml`."""

import json

from tests.decisions.test_guard_lists import OPTED_IN, SHARES, sent_for
from tests.mapping.vendors import policy as configured
from webhook.admission import Context, decide
from webhook.pod import decode_pod
from webhook.reasons import Reason


def test_who_owns_marks_may_write_them() -> None:
    """`ownedBy` names users; pods that differ in nothing else are decided one after the other."""
    under = configured("extends: koordinator\nownedBy: [system:acme]\n")
    made = sent_for("koordinator", SHARES["koordinator"])
    made["metadata"]["annotations"] = {"scheduling.koordinator.sh/device-allocated": "1"}
    sent = json.dumps(made).encode()
    for user in ("", "system:acme") * 3:
        decision = decide(decode_pod(sent), Context(OPTED_IN, "privileged", user), under)
        stripped = Reason.OWNED_STRIPPED in {finding.reason for finding in decision.warnings}
        assert stripped is (user == "")
