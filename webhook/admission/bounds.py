"""What no honest pod exceeds, counted before anything is looked at, so that every pod is decided in bounded time.

The API server checks a pod after its webhooks, so any text and any list can be as long as a review. What is counted here is
what later steps walk through; texts that they only compare, or search once, need no limit. ``benchmarks/worst.py`` searches
for pods that take long nevertheless.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

import msgspec

from webhook.admission.survey import MAX_CONTAINERS
from webhook.finding import Finding
from webhook.mapping.model.policy import Policy
from webhook.mapping.notation import MAX_KEY
from webhook.pod import OverfullPod, Pod, decode_env
from webhook.quantity import MIB
from webhook.reasons import Reason

MAX_ENTRIES: Final = 1024
"""The most labels, annotations, or node selector keys of a pod. Honest pods have some dozens."""

MAX_RESOURCES: Final = 4 * 1024
"""The most extended resources in limits and requests of all containers together: four for each of the most containers."""

MAX_CLAIMS: Final = 1024
"""The most resource claims: of the pod, and of all containers together. The API server permits 32 of a pod."""

MAX_LISTED: Final = 8 * 1024
"""The most variables that have to be looked through, and the most JSON objects in mounts of all containers together, or in
volumes. Honest pods have some hundreds; containers with any number of ordinary variables do not count."""

MAX_BYTES: Final = MIB
"""The most bytes of all mounts, and of the volumes. A path has at most 4,096 (``PATH_MAX``)."""

MAX_PLACEMENT: Final = 256 * 1024
"""The most bytes of the tolerations, of the affinity, and of the scheduling gates: far beyond any honest one."""

MAX_NODE_NAME: Final = 253
"""The most characters of the name of a node, a DNS subdomain (RFC 1123). It is written into each term of an affinity."""

_VARIABLES: Final = "variables in containers with one that matters to a share"


def overfull(pod: Pod) -> Finding | None:
    """Return the denial of a pod with more containers, or keys in a map, than are looked at one by one, or None."""
    spec, metadata = pod.spec, pod.metadata
    if pod.__class__ is OverfullPod:
        return _finding("the labels, annotations and resources of the pod are too many to be read", "metadata")
    number = len(spec.containers) + len(spec.init_containers or ())
    if number > MAX_CONTAINERS:
        return _beyond(number, MAX_CONTAINERS, "containers", "spec.containers")
    for what, field, texts in (
        ("labels", "metadata.labels", metadata.labels),
        ("annotations", "metadata.annotations", metadata.annotations),
        ("node selector keys", "spec.nodeSelector", spec.node_selector),
    ):
        if texts and len(texts) > MAX_ENTRIES:
            return _beyond(len(texts), MAX_ENTRIES, what, field)
    return None


def exceeded(pod: Pod, policy: Policy, *, few: bool) -> Finding | None:
    """Return the denial of a pod of which only the facts are left, and which exceeds a limit; else None.

    Args:
        pod: the facts of a pod that is not `overfull`.
        policy: for what of it is searched.
        few: the facts are few bytes (`facts.MAX_FACTS`), too few for any limit but those on single texts.
    """
    spec, metadata = pod.spec, pod.metadata
    containers = spec.containers if spec.init_containers is None else [*spec.init_containers, *spec.containers]
    resources = [container.resources for container in containers if container.resources is not None]
    sides = [side for each in resources for side in (each.limits, each.requests) if side]
    keys = [*(metadata.labels or ()), *(metadata.annotations or ()), *(spec.node_selector or ())]
    longest = max(chain(keys, *sides), key=len, default="")
    if len(longest) > MAX_KEY:  # patterns search all of it
        return _finding(
            f"a key of the pod has {len(longest)} characters, more than the limit of {MAX_KEY}", longest[:40]
        )
    if few and (spec.node_name is None or len(spec.node_name) <= MAX_NODE_NAME):
        return None
    names = [name for side in sides for name in side]
    limited = (
        (len(names), MAX_RESOURCES, "resources of containers", "resources"),
        (sum([len(each.claims) for each in resources if each.claims]), MAX_CLAIMS, "claims of containers", "claims"),
        (len(spec.resource_claims or ()), MAX_CLAIMS, "resource claims", "spec.resourceClaims"),
        (len(spec.node_name or ""), MAX_NODE_NAME, "characters of spec.nodeName", "spec.nodeName"),
        (len(bytes(spec.tolerations)), MAX_PLACEMENT, "bytes of tolerations", "spec.tolerations"),
        (len(bytes(spec.affinity)), MAX_PLACEMENT, "bytes of affinity", "spec.affinity"),
        (len(bytes(spec.scheduling_gates)), MAX_PLACEMENT, "bytes of scheduling gates", "spec.schedulingGates"),
        (_variables(pod, [each.env for each in containers], policy), MAX_LISTED, _VARIABLES, "env"),
    )
    lists = (
        (b"".join([raw for each in containers for raw in (each.volume_mounts, each.volume_devices)]), "mounts"),
        (b"".join([each.env_from for each in containers]), "envFrom"),
        (bytes(spec.volumes), "volumes"),
    )
    for number, most, what, field in limited:
        if number > most:
            return _beyond(number, most, what, field)
    for text, what in lists:
        if len(text) > MAX_BYTES:
            return _beyond(len(text), MAX_BYTES, f"bytes of {what}", what)
        if text.count(b"{") > MAX_LISTED:
            return _beyond(text.count(b"{"), MAX_LISTED, f"{what} and parts of them", what)
    return None


def _variables(pod: Pod, lists: Sequence[msgspec.Raw], policy: Policy) -> int:
    """The number of variables that have to be looked through; 0 if there are few."""
    # Braces in values count, too: nearly always this shows that there are few.
    if b"".join(lists).count(b"{") <= MAX_LISTED:
        return 0
    annotations = pod.metadata.annotations
    everywhere = annotations is not None and not policy.references.isdisjoint(annotations)
    return sum(len(decode_env(raw)) for raw in lists if everywhere or policy.watched_variables.among(raw))


def _beyond(number: int, most: int, what: str, field: str) -> Finding:
    return _finding(f"the pod has {number} {what}, more than the limit of {most}", field)


def _finding(message: str, field: str) -> Finding:
    return Finding(Reason.TOO_MANY, f"{message}: remove what is not needed", field=field)
