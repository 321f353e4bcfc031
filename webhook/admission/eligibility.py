"""Which pods are handled, and in which mode: opt-in, opt-out, excluded namespaces, mode and roll-out."""

import enum
import hashlib
import re
from typing import Final, NamedTuple

from webhook.admission.decision import Context, Namespace
from webhook.finding import Finding
from webhook.labels import INJECT, MODE, OPT_OUT, ROLLOUT
from webhook.mapping.model.policy import Policy
from webhook.pod import MIRROR, WINDOWS, Pod
from webhook.reasons import Reason

_TEMPLATE_HASH: Final = re.compile(r"-[a-z0-9]{1,10}$")
_DIGITS: Final = re.compile(r"-[0-9]+$")
_PERCENT: Final = re.compile(r"100|[1-9]?[0-9]")


class Mode(enum.Enum):
    """How the webhook handles the pods of a namespace."""

    ENFORCE = "enforce"
    WARN = "warn"
    AUDIT = "audit"


_MODES: Final = {mode.value: mode for mode in Mode}


class Enforcement(NamedTuple):
    """The mode that applies to one pod, with warnings about the labels that set it."""

    mode: Mode
    findings: tuple[Finding, ...] = ()


PLAIN: Final = Enforcement(Mode.ENFORCE)
"""Enforced without a warning, as nearly always: the same object each time."""


def opted_in(namespace: Namespace, policy: Policy) -> bool:
    """Whether a namespace has opted in."""
    return namespace.labels.get(policy.settings.opt_in_label) == "enabled"


def skip_reason(pod: Pod, context: Context, policy: Policy) -> Reason | None:
    """Why a pod is skipped before its keys are read, or None."""
    namespace = context.namespace
    if namespace.name in policy.never_touched:
        return Reason.NEVER_TOUCHED
    if not opted_in(namespace, policy):
        return Reason.NOT_OPTED_IN
    metadata, spec = pod.metadata, pod.spec
    if metadata.annotations is not None and MIRROR in metadata.annotations:
        return Reason.MIRROR_POD
    if spec.os is not None and spec.os.name == WINDOWS:
        return Reason.WINDOWS_POD
    if (
        metadata.labels is not None
        and metadata.labels.get(INJECT) == "disabled"
        and namespace.labels.get(OPT_OUT) != "forbidden"
    ):
        return Reason.OPTED_OUT
    return None


def enforcement_of(pod: Pod, context: Context) -> Enforcement:
    """The mode of a pod, with a warning if it tries to opt out where its namespace forbids that."""
    enforcement, metadata = _mode_of(pod, context), pod.metadata
    if metadata.labels is None or metadata.labels.get(INJECT) != "disabled":
        return enforcement
    message = f"the label {INJECT}: disabled has no effect: the namespace forbids it by its label {OPT_OUT}"
    forbidden = Finding(Reason.OPT_OUT_FORBIDDEN, message, field=INJECT, value="disabled")
    return Enforcement(enforcement.mode, (*enforcement.findings, forbidden))


def _mode_of(pod: Pod, context: Context) -> Enforcement:
    """The mode of a pod: its namespace's, or only warnings for what is outside the namespace's roll-out.

    An unknown mode counts as `warn`: a namespace with the label nearly always wants less than the default.
    """
    labels = context.namespace.labels
    written = labels.get(MODE)
    rollout = labels.get(ROLLOUT)
    if written is None and rollout is None:
        return PLAIN
    mode = Mode.ENFORCE if written is None else _MODES.get(written)
    if mode is None:
        message = (
            f"the namespace's label {MODE}: {written!r} is not a mode and counts as warn: write enforce, warn or audit"
        )
        unreadable = Finding(Reason.NAMESPACE_SETTING_INVALID, message, field=MODE, value=written)
        return Enforcement(Mode.WARN, (unreadable,))
    if mode is not Mode.ENFORCE:
        return Enforcement(mode)
    if rollout is None:
        return PLAIN
    if _PERCENT.fullmatch(rollout) is None:
        message = f"the namespace's label {ROLLOUT}: {rollout!r} was ignored: write a number from 0 to 100"
        return Enforcement(mode, (Finding(Reason.NAMESPACE_SETTING_INVALID, message, field=ROLLOUT, value=rollout),))
    if bucket(workload(pod, context.namespace.name)) < int(rollout):
        return PLAIN
    message = (
        f"outside the {rollout} % of the namespace's workloads that are changed: a larger label {ROLLOUT} includes more"
    )
    return Enforcement(Mode.WARN, (Finding(Reason.OUTSIDE_ROLLOUT, message, field=ROLLOUT, value=rollout),))


def workload(pod: Pod, namespace: str) -> str:
    """The workload of a pod, the same for all its pods and at every roll-out: a Deployment, a CronJob, else the pod."""
    metadata = pod.metadata
    owners = metadata.owner_references or []
    owner = next((reference for reference in owners if reference.controller), owners[0] if owners else None)
    if owner is not None:
        name = owner.name
        if owner.kind == "ReplicaSet":
            name = _TEMPLATE_HASH.sub("", name)
        elif owner.kind == "Job":
            name = _DIGITS.sub("", name)
        return f"{namespace}/{owner.kind}/{name}"
    return f"{namespace}//{metadata.generate_name or metadata.name or ''}"


def bucket(text: str) -> int:
    """A number from 0 to 99, the same for the same text on every replica and in every version."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 100
