"""Checks of the cluster as a whole: its API server, the webhook's own pods, the documents in force, what was reported."""

import datetime as dt
import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Final

from webhook.cluster.client import ApiError, Object, StatusError, each_at, found_at, list_objects, read_object
from webhook.cluster.events import COMPONENT, MAX_MESSAGE, shortened
from webhook.cluster.policy.choose import PolicyOutcome
from webhook.cluster.policy.documents import NO_SETTINGS, StoredConfigMap, config_map, overlooked
from webhook.cluster.registration.stored import address_of, webhooks_of
from webhook.cluster.registration.wanted import MUTATING, ServiceReference
from webhook.doctor import Result, UnansweredError, counted, error, first_of, ok, warning
from webhook.doctor.reading import ClusterReader, Item, moment, read_or, reads, remembered, told_by, unread
from webhook.mapping.load import load_policy
from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy
from webhook.mapping.values import unconfigured_size

OLDEST: Final = (1, 30)
"""Match conditions of webhooks are stable since this version of Kubernetes; without them, an outage blocks all pods."""

_VERSION: Final = re.compile(r"v(\d+)\.(\d+)")


@remembered
async def version(seen: ClusterReader) -> str:
    """The version of the API server; an `UnansweredError` has an error where nobody answers, else a warning."""
    try:
        found = await read_object(seen.api, "/version", Object)
    except ApiError as problem:
        if isinstance(problem, StatusError) and problem.status != HTTPStatus.UNAUTHORIZED:
            raise unread("the version of the API server", told_by(problem), "get the path /version") from problem
        hint = "try kubectl version, or set --kubeconfig"
        raise UnansweredError(error("the API server does not answer", str(problem), hint=hint)) from problem
    return found_at(found, str, "gitVersion") or "of an unknown version"


async def server(seen: ClusterReader) -> Result:
    """Does the API server answer, and is it 1.30 or newer?"""
    told = await version(seen)
    found = _VERSION.match(told)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST:
        hint = f"Kubernetes {'.'.join(map(str, OLDEST))} or newer is required"
        return error(f"the API server is {told}, without match conditions", hint=hint)
    return ok(f"the API server answers: {told}")


_LABEL: Final = "app.kubernetes.io/component=webhook"
"""Of the Deployment that serves reviews, and of its pods."""


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
    if any(found_at(each, dict, "lastState", "terminated") for pod in waiting for each in _unready(pod)):
        return f"{logs(seen)} --previous"
    if any(pod.status.get("phase") == "Running" for pod in waiting):
        return f"see why: {logs(seen)}"
    what = "pods" if waiting else "replicasets"
    return f"kubectl describe {what} --namespace {seen.release} --selector {_LABEL}"


def _state_of(pod: Item) -> str:
    """Why a pod is not ready, as the kubelet or the scheduler says it."""
    unplaced = pod.condition("PodScheduled")
    said = [found_at(each, dict, "state", "waiting") or {} for each in _unready(pod)]
    said += [unplaced] * (unplaced.get("status") == "False")
    why = next((each for each in (*said, pod.status) if each.get("reason")), {})
    phase = found_at(pod.status, str, "phase") or "Pending"
    told = [phase, *(str(why[each]) for each in ("reason", "message") if why.get(each))]
    return ": ".join(told) if told != ["Running"] else "Running, but not ready"


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


@reads("the ConfigMaps", "list configmaps in {release}")
async def _overlooked(seen: ClusterReader) -> list[str]:
    """The ConfigMaps with a document that the webhook does not read, each with the reason."""
    path = f"/api/v1/namespaces/{seen.release}/configmaps"
    every = map(config_map, await list_objects(seen.api, path, StoredConfigMap))
    return [f"configmap/{each.name}: {why}" for each in every if (why := overlooked(each)) is not None]


async def mappings(seen: ClusterReader) -> Result:
    """Are there settings, are the documents of all ConfigMaps in force, and can the keys of all vendors in force be read?"""
    try:
        found = await seen.outcome()
    except UnansweredError as problem:
        told, assumed = problem.result, "the checks below assume the built-in mappings"
        return warning(told.message, *told.details, assumed, hint=told.hint)
    edit = f"kubectl edit --namespace {seen.release}"
    if rejected := [verdict for verdict in found.verdicts if not verdict.accepted]:
        lines = (line for verdict in rejected for line in verdict.lines())
        return error(f"{counted(len(rejected), 'document')} not in force", *lines, hint=f"{edit} {rejected[0].name}")
    if unseen := await read_or([], _overlooked(seen)):
        message = f"{counted(len(unseen), 'ConfigMap')} with a document that the webhook does not read"
        return warning(message, *unseen, hint=f"{edit} configmap/NAME")
    documents = f"{counted(len(found.verdicts), 'document')} of {seen.release}"
    return _incomplete(found, seen.release) or ok(f"{documents} in force, policy {found.policy.digest}")


