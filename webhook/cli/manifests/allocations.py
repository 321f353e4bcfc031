"""Objects of Dynamic Resource Allocation in manifests, and what they say of the pods beside them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.admission import Context, Decision, decide
from webhook.admission.claims import claims_of, requested_key
from webhook.cli.manifests.manifest import Manifest, ManifestError
from webhook.cli.manifests.simulate import SimulateOptions, TreatedPod, treat
from webhook.cli.manifests.workloads import KubeObject, kube_object, list_items
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod
from webhook.reasons import Reason

GROUP: Final = "resource.k8s.io"

_REPORTED: Final = (Reason.CLAIM_BESIDE_REQUEST.code, Reason.NEAR_MISS.code)


@dataclass(frozen=True, slots=True)
class Allocations:
    """What manifests say of devices.

    Attributes:
        served: extended resource → the DeviceClass that serves it.
        claims: kind and name of a claim, or of a template of claims → the device classes that it requests.
        sources: DeviceClass → the file that it stands in.
    """

    served: Mapping[str, str]
    claims: Mapping[tuple[str, str], tuple[str, ...]]
    sources: Mapping[str, str]

    def notes(self, pods: Iterable[TreatedPod]) -> tuple[str, ...]:
        """What is known of what pods claim."""
        found = (note for one in pods for note in (*self.classes(one.pod), *self._served(one.pod)))
        return tuple(dict.fromkeys(found))

    def classes(self, pod: Pod) -> Iterator[str]:
        """The device classes of a pod's claims."""
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
    """The DeviceClasses and claims in manifests; what is no such object is passed over."""
    served: dict[str, str] = {}
    claims: dict[tuple[str, str], tuple[str, ...]] = {}
    sources: dict[str, str] = {}
    for one in _objects(manifests):
        if one.group != GROUP:
            continue
        spec = _map(one.data.get("spec"))
        resource = spec.get("extendedResourceName")
        if one.kind == "DeviceClass" and isinstance(resource, str):
            served[resource] = one.name
            sources[one.name] = one.manifest.source
        elif one.kind in {"ResourceClaim", "ResourceClaimTemplate"}:
            inner = spec if one.kind == "ResourceClaim" else _map(spec.get("spec"))
            claims[one.kind, one.name] = tuple(dict.fromkeys(_classes(_map(inner.get("devices")))))
    return Allocations(served, claims, sources)


def allocation_warnings(manifests: list[Manifest], policy: Policy) -> Iterator[str]:
    """What manifests hold that gets in the way of a policy.

    A DeviceClass for one of its keys, a claim beside a request, a misspelt key: the API server may never send the last one.
    """
    known = allocations(manifests)
    for resource, name in known.served.items():
        owners = policy.resources.owners(resource)
        if owners:
            yield f"{known.sources[name]}: deviceclass/{name} serves {resource}, which is a key of {owners[0].vendor}"
    others = {resource for resource in known.served if not policy.resources.owners(resource)}
    wishes = SimulateOptions(opt_in=policy.settings.opt_in_label)

    def decided(pod: Pod, context: Context) -> Decision:
        return decide(pod, context, policy)

    for manifest in manifests:
        try:
            objects = treat([manifest], decided, wishes).objects
        except ManifestError:
            continue  # it is documents that are checked, and this is none
        for one in objects:
            wrong = [text for text in one.denials if any(code in text for code in _REPORTED)]
            wrong = wrong or [text for treated in one.pods for text in _beside(treated.pod, policy, others)]
            classes = [text for treated in one.pods for text in known.classes(treated.pod) if wrong]
            yield from (f"{manifest.source}: {one.title}: {text}" for text in (*wrong, *classes))


def _beside(pod: Pod, policy: Policy, served: set[str]) -> Iterator[str]:
    """Claims by the name of a DeviceClass: only who knows the class can tell."""
    for container in (*(pod.spec.init_containers or ()), *pod.spec.containers):
        key = requested_key(container, policy)
        names = [name for name in claims_of(container, served) if name in served]
        if key and names:
            yield f"container {container.name}: {key} and the claim {names[0]} in one container"


def _objects(manifests: Iterable[Manifest]) -> Iterator[KubeObject]:
    for manifest in manifests:
        try:
            one = kube_object(manifest, manifest.data)
            yield from list_items(one) or [one]
        except ManifestError:
            continue


def _classes(devices: Mapping[str, Any]) -> Iterator[str]:
    """The classes of a claim's requests: in ``exactly`` or ``firstAvailable``, in ``v1beta1`` in the request itself."""
    requests = devices.get("requests")
    for request in requests if isinstance(requests, list) else ():
        first = _map(request).get("firstAvailable")
        for one in (request, _map(request).get("exactly"), *(first if isinstance(first, list) else ())):
            name = _map(one).get("deviceClassName")
            if isinstance(name, str):
                yield name


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
