"""``vgpu-webhook preview``: what the next pods of workloads would be, before anything is switched on.

The workloads come from manifests, or from a cluster: then also whether it can run what the policy would make of them.
"""

import datetime as dt
import itertools
import sys
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import click
import msgspec
from msgspec import structs

from webhook import labels
from webhook.admission import decide
from webhook.admission.claims import requested_key
from webhook.admission.decision import Context, Decision, Namespace
from webhook.cli.commands.check import as_text
from webhook.cli.files import Manifest, manifests_in
from webhook.cli.options import (
    GivenPath,
    PolicyCommand,
    PolicyOptions,
    end,
    files_option,
    in_cluster,
    output_option,
    policy_options,
    setting_names,
    strict_option,
)
from webhook.cli.policy_source import SourcedPolicy, sourced_policy
from webhook.cli.simulate import SKIPPED, SimulatedObject, simulate
from webhook.cli.terminal import FOUND, aligned, json_text, prose, table_width
from webhook.cluster.client import Api, StatusError, UnreadableError, found_at, object_pages, read_object, why
from webhook.cluster.registration.names import NOT_SENT, sends, sent_names
from webhook.doctor import Check, Result, counted
from webhook.doctor.checks import CHECKS, made
from webhook.doctor.reading import ClusterReader
from webhook.mapping.model.policy import Policy
from webhook.pod import ENDED, Pod
from webhook.reasons import Reason, explanation_of
from webhook.text import shown
from webhook.workloads import Kinds, workloads_of


