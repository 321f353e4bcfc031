"""Pod templates with placeholders, which somebody fills in before pods are made of them."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from webhook.admission.decision import Context, Decision, facts_of, untouched
from webhook.admission.eligibility import skip_reason
from webhook.admission.engine import Steps, decide, denied, in_mode, take_steps
from webhook.labels import PREFIX
from webhook.mapping.model.names import Names
from webhook.mapping.model.policy import Policy
from webhook.patch import slots
from webhook.pod import Pod
from webhook.reasons import Finding, Reason
from webhook.text import shorten

MOST: Final = 8
"""The most placeholders of a template that are reported."""

MAX_TEXT: Final = 100
"""The most characters of one in a message."""

_FILLED_IN: Final = re.compile(r"\$(?:\{[^{}]*\}|\([^()]*\)|[A-Za-z_])")


def is_placeholder(text: str) -> bool:
    """Whether a text has a part that a workflow engine or a shell replaces: ``{{…}}``, ``${…}``, ``$(…)``, ``$NAME``."""
    return ("{{" in text and "}}" in text) or _FILLED_IN.search(text) is not None


def decide_template(
    pod: Pod, context: Context, policy: Policy, decide: Callable[[Pod, Context, Policy], Decision] = decide
) -> Decision:
    """Decide on the pod of a template as `decide` does, but leave what a placeholder keeps open until the pod is made.

    Until then names are judged, and containers without placeholders.
    """
    found = list(_placeholders(pod, policy))
    facts = facts_of(pod, context, policy) if found and skip_reason(pod, context, policy) is None else None
    if facts is None:
        return decide(pod, context, policy)
    steps = Steps()
    take_steps(facts, policy, steps)
    seen, reported = steps.survey, (*found[:MOST], *steps.survey.findings)
    if not seen.has_request and all(finding.field in _OF_REQUESTS for finding in found):
        return decide(pod, context, policy)
    named = {finding.container for finding in found}
    denial = seen.denial
    if denial is None and None not in named:
        rest = decide(_without(pod, named), context, policy).denial
        denial = None if rest is None or rest.container in {None, *named} else rest
    if denial is not None:
        return in_mode(denied(denial, reported), pod, context)
    return in_mode(untouched(Reason.PLACEHOLDER, reported), pod, context)


_OF_REQUESTS: Final = ("spec.schedulerName", "spec.nodeName", "spec.runtimeClassName")
"""What decides only on pods that request devices."""


def _placeholders(pod: Pod, policy: Policy) -> Iterator[Finding]:
    """Yield the placeholders among what requests devices, and where it decides on a request."""
    for slot in slots(pod):
        limits, requests = slot.container.sides
        for name, amount in {**requests, **limits}.items():
            if is_placeholder(name):
                yield _open(name, f"limits[{name}]", name, slot.name)
            elif isinstance(amount, str) and policy.resources.owners(name) and is_placeholder(amount):
                yield _open(name, f"limits[{name}]", amount, slot.name)
    yield from _in_texts("label", pod.metadata.labels, policy.labels)
    yield from _in_texts("annotation", pod.metadata.annotations, policy.annotations)
    yield from _in_texts("nodeSelector", pod.spec.node_selector, policy.node_selector)
    spec = pod.spec
    for field, chosen in zip(_OF_REQUESTS, (spec.scheduler_name, spec.node_name, spec.runtime_class_name), strict=True):
        if chosen and is_placeholder(chosen):
            yield _open(field, field, chosen)


def _in_texts(place: str, texts: Mapping[str, str] | None, names: Names) -> Iterator[Finding]:
    for key, text in (texts or {}).items():
        if is_placeholder(text) and (key.startswith(PREFIX) or names.owners(key)):
            yield _open(f"{place} {key}", f"{place} {key}", text)


def _open(what: str, field: str, text: str, container: str | None = None) -> Finding:
    shown = shorten(text, MAX_TEXT)
    message = f"{shorten(what, MAX_TEXT)} has the placeholder {shown}: the pods are judged when they are created"
    return Finding(Reason.PLACEHOLDER, message, container, field, shown)


def _without(pod: Pod, names: set[str | None]) -> Pod:
    """The pod without the resources of some of its containers."""
    spec = pod.spec
    init, regular = (
        [replace(each, resources=None) if each.name in names else each for each in containers]
        for containers in (spec.init_containers or [], spec.containers)
    )
    return replace(pod, spec=replace(spec, init_containers=init if spec.init_containers else None, containers=regular))
