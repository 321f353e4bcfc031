"""The properties of ``docs/behavior.md``, What always holds: those that need no opinion on what a request means."""

from collections.abc import Iterator
from typing import Any

from tests.fuzz.environment import KAI_MAPS, MARKS, PLAIN, SWITCHES
from tests.fuzz.misspelled import PREFIX
from tests.fuzz.oracle.names import name_of
from tests.fuzz.oracle.quantity import UnreadableError, quantity
from tests.fuzz.trial import Finding, Trial, all_containers
from tests.strict_patch import PatchError
from webhook.reasons import MAX_SENTENCE, ReasonKind
from webhook.review import MAX_DENIAL

Json = dict[str, Any]

REQUEST_KEYS = (
    *(
        "gpu-fraction",
        "gpu-memory",
        "nvidia.com/container.",
        "tensor-fusion.ai/",
        "vke.volcengine.com/container-multiple-gpu",
    ),
    *(f"{PREFIX}container.", "tke.cloud.tencent.com/app-class", f"{PREFIX}status", f"{PREFIX}summary", "huawei.com/"),
)
"""How annotations begin that carry a request, or are ours."""


def plain_findings(trial: Trial) -> Iterator[Finding]:
    """Everything that is wrong with a decision and its patch."""
    yield from _shape(trial)
    if trial.decision.patch_json:
        try:
            yield from _patched(trial)
        except PatchError as error:
            yield Finding("2 the patch applies strictly", str(error))


def _shape(trial: Trial) -> Iterator[Finding]:
    decision = trial.decision
    if decision.allowed != (decision.denial is None) or (decision.denial is not None and decision.patch_json):
        yield Finding("decision agrees with itself", f"allowed {decision.allowed}, denial {decision.denial}")
    if decision.denial is not None:
        denial = decision.denial
        if denial.reason.kind is not ReasonKind.DENIAL:
            yield Finding("a denial's reason is one", denial.text)
        if "\n" in denial.sentence or len(denial.sentence) > MAX_DENIAL:
            yield Finding("a message is one bounded line", denial.sentence)
        names = (container["name"] for container in all_containers(trial.case.pod))
        if not (
            denial.container or denial.field or "/" in denial.message or any(name in denial.message for name in names)
        ):
            yield Finding("a denial names container or key", denial.text)
    for finding in decision.warnings:
        if (
            "\n" in finding.text
            or len(finding.sentence) > MAX_SENTENCE
            or not finding.text.startswith(finding.reason.code)
        ):
            yield Finding("a message is one bounded line", finding.text)
    mode = trial.case.labels.get(f"{PREFIX}mode", "enforce")
    if (mode != "enforce" or trial.skipped) and (decision.patch_json or not decision.allowed):
        yield Finding("who is not to be touched is not", f"mode {mode}, {decision.reason.name}")
    if mode == "audit" and decision.warnings:
        yield Finding("who is only observed is not told", decision.warnings[0].text)


def _patched(trial: Trial) -> Iterator[Finding]:
    stored, second = trial.stored, trial.second
    if second.denial is not None:
        yield Finding("1 the second pass changes nothing", f"denied: {second.denial.text}", _vendor(trial))
    elif second.patch_json:
        yield Finding("1 the second pass changes nothing", second.patch_json.decode(), _vendor(trial))
    yield from _survives(trial)
    if b"futureField" in trial.raw and _futures(stored) != _futures(trial.case.pod):
        yield Finding("3 unknown fields survive", "futureField")
    for before, after in trial.containers():
        if before.get("resources") != after.get("resources"):  # who is left alone keeps what the API server may reject
            yield from _sides_agree(after, trial.written(after["name"]))


def _survives(trial: Trial) -> Iterator[Finding]:
    """What is the user's stays: labels, annotations, volumes, mounts, variables, foreign resources."""
    pod, stored = trial.case.pod, trial.stored
    yield from _containers_survive(trial)
    labels, stored_labels = (each["metadata"].get("labels") or {} for each in (pod, stored))
    switches = {f"{PREFIX}changed", *(key for _, key, _ in SWITCHES)}
    if not {(key, text) for key, text in labels.items() if key not in switches} <= stored_labels.items():
        yield Finding("3 what is the user's survives", f"labels {labels} became {stored_labels}")
    notes, left = (each["metadata"].get("annotations") or {} for each in (pod, stored))
    for key, text in notes.items():
        if left.get(key) != text and not key.startswith(REQUEST_KEYS) and key not in {*MARKS, *switches, KAI_MAPS}:
            yield Finding("3 what is the user's survives", f"annotation {key}: {text} became {left.get(key)}")
    volumes = pod["spec"].get("volumes") or []
    if KAI_MAPS in notes and KAI_MAPS not in left:
        volumes = [volume for volume in volumes if not refers(volume.get("configMap"), notes[KAI_MAPS])]
    if (stored["spec"].get("volumes") or [])[: len(volumes)] != volumes:
        yield Finding("3 what is the user's survives", "volumes")


def _containers_survive(trial: Trial) -> Iterator[Finding]:
    for before, after in trial.containers():
        if before == after:
            continue
        mounts = before.get("volumeMounts") or []
        kept = after.get("volumeMounts") or []
        if "VGW606" in trial.codes:  # the guard has removed some; that they lift is for property 6
            mounts = [mount for mount in mounts if mount in kept]
        if kept[: len(mounts)] != mounts:
            yield Finding("3 what is the user's survives", "volumeMounts")
        plain = [_plain(container, trial) for container in (before, after)]
        if plain[0] != plain[1]:
            yield Finding("3 what is the user's survives", f"env {plain[0]} became {plain[1]}")
        for side in ("limits", "requests"):
            if _foreign(before, side) != _foreign(after, side):
                yield Finding(
                    "3 what is the user's survives", f"{side} {_foreign(before, side)}: {_foreign(after, side)}"
                )


def refers(reference: Json | None, beginning: str) -> bool:
    """Whether a reference to a ConfigMap is to one whose name begins so."""
    return bool(beginning) and reference is not None and str(reference.get("name", "")).startswith(f"{beginning}-")


def _sides_agree(container: Json, written: Json) -> Iterator[Finding]:
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in {**limits, **requests}:
        if name_of(name) is None:
            continue
        try:
            if name in limits and name in requests and quantity(limits[name]) == quantity(requests[name]):
                continue
            if name not in limits and quantity(requests[name]) == 0:
                continue
        except UnreadableError:
            pass
        # Beside a limit of the user's the API server writes the missing request itself.
        if name in limits and name not in requests and name not in written:
            continue
        yield Finding("4 limits and requests agree", f"{name}: {limits.get(name)} and {requests.get(name)}")


def _futures(pod: Any) -> list[Any]:
    found: list[Any] = []
    members = pod.items() if isinstance(pod, dict) else enumerate(pod) if isinstance(pod, list) else ()
    for key, value in members:
        found.extend([value] if key == "futureField" else _futures(value))
    return found


def _plain(container: Json, trial: Trial) -> list[Json]:
    beginning = (trial.case.pod["metadata"].get("annotations") or {}).get(KAI_MAPS, "")
    return [
        entry
        for entry in container.get("env") or []
        if entry["name"] in PLAIN and not refers((entry.get("valueFrom") or {}).get("configMapKeyRef"), beginning)
    ]


def _foreign(container: Json, side: str) -> Json:
    carried = (container.get("resources") or {}).get(side) or {}
    return {name: value for name, value in carried.items() if name_of(name) is None}


def _vendor(trial: Trial) -> str:
    return next((read.vendor for read in trial.before if read.vendor), "")