@click.command(cls=PolicyCommand)
@files_option(required=False)
@click.option("-n", "--namespace", metavar="NAME", help="Only this namespace; of files: that of objects without one.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="All namespaces of the cluster.")
@policy_options
@click.option(
    "--set",
    "changes",
    metavar="KEY=VALUE",
    multiple=True,
    shell_complete=setting_names,
    help="Change a setting: bareDevices=whole; `vgpu-webhook schema settings` has them all.",
)
@click.option(
    "--compare",
    "other_values",
    metavar="OTHER-VALUES",
    type=GivenPath(path_type=Path),
    multiple=True,
    help="Only what would change with these values of the chart instead. Repeatable.",
)
@strict_option
@output_option("table", "json")
def preview(
    *,
    files: tuple[str, ...],
    namespace: str | None,
    everywhere: bool,
    source: PolicyOptions,
    changes: tuple[str, ...],
    other_values: tuple[Path, ...],
    strict: bool,
    output: str,
) -> None:
    """Show what the next pods of workloads would be if their namespaces had opted in and enforced the policy.

    Reads the workloads and pods that run in the cluster, page by page, and changes nothing; or manifests. For each: whether
    its pods would be unchanged, get a default, be translated, get another scheduler or the shim, or be denied, and why. A
    namespace's own annotations apply. The policy is the one in force in the cluster, or that of --values, or of --mappings
    and --settings, with the changes of --set. At the end: whether the cluster's nodes, scheduler and device plugins fit it.

    With --compare: of the workloads whose next pods would change, what they are and what they would be; a change is a finding.

    \b
    Examples:
      vgpu-webhook preview -A
      vgpu-webhook preview -n team --set bareDevices=whole
      vgpu-webhook preview -f manifests/
      vgpu-webhook preview -A --values values.yaml --compare new-values.yaml
    """  # noqa: D301  (click's mark for a paragraph that is not wrapped)
    if files and (everywhere or source.in_cluster or source.release_namespace is not None):
        raise click.UsageError("options of the cluster do not apply to files: remove the options, or -f")
    if not files and everywhere == (namespace is not None):
        raise click.UsageError("what should be previewed? -n NAME for one namespace, -A for all, or -f for manifests")
    # The cluster's workloads may be previewed under the policy of files.
    own = source._replace(context=None, kubeconfig=None, release_namespace=None)
    base = sourced_policy(own if source.from_files or files else source._replace(cluster=True))
    policies = [_changed(base, changes)]
    title = ", ".join([base.title, *changes])
    if other_values:
        other = sourced_policy(PolicyOptions(values=other_values))
        policies.append(other.policy)
        title = f"{title}; then {other.title}"
    found_in = _of_files(files, namespace, policies) if files else _of_cluster(source, policies, namespace)
    pods, unread, unjudged, checked = found_in
    found = compared(*pods) if other_values else preview_pods(pods[0])
    click.echo(preview_text(found, title, checked, output), nl=False)
    end(unread, unjudged, denied=bool(outcomes(found.pods)["denied"]), strict=strict)
    if found.pods and other_values:
        sys.exit(FOUND)


def _changed(base: SourcedPolicy, changes: tuple[str, ...]) -> Policy:
    """The policy with the settings of ``--set``."""
    from webhook.mapping.document import Document, MappingError, parse
    from webhook.mapping.model.policy import SETTINGS

    values: dict[str, Any] = {} if base.settings is None else dict(base.settings.data)
    try:
        for change in changes:
            key, equals, text = change.partition("=")
            if not equals:
                raise click.BadParameter(f"{change!r} has no value: write KEY=VALUE", param_hint="--set")
            for document in parse(f"{key}: {text}", change):
                values |= document.data
        return base.with_documents((), Document(SETTINGS, values, {}), partial=False) if changes else base.policy
    except MappingError as error:
        raise click.BadParameter("; ".join(str(problem) for problem in error.problems), param_hint="--set") from error


Effect: TypeAlias = Literal[
    "default filled", "whole devices", "translated", "other scheduler", "shim", "guard", "denied"
]
"""What would become of a pod; one without an effect is unchanged, or only completed. Whole devices: a count alone has them."""

_INJECTED: Final = frozenset({"hostPath", "image", "emptyDir", "csi"})
"""Deliveries that put something of ours into a container."""


@dataclass(frozen=True, slots=True)
class NextPod:
    """What the next pods of one template would be.

    Attributes:
        workload: its title, ``deployment/train``, with the path of the template if it has several.
        outcome: what admission would do.
        effects: what that changes for its author; empty for a pod that is stored as sent, or only completed.
        codes: the reason, and the warnings that it would cause.
        text: a line for each container, or why the pod is denied; and warnings that no effect says.
        listed: whether they do, or would cause a warning.
        stored: what would be written, whatever the digest of the policy is; pods of one template may differ in that.
        before: what they are under the policy that another one is compared with.
    """

    namespace: str
    workload: str
    outcome: Literal["unchanged", "changed", "denied"]
    effects: tuple[Effect, ...]
    codes: tuple[str, ...]
    text: str
    requests: bool = True
    listed: bool = True
    stored: bytes = field(default=b"", compare=False)
    before: "NextPod | None" = None


@dataclass(frozen=True, slots=True)
class Preview:
    """The next pods of all workloads: the listed ones, of a comparison those that would change, and how many others."""

    pods: tuple[NextPod, ...]
    others: int
    compared: bool = False

    @property
    def counted(self) -> tuple[NextPod, ...]:
        """Those that request devices; of a comparison all."""
        return self.pods if self.compared else tuple(pod for pod in self.pods if pod.requests)

    @property
    def effects(self) -> Mapping[str, int]:
        """The number of templates with each effect, the most frequent first."""
        return dict(Counter(effect for pod in self.pods for effect in pod.effects).most_common())

    @property
    def codes(self) -> Mapping[str, int]:
        """The number of templates with each code, the most frequent first."""
        return dict(Counter(code for pod in self.pods for code in pod.codes).most_common())

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, int]]:
        """The same as `outcomes` for each namespace."""
        return {space: outcomes(pods) for space, pods in itertools.groupby(self.counted, lambda pod: pod.namespace)}


def outcomes(pods: Iterable[NextPod]) -> Mapping[str, int]:
    """The numbers of unchanged, changed and denied templates."""
    counts = Counter(pod.outcome for pod in pods)
    return {outcome: counts[outcome] for outcome in ("unchanged", "changed", "denied")}


def next_pods(objects: Iterable[SimulatedObject], policy: Policy) -> Iterator[NextPod]:
    """Decide on the pods of objects as if each namespace had opted in and enforced the policy; see `simulate`."""
    match = sent_names(policy)
    for simulated_object in objects:
        several = len(simulated_object.pods) > 1
        for part in simulated_object.pods:
            title = f"{simulated_object.title}, {part.path}" if several else simulated_object.title
            sent = match is None or sends(part.pod, match)
            yield _next_pod(part.pod, part.context, title, policy, sent=sent)


def preview_pods(pods: Sequence[NextPod]) -> Preview:
    """Preview pods: the listed ones, each once, and the number of the others."""
    found = dict.fromkeys(pod for pod in pods if pod.listed)
    return Preview(tuple(sorted(found, key=_place)), sum(not (pod.listed and pod.requests) for pod in pods))


