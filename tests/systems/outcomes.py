"""What becomes of the shapes beside a system, as a table."""

import copy
import json
import re
import subprocess
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cache import say
from tests.controlplane.client import Answer, Object
from tests.controlplane.product import PROGRAM, WEBHOOK, Product, registered, serving
from tests.controlplane.written import STATUS
from webhook import labels

from .place import Place, Running, System
from .shapes import Shape, Share, shapes

PATIENCE = 60.0
"""Seconds for a pod that fits."""
PENDING = 10.0
"""Seconds until a pod that no node has room for counts as pending."""
SETTLED = 3.0
"""Seconds after which a pod that was bound without devices gets none."""
FIRST = "nvidia-size"
ORDERS = {"theirs first": "0-theirs", "ours first": "z-theirs"}
POLICIES = ("Never", "IfNeeded")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one pod.

    Attributes:
        given: what was given to each container of a placed pod.
        denied: the code of the denial.
        left: the pod is as it was sent.
        scheduler: that a pod as it was sent names.
        why: what is said in the conditions of a pending pod.
    """

    given: Mapping[str, Share] | None = None
    denied: str = ""
    left: bool = False
    scheduler: str = ""
    why: str = ""

    @property
    def pending(self) -> bool:
        """Neither placed nor denied, though it is for the system."""
        return self.given is None and not self.denied and not self.left

    def __str__(self) -> str:
        if self.denied:
            return f"denied: {self.denied}"
        if self.left:
            return f"left as sent, for {self.scheduler}"
        if self.given is None:
            return "pending"
        if not self.given:
            return "placed without devices"
        return f"placed: {'; '.join(f'{name} {share}' for name, share in self.given.items())}"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of all.

    Attributes:
        outcomes: of each shape, with the webhook alone.
        orders: for an order and a reinvocation policy, the shapes whose stored pod differs, with how.
        told: what `check` says of the order, for each.
        memory_mib: the most that each program used.
        seconds: that it took.
    """

    outcomes: Mapping[str, Outcome]
    orders: Mapping[tuple[str, str], Mapping[str, str]]
    told: Mapping[tuple[str, str], str]
    memory_mib: Mapping[str, int]
    seconds: float


def tried(system: System, place: Place) -> Result:
    """Try every shape beside a system."""
    began = time.monotonic()
    options = opted_in(place, {"target": system.target, **system.settings})
    if system.mapping is not None:
        folder = place.folder / "mappings"
        folder.mkdir()
        (folder / f"{system.target}.yaml").write_text(yaml.safe_dump({"extends": system.target, **system.mapping}))
        options += ["--mappings", folder]
    place.created(
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"}
    )
    selector = place.selector()
    probe = _in(place, next(each for each in shapes() if each.name == FIRST).pod)
    with system.start(place) as running, serving(place.folder, options) as product:
        with registered(product, place.plane, selector, probe, "00-vgpu-webhook"):
            with _theirs(place, running, "z-theirs", "IfNeeded", selector) if running.needed else nullcontext():
                if not system.lacking:
                    _warmed(place, running, product)
                patience = PENDING if system.lacking else PATIENCE
                outcomes = {shape.name: _placed(place, running, product, shape, patience) for shape in shapes()}
            both = list(_orders(place, running, selector)) if running.webhook is not None else []
        memory = peaks(place)
    orders = {order: differing for order, differing, _ in both}
    return Result(outcomes, orders, {order: told for order, _, told in both}, memory, time.monotonic() - began)


def opted_in(place: Place, chosen: Mapping[str, Any]) -> list[str | Path]:
    """Create the namespace of the pods, and return the options of a webhook that has settings and treats pods in there."""
    settings = {"apiVersion": "vgpu-webhook.io/v1alpha1", "kind": "Settings", "bareDevices": "whole", **chosen}
    labelled = {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}
    metadata = {"name": place.namespace, "labels": labelled}
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    place.plane.create_namespace(namespace)
    options: list[str | Path] = []
    for option, content in {"settings": settings, "namespaces": namespace}.items():
        file = place.folder / f"{option}.yaml"
        file.write_text(yaml.safe_dump(content))
        options += [f"--{option}", file]
    return options


