"""The benchmark measures what it says: reviews of the right size that give every step something to do."""

import pytest

from benchmarks.reviews import LARGE, SMALL, VARIANTS, load
from webhook.admission import Context, Namespace, decide
from webhook.mapping.load import load_policy
from webhook.reasons import Reason
from webhook.review import decode_review
from webhook.server.namespaces import OPT_IN


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_reviews_of_the_benchmark(size: int) -> None:
    """Each is the creation of a pod of about that size, different from the others, that is filled in and gets a shim."""
    policy = load_policy()
    context = Context(Namespace("team", {OPT_IN: "enabled"}), "privileged")
    requests = load("", size, varying=True).requests
    assert len(set(requests)) == VARIANTS
    for request in requests[:: VARIANTS // 8]:
        body = request.partition(b"\r\n\r\n")[2]
        assert size <= len(body) < size * 1.1
        pod = decode_review(body).pod
        assert pod is not None
        decision = decide(pod, context, policy)
        assert decision.reason is Reason.CHANGED
        assert Reason.DEFAULT_FILLED in {finding.reason for finding in decision.warnings}
        assert any(operation["path"] == "/spec/volumes/-" for operation in decision.patch)
