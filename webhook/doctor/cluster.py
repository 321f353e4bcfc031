"""Checks of the cluster as a whole: its API server, the documents in force, what the webhook has reported."""

import datetime as dt
import re
from http import HTTPStatus
from typing import Final

from webhook.cluster.client import ApiError, Object, StatusError, found_at, list_objects, read_object
from webhook.cluster.events import COMPONENT, MAX_MESSAGE, shortened
from webhook.cluster.policy.choose import PolicyOutcome
from webhook.cluster.policy.documents import NO_SETTINGS, StoredConfigMap, config_map, overlooked
from webhook.doctor.reading import ClusterReader, moment, read_or, reads, remembered, told_by, unread
from webhook.doctor.result import Result, UnansweredError, counted, error, first_of, ok, warning
from webhook.mapping.document.strict import API_VERSION
from webhook.mapping.requests.values import unreadable

OLDEST: Final = (1, 30)
"""Match conditions of webhooks are stable since this version of Kubernetes; without them, an outage blocks all pods."""

_HEADER: Final = re.compile("^[\"']?apiVersion[\"']? *:", re.MULTILINE)
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
    if unread_vendors := list(unreadable(found.policy.vendors.values())):
        hint = "add its mapping as a ConfigMap, or change the setting `owners`"
        return warning(f"{counted(len(unread_vendors), 'vendor')} cannot be read yet", *unread_vendors, hint=hint)
    if headless := [name for name, text in found.accepted.items() if not _HEADER.search(text)]:
        hint = f"write apiVersion: {API_VERSION} and kind: Mapping, or Settings, into each"
        message = f"{counted(len(headless), 'document')} without apiVersion, read as {API_VERSION}"
        return warning(message, *headless, hint=hint)
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
    at = "" if last is None else f", last at {last.astimezone(dt.UTC):%H:%M:%S} UTC"
    reason, message = (found_at(event, str, key) or "" for key in ("reason", "message"))
    kind, name = (found_at(event, str, "involvedObject", key) or "" for key in ("kind", "name"))
    times = counted(found_at(event, int, "count") or 1, "time")
    return f"{reason}: {kind.lower()}/{name}: {shortened(message, MAX_MESSAGE)} ({times}{at})"


def _last(event: Object) -> dt.datetime | None:
    """When it occurred last; None if that cannot be read."""
    return moment(found_at(event, str, "lastTimestamp"))