def table(system: System, result: Result) -> str:
    """The text of the golden file, below its first line."""
    lines = [f"lacks: {system.lacking}", ""] if system.lacking else []
    lines += [f"{name:32} {outcome}" for name, outcome in result.outcomes.items()]
    for order in ORDERS:
        found = {policy: result.orders[order, policy] for policy in POLICIES if (order, policy) in result.orders}
        same = len({str(differing) for differing in found.values()}) == 1
        for policy, differing in list(found.items())[: 1 if same else None]:
            lines += ["", f"{order}{'' if same else f', {policy}'}: {'differs' if differing else 'as without theirs'}"]
            for how in dict.fromkeys(differing.values()):
                names = ", ".join(name for name, other in differing.items() if other == how)
                lines += [f"  {how}", textwrap.fill(names, 120, initial_indent="    ", subsequent_indent="    ")]
    if result.told:
        lines += ["", "what `check` says of the order"]
        lines += [f"  {order}, {policy}: {told}" for (order, policy), told in result.told.items()]
    return "\n".join([*lines, ""])


def _in(place: Place, pod: Object) -> Object:
    return {**pod, "metadata": {**pod["metadata"], "namespace": place.namespace}}


def _denied(answer: Answer) -> str:
    code = re.search(r"VGW\d+", answer.message)
    assert WEBHOOK in answer.message, answer.message
    assert code is not None, answer.message
    return code[0]


def _warmed(place: Place, running: Running, product: Product) -> None:
    """Wait until the system places a pod that fits: it reads Nodes now and then."""
    first = next(shape for shape in shapes() if shape.name == FIRST)
    deadline = time.monotonic() + 2 * PATIENCE
    while not (outcome := _placed(place, running, product, first)).given:
        assert time.monotonic() < deadline, f"{first.name} is {outcome}: {outcome.why}"


def _placed(place: Place, running: Running, product: Product, shape: Shape, patience: float = PATIENCE) -> Outcome:
    """Create a pod, wait until it is placed or has no room, and delete it."""
    client = place.plane.client
    answer = client.create(_in(place, shape.pod))
    if answer.status != 201:
        return Outcome(denied=_denied(answer))
    try:
        spec = answer.body["spec"]
        treated = STATUS in answer.body["metadata"].get("annotations", {})
        requested = {key for each in spec["containers"] for key in each["resources"].get("limits", ())}
        if not treated and spec["schedulerName"] == "default-scheduler" and running.serves not in requested:
            return Outcome(left=True, scheduler=spec["schedulerName"])
        deadline, bound = time.monotonic() + (patience if shape.room else PENDING), False
        while True:
            place.check()
            product.process.check()
            pod = client.get("v1", "pods", shape.name, place.namespace).accepted()
            if pod["spec"].get("nodeName"):
                if given := running.given(pod):
                    return Outcome(given)
                deadline, bound = deadline if bound else time.monotonic() + SETTLED, True
            if time.monotonic() > deadline:
                why = "; ".join(each.get("message", "") for each in pod["status"].get("conditions", ()))
                return Outcome({} if bound else None, why=why)
            time.sleep(0.1)
    finally:
        client.delete("v1", "pods", shape.name, place.namespace).accepted()
        running.tidy()


def _orders(place: Place, running: Running, selector: Object) -> Iterator[tuple[tuple[str, str], dict[str, str], str]]:
    """Both orders under both policies: what differs in stored pods from those without their webhook, and what `check` says."""
    alone = {shape.name: _stored(place, shape) for shape in shapes()}
    for order, name in ORDERS.items():
        for policy in POLICIES:
            with _theirs(place, running, name, policy, selector):
                found = {shape.name: _difference(alone[shape.name], _stored(place, shape)) for shape in shapes()}
                told = _told(place)
            yield (order, policy), {each: how for each, how in found.items() if how}, told


