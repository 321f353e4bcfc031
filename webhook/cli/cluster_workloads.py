"""The workloads that run in a cluster, as manifests, and whether the cluster can run what a policy would make of them."""

import datetime as dt
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from webhook.cli.manifests.files import Manifest
from webhook.cli.manifests.preview import NextPod, Preview, preview_objects
from webhook.cli.manifests.simulate import simulate_under
from webhook.cluster.client.api import Api, StatusError, object_pages, read_object
from webhook.doctor.checks import CHECKS
from webhook.doctor.collect import collect_readiness
from webhook.doctor.result import Check, Result
from webhook.mapping.model.policy import Policy
from webhook.workloads import Kinds, workloads_of

KubeData: TypeAlias = dict[str, Any]

_COLLECTIONS: Final[Mapping[tuple[str, str], str]] = {
    **{("apps/v1", kind): f"{kind.lower()}s" for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")},
    ("batch/v1", "CronJob"): "cronjobs",
    ("batch/v1", "Job"): "jobs",
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("v1", "Pod"): "pods",
}
"""API version and kind → the resource. Others, see `_collections`."""

_OVER: Final = frozenset({"Complete", "Completed", "Succeeded", "Failed"})
"""Conditions of a workload that makes no further pod."""

READINESS: Final = tuple(
    replace(check, section="before you opt namespaces in", needs="")
    for check in CHECKS
    if check.name in {"resources", "sharing", "scheduler", "shim"}
)
"""The checks of an installation that need no installation."""


async def preview_of(api: Api, policy: Policy, namespace: str | None) -> tuple[Preview, tuple[str, ...]]:
    """Preview the workloads of a namespace, or of all of them; only read, page by page.

    Returns:
        The preview, and why objects could not be read.

    Raises:
        UnreachableError: the cluster does not answer.
    """
    unread: list[str] = []
    around: dict[str, Manifest] = {}
    try:
        async for page in object_pages(api, "/api/v1/namespaces", KubeData):
            around |= {each["metadata"]["name"]: _manifest(each, "v1", "Namespace") for each in page}
    except StatusError as error:
        unread.append(f"namespaces could not be read, so their annotations are unknown: {error}")
    pods: list[NextPod] = []
    others = 0
    collections = dict(_COLLECTIONS)
    try:
        collections = await _collections(api, workloads_of(policy.settings))
    except StatusError as error:
        unread.append(f"API groups could not be read, so other kinds are unknown: {error}")
    for (version, kind), resource in collections.items():
        try:
            async for manifest in _roots(api, namespace, version, kind, collections):
                space = around.get(str(manifest.data["metadata"].get("namespace", "")))
                manifests = [manifest] if space is None else [space, manifest]
                outcome = simulate_under(manifests, policy)
                unread += map(str, outcome.errors)
                found = preview_objects(outcome.objects, policy)
                pods += found.pods
                others += found.others
        except StatusError as error:
            unread.append(f"not all {resource} could be read: {error}")
    unique = sorted(dict.fromkeys(pods), key=lambda pod: (pod.namespace, pod.workload))
    return Preview(tuple(unique), others), tuple(unread)


async def _collections(api: Api, kinds: Kinds) -> dict[tuple[str, str], str]:
    """Return the kinds that contain pods in the cluster, with their resources: of others, only those with pod templates.

    The pods that a controller assembles are judged as they run: what an object says of them is not all.

    Raises:
        StatusError: the server answers with an error.
    """
    known = {key: kind.pods for key, kind in kinds.items() if all(pod.template for pod in kind.pods)}
    found: dict[tuple[str, str], str] = {}
    for group in (await read_object(api, "/apis", KubeData))["groups"]:
        name, version = group["name"], group["preferredVersion"]["groupVersion"]
        if name in _OWN_GROUPS or not any(pods for (each, _), pods in known.items() if each == name):
            continue
        for resource in (await read_object(api, f"/apis/{version}", KubeData))["resources"]:
            # Subresources have a slash, and objects of the cluster no namespace that could say how to decide.
            if resource["namespaced"] and "/" not in resource["name"] and known.get((name, resource["kind"])):
                found[version, resource["kind"]] = resource["name"]
    return {**found, **_COLLECTIONS}


_OWN_GROUPS: Final = frozenset({version.partition("/")[0] for version, _ in _COLLECTIONS if "/" in version})


async def _roots(
    api: Api, namespace: str | None, version: str, kind: str, collections: Mapping[tuple[str, str], str]
) -> AsyncIterator[Manifest]:
    """Yield what nothing else of these kinds makes again: workloads, and pods of other controllers in their name."""
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    within = "" if namespace is None else f"/namespaces/{namespace}"
    kinds = {(each.rpartition("/")[0], name) for each, name in collections}
    async for page in object_pages(api, f"{root}{within}/{collections[version, kind]}", KubeData):
        for data in page:
            owner = _controller(data)
            # A controller may name another version of its kind.
            if not _ended(data) and (
                owner is None or (owner["apiVersion"].rpartition("/")[0], owner["kind"]) not in kinds
            ):
                yield _manifest(_again(data, kind, owner), version, kind)


def _manifest(data: KubeData, version: str, kind: str) -> Manifest:
    name = data.get("metadata", {}).get("name", "?")
    return Manifest(f"{kind.lower()}/{name}", {"apiVersion": version, "kind": kind, **data}, {(): 1})


def _controller(data: Mapping[str, Any]) -> Mapping[str, str] | None:
    owners: Iterable[Any] = data["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _ended(data: Mapping[str, Any]) -> bool:
    """Whether it is a pod or a job that has ended: it makes no further pod."""
    status = data.get("status") or {}
    conditions = [each.get("type") for each in status.get("conditions") or () if each.get("status") == "True"]
    return status.get("phase") in {"Succeeded", "Failed"} or not _OVER.isdisjoint(conditions)


def _again(data: KubeData, kind: str, owner: Mapping[str, str] | None) -> KubeData:
    """An object as it would be created anew: a pod without its node, and without the name that only it has."""
    if kind != "Pod":
        return data
    spec = {key: value for key, value in data["spec"].items() if key != "nodeName"}
    metadata = (
        data["metadata"] if owner is None else {**data["metadata"], "name": f"of {owner['kind']} {owner['name']}"}
    )
    return {**data, "metadata": metadata, "spec": spec}


async def readiness_of(api: Api, policy: Policy, release: str) -> list[tuple[Check[Any], Result]]:
    """Check whether nodes, scheduler and shim are there for what a policy writes, before anything is installed."""
    facts = await collect_readiness(api, release, dt.datetime.now(dt.UTC), policy)
    return [(check, check.judge(facts)) for check in READINESS]