def compared(pods: Sequence[NextPod], then: Sequence[NextPod]) -> Preview:
    """Preview what would change for pods under another policy; those of a kind that only one policy knows do not count."""
    places: dict[tuple[str, str], list[NextPod]] = {}
    for pod in pods:
        places.setdefault(_place(pod), []).append(pod)
    found: list[NextPod] = []
    for pod in then:
        same_place = places.get(_place(pod))
        before = same_place.pop(0) if same_place else pod
        changed = (before, before.stored) != (pod, pod.stored)
        text = f"{pod.text}; stored otherwise" if before == pod else pod.text
        same = replace(pod, listed=False)
        found.append(replace(pod, before=before, text=text, requests=True, listed=True) if changed else same)
    return replace(preview_pods(found), compared=True)


def _place(pod: NextPod) -> tuple[str, str]:
    return pod.namespace, pod.workload


def enforced(namespace: Namespace, policy: Policy) -> Namespace:
    """A namespace as if it had opted in, with the mode ``enforce`` for all of its workloads; its annotations apply."""
    kept = {key: text for key, text in namespace.labels.items() if key not in {labels.MODE, labels.ROLLOUT}}
    return structs.replace(namespace, labels={**kept, policy.settings.opt_in_label: labels.ENABLED})


def _next_pod(pod: Pod, context: Context, title: str, policy: Policy, *, sent: bool) -> NextPod:
    context = structs.replace(context, namespace=enforced(context.namespace, policy))
    decision = decide(pod, context, policy)
    keys = (requested_key(container, policy) for container in pod.spec.containers or ())
    skipped = decision.reason in SKIPPED and any(keys)
    requests = bool(decision.vendors or decision.reason is Reason.LEFT or skipped)
    findings = (*decision.warnings, *([] if decision.denial is None else [decision.denial]))
    codes = tuple(dict.fromkeys(finding.reason.code for finding in findings))
    space = context.namespace.name
    if not sent and findings:
        text = "; ".join([NOT_SENT, *(each.text for each in findings)])
        return NextPod(space, title, "unchanged", (), codes, text, requests=False)
    if decision.denial is not None:
        return NextPod(space, title, "denied", ("denied",), codes, decision.denial.text)
    changes = bool(decision.patch_json)
    text = _summary(decision) if changes else f"{'skipped: ' * skipped}{explanation_of(decision.reason).title}"
    text = "; ".join([text, *(each.text for each in decision.warnings if each.reason not in _SAID)])
    outcome: Literal["changed", "unchanged"] = "changed" if changes else "unchanged"
    stored = decision.patch_json.replace(policy.digest.encode(), b"")
    listed, effects = requests or bool(decision.warnings), tuple(_effects(decision))
    return NextPod(space, title, outcome, effects, codes, text, requests, listed, stored)


_SAID: Final = frozenset({Reason.DEFAULT_FILLED, Reason.SCHEDULER_SET})
"""Warnings whose effect says all."""


def _effects(decision: Decision) -> Iterator[Effect]:
    containers: Sequence[Mapping[str, Any]] = tuple(decision.status.get("containers", {}).values())
    filled = [container for container in containers if "defaults" in container]
    whole = ["memory" in each["defaults"] and each["request"]["memory"] == "100%" for each in filled]
    if not all(whole):
        yield "default filled"
    if any(whole):
        yield "whole devices"
    if any("target" in container for container in containers):
        yield "translated"
    if any(operation["path"] == "/spec/schedulerName" for operation in decision.patch):
        yield "other scheduler"
    if any(container.get("shim") in _INJECTED for container in containers):
        yield "shim"
    if any(finding.reason is Reason.GUARD_STRIPPED for finding in decision.warnings):
        yield "guard"


def _summary(decision: Decision) -> str:
    """The summary that the pod would be stored with, in one line."""
    for operation in decision.patch:
        value = operation.get("value")
        if operation["path"] == f"/metadata/annotations/{labels.SUMMARY.replace('/', '~1')}":
            return "; ".join(str(value).splitlines())
        if operation["path"] == "/metadata/annotations" and isinstance(value, dict):
            return "; ".join(str(value[labels.SUMMARY]).splitlines())
    return ""


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
    check._replace(section="before you opt namespaces in")
    for check in CHECKS
    if check.name in {"resources", "sharing", "scheduler", "shim"}
)
"""The checks of an installation that need no installation."""