def _told(place: Place) -> str:
    """What `check` says of the order: how bad it is, and the first line."""
    command = [*PROGRAM, "check", "--kubeconfig", str(place.plane.kubeconfig), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    [found] = [each for each in json.loads(done.stdout)["checks"] if each["name"] == "order"]
    return f"{found['level']}: {found['message']}"


def _stored(place: Place, shape: Shape) -> Object | str:
    answer = place.plane.client.create(_in(place, shape.pod), dry_run=True)
    return answer.body if answer.status == 201 else _denied_by_any(answer)


def _denied_by_any(answer: Answer) -> str:
    code = re.search(r"VGW\d+", answer.message)
    return f"denied: {code[0]}" if code else f"denied by theirs: {answer.message.partition(': ')[2]}"


def _difference(alone: Object | str, beside: Object | str) -> str:
    """What their webhook changes, in a few words: paths of what is written otherwise."""
    if isinstance(alone, str) or isinstance(beside, str):
        return "" if alone == beside else str(beside) if isinstance(beside, str) else "accepted"
    return ", ".join(sorted(set(_differing(_comparable(alone), _comparable(beside), ""))))


def _comparable(pod: Object) -> Object:
    """Without what the API server writes anew for each pod, its random volume, and what the webhook says of its own work."""
    pod = copy.deepcopy(pod)
    for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        container["resources"].pop("requests", None)  # the API server's copy of the limits
    metadata = {
        kind: {
            key: text for key, text in (pod["metadata"].get(kind) or {}).items() if not key.startswith(labels.PREFIX)
        }
        for kind in ("labels", "annotations")
    }
    text = re.sub(
        r"kube-api-access-[a-z0-9]+", "kube-api-access", yaml.safe_dump({"metadata": metadata, "spec": pod["spec"]})
    )
    read: Object = yaml.safe_load(text)
    return read


def _differing(alone: Any, beside: Any, path: str) -> Iterator[str]:
    if isinstance(alone, dict) and isinstance(beside, dict):
        for key in sorted(alone.keys() | beside.keys(), key=str):
            if alone.get(key) != beside.get(key):
                yield from _differing(alone.get(key), beside.get(key), f"{path}.{key}" if path else key)
    elif isinstance(alone, list) and isinstance(beside, list) and len(alone) == len(beside):
        for number, (each, other) in enumerate(zip(alone, beside, strict=True)):
            yield from _differing(each, other, f"{path}[{number}]")
    else:
        where = path.removeprefix("spec.").replace(".resources.", ".")
        yield f"{where}: {_short(beside)}"


def _short(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"{len(value)} {'entries' if isinstance(value, list) else 'keys'}"
    # Names that are made for one pod are not those of the next run.
    return "none" if value is None else re.sub(r"^\S+-[a-z0-9]{7}-shared-gpu", "POD-*-shared-gpu", str(value))


@contextmanager
def _theirs(place: Place, running: Running, name: str, policy: str, selector: Object) -> Iterator[None]:
    """Their webhook as their installation registers it, but for the namespaces, the order and the policy."""
    assert running.webhook is not None
    client = place.plane.client
    configuration = copy.deepcopy(running.webhook)
    configuration["metadata"] = {"name": name}
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"] = {"url": running.url, "caBundle": running.bundle or place.certificate.bundle()}
        webhook["reinvocationPolicy"] = policy
        webhook["namespaceSelector"] = selector
        webhook["failurePolicy"] = "Fail"
    client.create(configuration).accepted()
    try:
        time.sleep(2)  # An API server takes a moment to learn of a registration.
        yield
    finally:
        client.delete(configuration["apiVersion"], "mutatingwebhookconfigurations", name).accepted()
        time.sleep(2)


def peaks(place: Place) -> dict[str, int]:
    """The most memory that each running program of a system has used, in MiB."""
    return {process.name: _peak_mib(process.pid) for process in place.started}


def tell(config: pytest.Config, name: str, seconds: float, memory: Mapping[str, int]) -> None:
    """Print what a run took, past pytest's capture."""
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        say(f"\n{name}: {seconds:.0f} s; at most {', '.join(f'{each} {mib} MiB' for each, mib in memory.items())}")


def _peak_mib(pid: int) -> int:
    with Path(f"/proc/{pid}/status").open() as status:
        [line] = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) // 1024
