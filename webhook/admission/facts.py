"""The facts of a review: what of a pod, its namespace and its creator can decide under a policy.

The steps get the facts and nothing else, and decisions are remembered under them. So a key that `ReadKeys` forgets is hidden
from every step, for every pod: it cannot make the memory give one pod's patch to another.
"""

from collections.abc import Sequence
from sys import getsizeof
from typing import Final, NamedTuple

import msgspec

from webhook.admission.decision import Context, Decision
from webhook.mapping.model.policy import Policy
from webhook.pod import ABSENT, NO_METADATA, Container, Metadata, Pod, PodSpec, Resources, present

MAX_FACTS: Final = 16 * 1024
"""The most bytes of facts that are remembered. Honest pods have less; without a bound, a few others could fill the memory."""

_OBJECTS: Final = 820
"""Bytes of what every decision consists of: itself, two dictionaries, tuples, and the response's frame."""

_OBJECT: Final = 88
"""Bytes of a finding, with its place in a tuple."""

_EMPTY: Final = msgspec.Raw(b"[]")
"""A list whose entries do not matter; that it is there does, for it changes the patch."""

_SOURCES: Final = msgspec.Raw(b"[{}]")
"""A list of which it matters only that it has entries."""

_encode: Final = msgspec.json.Encoder().encode


class Facts(NamedTuple):
    """The facts of a review.

    Attributes:
        pod: the pod with what can matter: of labels, annotations and the node selector the keys that the policy reads, of
            resources those with a domain, of lists that nothing reads only that they are there.
        context: likewise: the keys of the webhook, and the Pod Security level, of a namespace without a name.
        key: the facts as bytes, equal for equal decisions; None if they are too long to be remembered.
    """

    pod: Pod
    context: Context
    key: bytes | None


def facts_of(pod: Pod, context: Context, policy: Policy) -> Facts | None:
    """Return the facts of a review; None if nothing in the pod can matter: no key, no resource with a domain, no claim.

    Where devices are hidden, every container matters.
    """
    spec, metadata = pod.spec, pod.metadata
    init = spec.init_containers
    containers = spec.containers if init is None else [*init, *spec.containers]
    among = policy.read_keys.among
    labels, annotations, selector = among(metadata.labels), among(metadata.annotations), among(spec.node_selector)
    resources = [_extended(container.resources) for container in containers]
    matters = labels or annotations or selector or spec.resource_claims or any(map(_requests, resources))
    if not matters and not policy.settings.hide_devices:
        return None
    # If a vendor's own webhook has added references to ConfigMaps, they are searched for in all lists.
    whole = annotations is not None and not policy.references.isdisjoint(annotations)
    lists = b"".join([spec.volumes, *[raw for each in containers for raw in (each.volume_mounts, each.volume_devices)]])
    mounts = whole or policy.marks_of_mounts.among(lists)
    reduced = _reduced(containers, resources, policy, whole=whole, mounts=mounts)
    first = 0 if init is None else len(init)
    affinity, gates = spec.affinity, spec.scheduling_gates
    if (affinity is ABSENT and gates is ABSENT) or not policy.marks_of_belongings.among(b"".join([affinity, gates])):
        affinity, gates = affinity if policy.cards or spec.node_name else ABSENT, ABSENT
    facts = Pod(
        metadata if metadata is NO_METADATA else Metadata(labels=labels, annotations=annotations),
        PodSpec(
            reduced[first:],
            None if init is None else reduced[:first],
            spec.volumes if mounts else _emptied(spec.volumes),
            spec.scheduler_name,
            spec.runtime_class_name,
            spec.node_name,
            selector,
            spec.tolerations,
            affinity,
            None,
            spec.resource_claims,
            gates,
        ),
    )
    around = Context(context.namespace.decisive, context.pod_security_default, context.user, context.image_volumes)
    return Facts(facts, around, _key(facts, around))


def _reduced(
    containers: Sequence[Container], resources: Sequence[Resources | None], policy: Policy, *, whole: bool, mounts: bool
) -> list[Container]:
    """Containers with what can matter: their `resources`, watched variables, and `mounts` that may meet a shim or a guard."""
    watched, installers = policy.watched_variables.among, policy.installers
    return [
        Container(
            each.name,
            extended,
            ABSENT if each.env is ABSENT else each.env if whole or watched(each.env) else _emptied(each.env),
            ABSENT if each.env_from is ABSENT else each.env_from if whole else _entered(each.env_from),
            each.volume_mounts if mounts or each.volume_mounts is ABSENT else _emptied(each.volume_mounts),
            each.security_context,
            each.volume_devices if mounts else ABSENT,
        )
        if each.name not in installers
        else msgspec.structs.replace(each, resources=extended)
        for each, extended in zip(containers, resources, strict=True)
    ]


def _entered(raw: msgspec.Raw) -> msgspec.Raw:
    return _SOURCES if b"{" in bytes(raw) else _emptied(raw)


def _emptied(raw: msgspec.Raw) -> msgspec.Raw:
    return _EMPTY if present(raw) else ABSENT


def _extended(resources: Resources | None) -> Resources | None:
    """The claims and the extended resources: names with a domain, which every key has."""
    if resources is None:
        return None
    limits, requests = resources.limits, resources.requests
    return Resources(
        None if limits is None else {name: number for name, number in limits.items() if "/" in name},
        None if requests is None else {name: number for name, number in requests.items() if "/" in name},
        resources.claims,
    )


def _requests(resources: Resources | None) -> bool:
    return resources is not None and bool(resources.limits or resources.requests or resources.claims)


def _key(pod: Pod, context: Context) -> bytes | None:
    namespace = context.namespace
    try:
        key = _encode(
            (
                pod,
                pod.metadata is NO_METADATA,
                namespace.labels,
                namespace.annotations,
                context.pod_security_default,
                context.user,
                context.image_volumes,
            )
        )
    except OverflowError:
        return None  # a quantity of more than 64 bits
    return key if len(key) <= MAX_FACTS else None


def remember(key: bytes, decision: Decision, policy: Policy) -> Decision:
    """Remember a decision under its facts; return it as it is remembered."""
    # msgspec leaves room behind what it encodes, up to half as much again.
    key = bytes(memoryview(key))
    decision = msgspec.structs.replace(decision, patch_json=bytes(memoryview(decision.patch_json)))
    policy.memo.keep(key, decision, getsizeof(key) + size_of(decision))
    return decision


def size_of(decision: Decision) -> int:
    """Return the bytes of a decision with the response that is encoded from it, without what policy and module have anyway.

    ``tests/decisions/test_remembered_size.py`` compares it with what the allocator gave.
    """
    denial = decision.denial
    # The response has the patch in base64, and what users and the audit log are told as JSON.
    told = _encode((decision.audit, [finding.text for finding in decision.warnings], denial and denial.sentence))
    texts: list[str | bytes] = [decision.patch_json, *decision.audit.values()]
    texts += [] if "status" in decision.audit else [decision.status_json]
    findings = (*decision.warnings, *decision.notes, *(() if denial is None else (denial,)))
    for finding in findings:
        texts += [text for text in (finding.message, finding.field, finding.value, finding.container) if text]
    response = 4 * len(decision.patch_json) // 3 + len(told)
    return _OBJECTS + _OBJECT * len(findings) + sum(map(getsizeof, texts)) + response
