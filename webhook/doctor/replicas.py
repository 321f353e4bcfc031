"""The webhook's own pods: whether they are ready; if not, what the kubelet and the scheduler say of them."""

from collections.abc import Sequence
from typing import Final

from webhook.cluster.client import Object, each_at, found_at, list_objects
from webhook.cluster.events import MAX_MESSAGE, shortened
from webhook.cluster.registration.stored import webhooks_of
from webhook.cluster.registration.wanted import MUTATING, PORT, ServiceReference
from webhook.doctor.reading import ClusterReader, Item, read_or, reads
from webhook.doctor.result import Result, counted, error, first_of, ok, warning

_LABEL: Final = "app.kubernetes.io/component=webhook"
"""Of the Deployment that serves reviews, and of its pods."""

_USUAL: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of waiting that say nothing; what delays them is in Events only."""


@reads("the webhook's Deployment", "list deployments.apps in {release}")
async def deployment(seen: ClusterReader) -> Item | None:
    """The webhook's, in its own namespace; None if there is none."""
    path = f"/apis/apps/v1/namespaces/{seen.release}/deployments"
    return next(iter(await list_objects(seen.api, path, Item, {"labelSelector": _LABEL})), None)


@reads("the webhook's pods", "list pods in {release}")
async def _pods(seen: ClusterReader) -> list[Item]:
    """Those that are not being deleted."""
    found = await list_objects(seen.api, f"/api/v1/namespaces/{seen.release}/pods", Item, {"labelSelector": _LABEL})
    return [each for each in found if each.metadata.deletion_timestamp is None]


async def replicas(seen: ClusterReader) -> Result:
    """Are the webhook's pods ready?"""
    made = await deployment(seen)
    if made is None:
        return ok(f"{seen.release} has no Deployment of the webhook: it runs elsewhere")
    pods, wanted = await _pods(seen), found_at({"replicas": 1} | made.spec, int, "replicas") or 0
    if wanted == 0:
        hint = f"kubectl scale --namespace {seen.release} deployment/{made.name} --replicas 2"
        return error("the webhook's Deployment is scaled to 0 pods", hint=hint)
    waiting = [pod for pod in pods if not _is_ready(pod)]
    number = len(pods) - len(waiting)
    message = f"{number} of {counted(wanted, 'pod')} ready"
    if number >= wanted and not waiting:
        return ok(message)
    message += f", {len(waiting)} not" if number >= wanted else ""
    refused = made.condition("ReplicaFailure")
    lines = [f"{pod.name}: {_state_of(pod)}" for pod in waiting]
    lines += [f"no pod can be made: {refused.get('message')}"] * (refused.get("status") == "True")
    return (error if number == 0 else warning)(message, *first_of(lines), hint=_next(waiting, seen))


def _next(waiting: Sequence[Item], seen: ClusterReader) -> str:
    """Where to look for why pods are not ready."""
    if any(_ended(each) for pod in waiting for each in _unready(pod)):
        return f"{logs(seen)} --previous"
    if any(pod.status.get("phase") == "Running" for pod in waiting):
        return f"see why: {logs(seen)}"
    what = "pods" if waiting else "replicasets"
    return f"kubectl describe {what} --namespace {seen.release} --selector {_LABEL}"


def _state_of(pod: Item) -> str:
    """Why a pod is not ready, as the kubelet or the scheduler says it."""
    if said := next(filter(None, map(_said_of, _unready(pod))), None):
        return said
    unplaced = pod.condition("PodScheduled")
    if unplaced.get("status") == "False":
        return f"Pending: {unplaced.get('reason')}: {unplaced.get('message')}"
    phase = found_at(pod.status, str, "phase") or "Pending"
    why = [found_at(pod.status, str, each) for each in ("reason", "message")]
    why += [found_at(each, str, "state", "waiting", "reason") for each in _unready(pod)][:1]
    return ": ".join(filter(None, (phase, *why))) + (", but not ready" if phase == "Running" else "")


def _said_of(container: Object) -> str:
    """Why a container waits, and how it ended last; empty if that says nothing."""
    reason, message = (found_at(container, str, "state", "waiting", key) or "" for key in ("reason", "message"))
    last = _ended(container)
    if reason in _USUAL and not last:
        return ""
    said = f"{reason}: {message}" if message else reason or "not ready"
    return f"{said}; {last}" if last else said


def _ended(container: Object) -> str:
    """How a container ended last; empty if it did not."""
    ended = found_at(container, dict, "state", "terminated") or found_at(container, dict, "lastState", "terminated")
    if not ended:
        return ""
    said = ": ".join(str(ended[each]).strip() for each in ("reason", "message") if ended.get(each))
    told = f" ({shortened(said, MAX_MESSAGE)})" if said else ""
    return f"ended last with exit code {ended.get('exitCode')}{told}"


def _unready(pod: Item) -> list[Object]:
    """The statuses of its containers that are not ready."""
    every = (*each_at(pod.status, "initContainerStatuses"), *each_at(pod.status, "containerStatuses"))
    return [each for each in every if each.get("ready") is not True]


def _is_ready(pod: Item) -> bool:
    return pod.condition("Ready").get("status") == "True"


def logs(seen: ClusterReader) -> str:
    """The command that prints the replicas' logs."""
    return f"kubectl logs --namespace {seen.release} --selector {_LABEL}"


async def _options(seen: ClusterReader) -> list[str]:
    """The options that the replicas are started with, as far as that is known."""
    made = await read_or(None, deployment(seen)) or Item()
    containers = each_at(made.spec, "template", "spec", "containers")
    return [str(option) for each in containers for option in found_at(each, list, "args") or ()]


async def where_none_acts(seen: ClusterReader) -> str:
    """What to do where a replica would have acted: look at the pods, at the mode, or else at the logs."""
    pods = await read_or(None, _pods(seen))
    if pods is None or await read_or(None, deployment(seen)) is None:
        return f"is a replica running? {logs(seen)}"
    if not any(map(_is_ready, pods)):
        return "no pod of the webhook is ready: see replicas above"
    if "--registration=static" in await _options(seen):
        return f"in the mode static you apply it: {await printed(seen)} --ca-file FILE"
    return f"see why: {logs(seen)}"


async def printed(seen: ClusterReader) -> str:
    """The command that prints the desired configuration for the current address."""
    given = [each for each in await _options(seen) if each.startswith(("--service=", "--url="))]
    if given:
        return f"vgpu-webhook registration {given[0].replace('=', ' ')}"
    found = await read_or(None, seen.configuration(MUTATING))
    address = next(map(address_of, webhooks_of(found or {}).values()), None)
    if isinstance(address, ServiceReference):
        return f"vgpu-webhook registration --service {address.namespace}/{address.name}"
    return f"vgpu-webhook registration --{f'url {address}' if address else 'service NS/NAME'}"


def address_of(webhook: Object) -> ServiceReference | str | None:
    """Where an API server calls one webhook of a configuration; None if that cannot be used."""
    service = found_at(webhook, dict, "clientConfig", "service")
    if service is None:
        return found_at(webhook, str, "clientConfig", "url")
    namespace, name, path = str(service.get("namespace")), str(service.get("name")), str(service.get("path") or "/")
    return ServiceReference(namespace, name, path, service.get("port") or PORT)
