"""Pods with what was decided on them."""

import json
from collections.abc import Mapping
from typing import Any

from webhook.admission import Context, Decision, decide
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod


def pod_with(*containers: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod with these containers, or with one called ``main``."""
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers) or [{"name": "main"}], **spec}}


def decision_on(pod: dict[str, Any], context: Context, policy: Policy) -> Decision:
    """The decision on a pod in JSON."""
    return decide(decode_pod(json.dumps(pod).encode()), context, policy)
