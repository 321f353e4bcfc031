"""A stage for single steps: a pod as JSON, vendors as documents, and a step run on them twice."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

from webhook.admission.decision import Allocation, Context, Namespace, Plan, PodSecurityLevel
from webhook.mapping.document.settings import Settings
from webhook.mapping.model import schema
from webhook.mapping.model.policy import compile_policy
from webhook.mapping.model.vendor import Vendor, draft_vendor
from webhook.patch import Operation, PodEdits, slots
from webhook.pod import decode_pod
from webhook.reasons import Finding, Reason
from webhook.request import ALL, UNLIMITED, Request, Size

MIB = 1024**2
SHARE = Request(1, Size(3000 * MIB), UNLIMITED)
WHOLE = Request(1, ALL, ALL)

DOCUMENT: dict[str, Any] = {
    "vendor": "acme",
    "family": "acme",
    "keys": {
        "gpu": {"resource": "{vendor}.com/gpu", "is": "devices"},
        "mem": {"resource": "{vendor}.com/mem", "is": "memory", "unit": "1Mi"},
        "core": {"resource": "{vendor}.com/core", "is": "cores"},
    },
    "forms": [{"name": "share", "absent": {"devices": 1, "memory": "all", "cores": "unlimited"}}],
}
SHIM: dict[str, Any] = {
    "limit": "env",
    "needs": ["memory"],
    "delivery": [{"hostPath": {"volume": "lib", "path": "/opt/host-lib", "mountPath": "/opt/lib"}}, "none"],
    "state": {
        "volume": "state",
        "emptyDir": {"sizeLimit": "64Mi"},
        "mounts": {"/tmp/lock": "lock", "/tmp/cache": "cache"},
    },
    "libraryPath": {"prefix": ["/opt/lib"], "imageDefault": ["/usr/lib/a", "/usr/lib/b"]},
    "preload": {"prefix": ["/opt/lib/limit.so"]},
    "env": {
        "ACME_MEMORY": "{memory}m",
        "ACME_CORES": "{cores}",
        "ACME_LIBRARY": "/opt/lib/limit.so",
        "ACME_CACHE": "/tmp/cache/{container}.cache",
    },
}
PLUGIN_SHIM: dict[str, Any] = {"limit": "plugin", "delivery": ["none"], "libraryPath": {"prefix": ["/opt/x", "/opt/y"]}}


def vendor(name: str = "acme", **parts: Any) -> Vendor:
    """A vendor with the usual three keys; `parts` are further keys of its document."""
    document = json.loads(json.dumps(DOCUMENT).replace("{vendor}", name))
    made, problems = draft_vendor(schema.Mapping.model_validate({**document, "vendor": name, **parts}), "test")
    assert made is not None, problems
    assert not problems
    return made


def pod(*containers: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod with these containers, or with one called ``main``."""
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers) or [{"name": "main"}], **spec}}


def env(*entries: tuple[str, str] | Mapping[str, Any]) -> list[dict[str, Any]]:
    """A list of variables: pairs of name and value, or whole entries."""
    return [{"name": entry[0], "value": entry[1]} if isinstance(entry, tuple) else dict(entry) for entry in entries]


def elsewhere(name: str) -> dict[str, Any]:
    """A variable that takes its value from a ConfigMap."""
    return {"name": name, "valueFrom": {"configMapKeyRef": {"name": "settings", "key": name}}}


@dataclass(frozen=True)
class Held:
    """What a container holds: by position among init containers, then containers."""

    vendor: Vendor
    request: Request = SHARE
    source: Vendor | None = None
    form: str | None = "share"


@dataclass(frozen=True)
class Scene:
    """The circumstances of a step."""

    held: Sequence[Held | None]
    namespace: Namespace = field(default_factory=lambda: Namespace("team"))
    security: PodSecurityLevel = "privileged"
    user: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What came of a step."""

    pod: dict[str, Any]
    patch: tuple[Operation, ...]
    findings: tuple[Finding, ...]
    deliveries: dict[str, str]

    @property
    def reasons(self) -> list[Reason]:
        """Why, in order."""
        return [finding.reason for finding in self.findings]

    @property
    def spec(self) -> dict[str, Any]:
        """The pod's spec."""
        spec: dict[str, Any] = self.pod["spec"]
        return spec

    def container(self, index: int = 0) -> dict[str, Any]:
        """A container as it came out."""
        container: dict[str, Any] = self.spec["containers"][index]
        return container

    def env(self, index: int = 0) -> dict[str, str | None]:
        """A container's variables: the last of a name, as the kubelet takes it; None for a value from elsewhere."""
        return {entry["name"]: entry.get("value") for entry in self.container(index).get("env", [])}


Step = Callable[[Plan], None]


def run_once(step: Step, sent: Mapping[str, Any], scene: Scene) -> Outcome:
    """Runs a step on a pod and applies its patch by the reference implementation."""
    view = decode_pod(json.dumps(sent).encode())
    places = slots(view)
    allocated = [(place, held) for place, held in zip(places, scene.held, strict=True) if held is not None]
    vendors = {v.name: v for _, held in allocated for v in (held.vendor, held.source or held.vendor)}
    work = Plan(
        view,
        Context(scene.namespace, scene.security, scene.user),
        compile_policy(vendors, Settings.model_validate(scene.settings), "0" * 12),
        PodEdits(view),
        places,
        allocations=tuple(
            Allocation(
                place,
                held.source or held.vendor,
                held.vendor,
                held.vendor,
                held.request,
                held.form,
                copy=None,
                moved=False,
                share=not held.request.whole,
            )
            for place, held in allocated
        ),
    )
    step(work)
    patch = work.edits.operations()
    # By way of text, as it goes over the wire: no part of the result is shared with the patch or the pod.
    after = jsonpatch.apply_patch(json.loads(json.dumps(sent)), json.loads(json.dumps(patch)))
    for finding in work.findings:
        assert len(finding.message) <= 200, finding.message
    return Outcome(after, patch, tuple(work.findings), work.deliveries)


def run(step: Step, sent: Mapping[str, Any], scene: Scene) -> Outcome:
    """Runs a step, and once more on what came out of it: the second time must change nothing."""
    outcome = run_once(step, sent, scene)
    again = run_once(step, outcome.pod, scene)
    assert again.patch == ()
    assert again.deliveries == outcome.deliveries
    return outcome