async def pods_of(
    api: Api, policies: Sequence[Policy], namespace: str | None
) -> tuple[Sequence[Sequence[NextPod]], tuple[str, ...]]:
    """Return the next pods of the workloads of a namespace, or of all of them; only read, page by page.

    Raises:
        UnreachableError: the cluster does not answer.
    """
    unread: list[str] = []
    around: dict[str, Manifest] = {}
    try:
        async for page in object_pages(api, "/api/v1/namespaces", KubeData):
            around |= {found_at(each, str, "metadata", "name") or "": _namespace(each) for each in page}
    except (StatusError, UnreadableError) as error:
        unread.append(f"namespaces could not be read, so their annotations are unknown: {error}")
    pods: list[list[NextPod]] = [[] for _ in policies]
    collections = dict(_COLLECTIONS)
    try:
        kinds = {key: kind for policy in policies for key, kind in workloads_of(policy.settings).items()}
        collections = await _collections(api, kinds)
    except (StatusError, UnreadableError) as error:
        unread.append(f"API groups could not be read, so other kinds are unknown: {error}")
    for (version, kind), resource in collections.items():
        try:
            async for data in _listed(api, namespace, version, resource):
                try:
                    manifests = _root(data, (version, kind), around, collections)
                    found = [simulate(manifests, policy) for policy in policies]
                    next_ = [[*next_pods(each.objects, policy)] for each, policy in zip(found, policies, strict=True)]
                except Exception as error:  # noqa: BLE001  (whatever an object is, the others are shown)
                    unread.append(f"{resource} {_title(data)} could not be judged: {why(error)}")
                    continue
                unread += (str(error) for each in found for error in each.errors)
                for all_pods, more in zip(pods, next_, strict=True):
                    all_pods.extend(more)
        except (StatusError, UnreadableError) as error:
            unread.append(f"not all {resource} could be read: {error}")
    unread += map(str, api.unread)
    api.unread.clear()
    return pods, tuple(dict.fromkeys(unread))


def _root(
    data: KubeData, kind: tuple[str, str], around: Mapping[str, Manifest], collections: Collection[tuple[str, str]]
) -> list[Manifest]:
    """An object with its namespace; nothing if another object of these kinds makes it again, or it has ended."""
    owner = _controller(data)
    kinds = {(each.rpartition("/")[0], name) for each, name in collections}
    # A controller may name another version of its kind.
    if _ended(data) or (owner is not None and (owner["apiVersion"].rpartition("/")[0], owner["kind"]) in kinds):
        return []
    manifest = _manifest(_again(data, kind[1], owner), *kind)
    space = around.get(str(manifest.data["metadata"].get("namespace", "")))
    return [manifest] if space is None else [space, manifest]


def _title(data: KubeData) -> str:
    names = (found_at(data, str, "metadata", key) for key in ("namespace", "name"))
    return "/".join(filter(None, names)) or "(unknown)"


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


async def _listed(api: Api, namespace: str | None, version: str, resource: str) -> AsyncIterator[KubeData]:
    """Yield the objects of a resource, of one namespace or of all."""
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    within = "" if namespace is None else f"/namespaces/{namespace}"
    async for page in object_pages(api, f"{root}{within}/{resource}", KubeData):
        for data in page:
            yield data


def _namespace(data: KubeData) -> Manifest:
    metadata = found_at(data, dict, "metadata") or {}
    return _manifest(
        {"metadata": {key: metadata[key] for key in ("name", "labels", "annotations") if key in metadata}},
        "v1",
        "Namespace",
    )


def _manifest(data: KubeData, version: str, kind: str) -> Manifest:
    name = found_at(data, str, "metadata", "name") or "?"
    return Manifest(f"{kind.lower()}/{name}", {"apiVersion": version, "kind": kind, **data}, {(): 1})


