"""The webhook's own pods: whether they are ready; if not, what the kubelet and the scheduler say of them."""

from typing import Final

from webhook.cluster.client import Object
from webhook.cluster.events import MAX_MESSAGE, shortened
from webhook.cluster.registration.stored import webhooks_of
from webhook.cluster.registration.wanted import ServiceReference
from webhook.doctor.facts import ClusterFacts, Item, address_of, each_at, found_at
from webhook.doctor.result import Missing, Result, counted, error, first_of, known, ok, warning

_SELECTED: Final = "--namespace {release} --selector app.kubernetes.io/component=webhook"

_USUAL: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of waiting that say nothing; what delays them is in Events only."""


def replicas(facts: ClusterFacts) -> Result:
    """Are the webhook's pods ready?"""
    deployment = known(facts.deployment, "the webhook's Deployment", f"list deployments.apps in {facts.release}")
    if deployment is None:
        return ok(f"{facts.release} has no Deployment of the webhook: it runs elsewhere")
    pods = known(facts.replicas, "the webhook's pods", f"list pods in {facts.release}")
    wanted = found_at(deployment.spec, int, "replicas")
    if wanted == 0:
        hint = f"kubectl scale --namespace {facts.release} deployment/{deployment.metadata.name} --replicas 2"
        return error("the webhook's Deployment is scaled to 0 pods", hint=hint)
    wanted = 1 if wanted is None else wanted
    waiting = [pod for pod in pods if not _is_ready(pod)]
    number = len(pods) - len(waiting)
    refused = _condition(deployment, "ReplicaFailure")
    if number >= wanted and not waiting:
        return ok(f"{number} of {counted(wanted, 'pod')} ready")
    lines = [f"{pod.metadata.name}: {state_of(pod)}" for pod in waiting]
    lines += [f"no pod can be made: {refused.get('message')}"] if refused.get("status") == "True" else []
    if any(_ended(each) for pod in waiting for each in _containers(pod)):
        hint = f"{logs(facts)} --previous"
    elif any(pod.status.get("phase") == "Running" for pod in waiting):
        hint = f"see why: {logs(facts)}"
    else:
        hint = f"kubectl describe {'pods' if waiting else 'replicasets'} {_SELECTED.format(release=facts.release)}"
    message = f"{number} of {counted(wanted, 'pod')} ready{f', {len(waiting)} not' if number >= wanted else ''}"
    return (error if number == 0 else warning)(message, *first_of(lines), hint=hint)


def state_of(pod: Item) -> str:
    """Why a pod is not ready, as the kubelet or the scheduler says it."""
    for container in _containers(pod):
        waiting = found_at(container, dict, "state", "waiting") or {}
        reason, last = str(waiting.get("reason") or ""), _ended(container)
        if reason not in _USUAL or last:
            said = f"{reason}: {waiting['message']}" if waiting.get("message") else reason or "not ready"
            return f"{said}; {last}" if last else said
    unplaced = _condition(pod, "PodScheduled")
    if unplaced.get("status") == "False":
        return f"Pending: {unplaced.get('reason')}: {unplaced.get('message')}"
    phase = found_at(pod.status, str, "phase") or "Pending"
    why = [found_at(pod.status, str, each) for each in ("reason", "message")]
    why += [found_at(each, str, "state", "waiting", "reason") for each in _containers(pod)][:1]
    return ": ".join(filter(None, (phase, *why))) + (", but not ready" if phase == "Running" else "")


def _ended(container: Object) -> str:
    """How a container ended last; empty if it did not."""
    for state in ("state", "lastState"):
        ended = found_at(container, dict, state, "terminated")
        if ended:
            said = ": ".join(str(ended[each]).strip() for each in ("reason", "message") if ended.get(each))
            said = f" ({shortened(said, MAX_MESSAGE)})" if said else ""
            return f"ended last with exit code {ended.get('exitCode')}{said}"
    return ""


def _containers(pod: Item) -> list[Object]:
    """The statuses of its containers that are not ready."""
    every = (*each_at(pod.status, "initContainerStatuses"), *each_at(pod.status, "containerStatuses"))
    return [each for each in every if each.get("ready") is not True]


def _is_ready(pod: Item) -> bool:
    return _condition(pod, "Ready").get("status") == "True"


def _condition(item: Item, kind: str) -> Object:
    return next((each for each in each_at(item.status, "conditions") if each.get("type") == kind), {})


def logs(facts: ClusterFacts) -> str:
    """The command that prints the replicas' logs."""
    return f"kubectl logs {_SELECTED.format(release=facts.release)}"


def _options(deployment: Item) -> list[str]:
    containers = each_at(deployment.spec, "template", "spec", "containers")
    return [str(option) for each in containers for option in found_at(each, list, "args") or ()]


def where_none_acts(facts: ClusterFacts) -> str:
    """What to do where a replica would have acted: look at the pods, at the mode, or else at the logs."""
    if isinstance(facts.deployment, Item) and not isinstance(facts.replicas, Missing):
        if not any(map(_is_ready, facts.replicas)):
            return "no pod of the webhook is ready: see replicas above"
        if "--registration=static" in _options(facts.deployment):
            return f"in the mode static you apply it: {printed(facts)} --ca-file FILE"
        return f"see why: {logs(facts)}"
    return f"is a replica running? {logs(facts)}"


def printed(facts: ClusterFacts) -> str:
    """The command that prints the desired configuration for the current address."""
    webhooks = [] if facts.registered is None else [*webhooks_of(facts.registered).values()]
    address = address_of(webhooks[0]) if webhooks else None
    started = _options(facts.deployment) if isinstance(facts.deployment, Item) else []
    if given := [each.replace("=", " ") for each in started if each.startswith(("--service=", "--url="))]:
        return f"vgpu-webhook registration {given[0]}"
    if isinstance(address, ServiceReference):
        return f"vgpu-webhook registration --service {address.namespace}/{address.name}"
    return f"vgpu-webhook registration --{f'url {address}' if address else 'service NS/NAME'}"
