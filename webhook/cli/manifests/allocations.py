"""Objects of Dynamic Resource Allocation in manifests, and what follows for the pods beside them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.admission import Context, Decision, decide
from webhook.admission.claims import claims_of, requested_key
from webhook.cli.manifests.manifest import Manifest, ManifestError
from webhook.cli.manifests.simulate import SimulatedPod, SimulateOptions, simulate
from webhook.cli.manifests.workloads import KubeObject, kube_object, list_items
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod
from webhook.reasons import Reason

GROUP: Final = "resource.k8s.io"

_REPORTED: Final = (Reason.CLAIM_BESIDE_REQUEST.code, Reason.NEAR_MISS.code)


@dataclass(frozen=True, slots=True)
class Allocations:
    """The DeviceClasses and claims in manifests.

    Attributes:
        served: extended resource → the DeviceClass that serves it.
        claims: kind and name of a claim, or of a template of claims → the device classes that it requests.
        sources: DeviceClass → its file.
    """

    served: Mapping[str, str]
    claims: Mapping[tuple[str, str], tuple[str, ...]]
    sources: Mapping[str, str]

    def notes(self, pods: Iterable[SimulatedPod]) -> tuple[str, ...]:
        """Describe the claims of pods, as far as they are known."""
        notes = (note for simulated in pods for note in (*self.classes(simulated.pod), *self._served(simulated.pod)))
        return tuple(dict.fromkeys(notes))

    def classes(self, pod: Pod) -> Iterator[str]:
        """Describe the device classes of a pod's claims."""
        for claim in pod.spec.resource_claims or ():
            for kind, name in (
                ("ResourceClaimTemplate", claim.resource_claim_template_name),
                ("ResourceClaim", claim.resource_claim_name),
            ):
                classes = self.claims.get((kind, name or ""))
                if classes:
                    yield f"the claim {claim.name} is of the device class {' and '.join(classes)}"

    def _served(self, pod: Pod) -> Iterator[str]:
        for container in (*(pod.spec.init_containers or ()), *pod.spec.containers):
            for name in claims_of(container, self.served):
                if name in self.served:
                    yield f"container {container.name}: {name} is served by the DeviceClass {self.served[name]}"


def allocations(manifests: Iterable[Manifest]) -> Allocations:
    """Collect the DeviceClasses and claims in manifests; other objects are skipped."""
    served: dict[str, str] = {}
    claims: dict[tuple[str, str], tuple[str, ...]] = {}
    sources: dict[str, str] = {}
    for obj in _objects(manifests):
        if obj.group != GROUP:
            continue
        spec = _map(obj.data.get("spec"))
        resource = spec.get("extendedResourceName")
        if obj.kind == "DeviceClass" and isinstance(resource, str):
            served[resource] = obj.name
            sources[obj.name] = obj.manifest.source
        elif obj.kind in {"ResourceClaim", "ResourceClaimTemplate"}:
            inner = spec if obj.kind == "ResourceClaim" else _map(spec.get("spec"))
            claims[obj.kind, obj.name] = tuple(dict.fromkeys(_classes(_map(inner.get("devices")))))
    return Allocations(served, claims, sources)


def allocation_warnings(manifests: list[Manifest], policy: Policy) -> Iterator[str]:
    """Warn of what conflicts with a policy: a DeviceClass for one of its keys, a claim beside a request, a misspelled key.

    A pod with a misspelled key may never reach the webhook, because the match conditions do not let it through.
    """
    known = allocations(manifests)
    for resource, name in known.served.items():
        owners = policy.resources.owners(resource)
        if owners:
            yield f"{known.sources[name]}: deviceclass/{name} serves {resource}, which is a key of {owners[0].vendor}"
    others = {resource for resource in known.served if not policy.resources.owners(resource)}
    options = SimulateOptions(opt_in=policy.settings.opt_in_label)

    def decided(pod: Pod, context: Context) -> Decision:
        return decide(pod, context, policy)

    for manifest in manifests:
        try:
            objects = simulate([manifest], decided, options).objects
        except ManifestError:
            continue  # not an object: only documents are checked for errors
        for simulated in objects:
            problems = [text for text in simulated.denials if any(code in text for code in _REPORTED)]
            problems = problems or [text for part in simulated.pods for text in _beside(part.pod, policy, others)]
            classes = [text for part in simulated.pods for text in known.classes(part.pod) if problems]
            yield from (f"{manifest.source}: {simulated.title}: {text}" for text in (*problems, *classes))


def _beside(pod: Pod, policy: Policy, served: set[str]) -> Iterator[str]:
    """Find claims by the resource name of a DeviceClass, which only the DeviceClass reveals."""
    for container in (*(pod.spec.init_containers or ()), *pod.spec.containers):
        key = requested_key(container, policy)
        names = [name for name in claims_of(container, served) if name in served]
        if key and names:
            yield f"container {container.name}: {key} and the claim {names[0]} in one container"


def _objects(manifests: Iterable[Manifest]) -> Iterator[KubeObject]:
    for manifest in manifests:
        try:
            obj = kube_object(manifest, manifest.data)
            yield from list_items(obj) or [obj]
        except ManifestError:
            continue


def _classes(devices: Mapping[str, Any]) -> Iterator[str]:
    """The classes of a claim's requests: in ``exactly`` or ``firstAvailable``, with ``v1beta1`` in the request itself."""
    requests = devices.get("requests")
    for request in requests if isinstance(requests, list) else ():
        first = _map(request).get("firstAvailable")
        for part in (request, _map(request).get("exactly"), *(first if isinstance(first, list) else ())):
            name = _map(part).get("deviceClassName")
            if isinstance(name, str):
                yield name


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