def _controller(data: Mapping[str, Any]) -> Mapping[str, str] | None:
    owners: Iterable[Any] = data["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _ended(data: Mapping[str, Any]) -> bool:
    """Whether it is a pod or a job that has ended: it makes no further pod."""
    status = data.get("status") or {}
    conditions = [each.get("type") for each in status.get("conditions") or () if each.get("status") == "True"]
    return status.get("phase") in ENDED or not _OVER.isdisjoint(conditions)


def _again(data: KubeData, kind: str, owner: Mapping[str, str] | None) -> KubeData:
    """An object as it would be created anew: a pod without its node, and without the name that only it has."""
    if kind != "Pod":
        return data
    spec = {key: value for key, value in data["spec"].items() if key != "nodeName"}
    metadata = (
        data["metadata"] if owner is None else {**data["metadata"], "name": f"of {owner['kind']} {owner['name']}"}
    )
    return {**data, "metadata": metadata, "spec": spec}


Checked: TypeAlias = Sequence[tuple[Check[Any], Result]]
Read: TypeAlias = tuple[Sequence[Sequence[NextPod]], Sequence[str], Sequence[str], Checked]
"""The pods under each policy, what could not be read, what nothing judged, and whether the cluster can run the pods of
the last one."""


def _of_files(files: tuple[str, ...], namespace: str | None, policies: Sequence[Policy]) -> Read:
    manifests, problems = manifests_in(files)
    found = [simulate(manifests, policy, problems=problems, namespace=namespace) for policy in policies]
    pods = [[*next_pods(each.objects, policy)] for each, policy in zip(found, policies, strict=True)]
    unread = dict.fromkeys(str(error) for each in found for error in each.errors)
    return pods, tuple(unread), tuple(dict.fromkeys(text for each in found for text in each.unjudged)), ()


def _of_cluster(source: PolicyOptions, policies: Sequence[Policy], namespace: str | None) -> Read:
    async def read(api: Api, release: str) -> Read:
        pods, unread = await pods_of(api, policies, namespace)
        return (
            pods,
            unread,
            (),
            await made(READINESS, ClusterReader(api, release, dt.datetime.now(dt.UTC), policies[-1])),
        )

    return in_cluster(source, read)


HEADINGS: Final = ("NAMESPACE", "WORKLOAD", "BECOMES", "")


def preview_text(found: Preview, source: str, checked: Checked, output: str) -> str:
    """Format a preview as `output` says: ``table`` or ``json``."""
    if output == "json":
        return json_text(_data(found, source, checked))
    return "\n".join(_table(found, source, checked))


def _data(found: Preview, source: str, checked: Checked) -> dict[str, Any]:
    return {
        "policy": source,
        "pods": [_pod_data(pod) for pod in found.pods],
        "outcomes": outcomes(found.counted),
        "effects": found.effects,
        "codes": found.codes,
        "namespaces": found.namespaces,
        "others" if found.compared else "withoutRequest": found.others,
        "cluster": [{"name": check.name, **msgspec.to_builtins(result)} for check, result in checked],
    }


def _pod_data(pod: NextPod) -> dict[str, Any]:
    data = {name: getattr(pod, name) for name in ("namespace", "workload", "outcome", "effects", "codes", "text")}
    return data if pod.before is None else {**data, "before": _pod_data(pod.before)}


def _table(found: Preview, source: str, checked: Checked) -> Iterator[str]:
    yield f"as if every namespace had opted in and enforced; policy: {source}"
    yield ""
    if found.pods:
        yield "".join(_row_lines([HEADINGS, *(row for pod in found.pods for row in _rows(pod))]))
    which, others = ("that would change", "others") if found.compared else ("with a GPU request", "without one")
    yield f"{counted(len(found.counted), 'template')} {which}: {_counts(outcomes(found.counted))}"
    yield f"{others}: {found.others}"
    for what, counts in (("effects", found.effects), ("codes", found.codes)):
        if counts:
            yield from prose(f"{what}: {_counts(counts)}", rest="  ")
    if len(found.namespaces) > 1:
        yield from (f"namespace {name}: {_counts(counts)}" for name, counts in found.namespaces.items())
    if checked:
        yield ""
        yield as_text(checked).rstrip()
    yield ""


def _row_lines(rows: Sequence[tuple[str, str, str, str]]) -> Iterator[str]:
    """Yield the lines of a table, details below a row beside which they do not fit."""
    width = table_width()
    for lines, (*_, details) in zip(aligned([cells for *cells, _ in rows], width), rows, strict=True):
        if lines.count("\n") == 1 and len(beside := f"{lines[:-1]}  {details}".rstrip()) <= width:
            yield f"{beside}\n"
        else:
            yield lines
            yield from (f"{line}\n" for line in prose(details, "  ", "    ", width))


def _rows(pod: NextPod) -> Iterator[tuple[str, str, str, str]]:
    """Yield the row of a pod; of a comparison one with what it is, and one with what it would be."""
    cells = _cells(pod)
    if pod.before is None:
        yield cells
    else:
        yield _cells(pod.before)
        yield "", "→ then", *cells[2:]


def _cells(pod: NextPod) -> tuple[str, str, str, str]:
    effects = ", ".join(pod.effects) or ("completed" if pod.outcome == "changed" else "unchanged")
    return pod.namespace, shown(pod.workload), effects, shown(pod.text)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())