def _incomplete(found: PolicyOutcome, release: str) -> Result | None:
    if not found.has_settings:
        return warning(NO_SETTINGS, hint=f"create it in {release}, for instance by helm upgrade")
    if told := list(doubts(found.policy)):
        hint = "add their mappings as ConfigMaps, or change the settings"
        return warning(f"{counted(len(told), 'vendor')} to configure", *told, hint=hint)
    return None


CLUSTER_WIDE: Final = "default"
"""The namespace of Events about cluster-wide objects."""

RECENT: Final = dt.timedelta(hours=1)
"""How long API servers keep Events unless configured otherwise (``--event-ttl``)."""

SELECTOR: Final = f"source={COMPONENT},type=Warning"


@reads("the webhook's Events", f"list events in {{release}} and {CLUSTER_WIDE}")
async def _events(seen: ClusterReader) -> list[Object]:
    """The webhook's Warning Events of the last hour, the newest first."""
    paths = [f"/api/v1/namespaces/{namespace}/events" for namespace in dict.fromkeys((seen.release, CLUSTER_WIDE))]
    query = {"fieldSelector": SELECTOR}
    found = [event for path in paths for event in await list_objects(seen.api, path, Object, query)]
    recent = [event for event in found if seen.now - (_last(event) or seen.now) < RECENT]
    return sorted(recent, key=lambda event: _last(event) or seen.now, reverse=True)


async def reported(seen: ClusterReader) -> Result:
    """What has the webhook reported as Warning Events within the last hour?"""
    events = await _events(seen)
    if not events:
        return ok("the webhook has reported nothing within the last hour")
    reasons = ", ".join(sorted({found_at(event, str, "reason") or "" for event in events}))
    hint = f"if it recurs: docs/runbook.md; kubectl get events --all-namespaces --field-selector {SELECTOR}"
    message = f"{counted(len(events), 'Event')} of the webhook within the last hour: {reasons}"
    return warning(message, *first_of([*map(_line, events)]), hint=hint)


def _line(event: Object) -> str:
    last = _last(event)
    at = "" if last is None else f" (at {last.astimezone(dt.UTC):%H:%M:%S} UTC)"
    reason, message = (found_at(event, str, key) or "" for key in ("reason", "message"))
    kind, name = (found_at(event, str, "involvedObject", key) or "" for key in ("kind", "name"))
    return f"{reason}: {kind.lower()}/{name}: {shortened(message, MAX_MESSAGE)}{at}"


def _last(event: Object) -> dt.datetime | None:
    """When it occurred last; None if that cannot be read."""
    return moment(found_at(event, str, "lastTimestamp"))


def doubts(policy: Policy) -> Iterator[str]:
    """Yield the vendors to configure, those that are served in vain, and families that are probably misspelled."""
    for vendor in policy.vendors.values():
        if not vendor.inactive and (why := unconfigured_size(vendor)) is not None:
            yield f"{vendor.name} is in force, but its keys cannot be read until it is configured: {why}"
        if vendor.inactive and vendor.name in policy.settings.served:
            owned = {name: policy.resources.owners(name) for name in index([vendor], "resource").exact}
            for name, (owner, *_) in [(name, owners) for name, owners in owned.items() if owners][:1]:
                yield (
                    f"`served` names {vendor.name} in vain: {name} is read as a key of {owner.vendor}; "
                    f"write `owners: {{{name}: {vendor.name}}}` beside it, or remove it"
                )
    yield from families_meant((vendor.name, vendor.family) for vendor in policy.vendors.values())


def families_meant(vendors: Iterable[tuple[object, object]]) -> Iterator[str]:
    """Yield the families, each with its vendor, that are probably misspelled ones of the built-in vendors."""
    families = sorted({vendor.family for vendor in load_policy().vendors.values()})
    for name, family in vendors:
        near = difflib.get_close_matches(str(family), families, n=1, cutoff=0.8)
        if near and family not in families:
            yield f"{name}: no other mapping has the family {family} (did you mean `{near[0]}`?)"
