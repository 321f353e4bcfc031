"""Pods with what is decided on them."""

import json
from collections.abc import Mapping
from typing import Any, Final

from webhook.admission import Context, Decision, Namespace, decide
from webhook.labels import INJECT
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod, decode_pod

POLICY: Final = load_policy()
TEAM: Final = Namespace("team", {INJECT: "enabled"})
CONTEXT: Final = Context(TEAM, "privileged")
"""A namespace that has opted in, in a cluster without Pod Security."""


def pod_with(*containers: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod with these containers, or with one called ``main``."""
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers) or [{"name": "main"}], **spec}}


def view(pod: Mapping[str, Any]) -> Pod:
    """A pod in JSON, as it is read."""
    return decode_pod(json.dumps(pod).encode())


def decided(pod: Mapping[str, Any], policy: Policy = POLICY, context: Context = CONTEXT) -> Decision:
    """The decision on a pod in JSON."""
    return decide(view(pod), context, policy)
