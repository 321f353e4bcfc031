"""Pods with what was decided on them."""

import json
from typing import Any

from webhook.admission import Context, Decision, decide
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod


def decision_on(pod: dict[str, Any], context: Context, policy: Policy) -> Decision:
    """The decision on a pod in JSON."""
    return decide(decode_pod(json.dumps(pod).encode()), context, policy)
