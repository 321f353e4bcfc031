"""DeviceClasses and claims in manifests: of which classes the claims of pods are, and what they request."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.admission.claims import claims_of
from webhook.cli.manifests.files import Manifest, ManifestError
from webhook.cli.manifests.workloads import KubeObject, flattened, kube_object, mapping_or_empty
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod

GROUP: Final = "resource.k8s.io"


@dataclass(frozen=True, slots=True)
class ManifestClaims:
    """The DeviceClasses and claims in manifests.

    Attributes:
        served: extended resource → the DeviceClass that serves it.
        claims: kind and name of a claim, or of a template of claims → the device classes that it requests.
        sources: DeviceClass → its file.
    """

    served: Mapping[str, str]
    claims: Mapping[tuple[str, str], tuple[str, ...]]
    sources: Mapping[str, str]

    def notes(self, pods: Iterable[Pod]) -> tuple[str, ...]:
        """Describe the claims of pods, as far as they are known."""
        return tuple(dict.fromkeys(note for pod in pods for note in (*self.classes(pod), *self._served(pod))))

    def of_gpus(self, policy: Policy) -> frozenset[str]:
        """Return the classes of GPUs: those of mappings, and those that serve a key; without those of `otherDeviceClasses`."""
        serving = {name for resource, name in self.served.items() if policy.resources.owners(resource)}
        return (policy.device_classes | serving).difference(policy.settings.other_device_classes)

    def classes(self, pod: Pod) -> Iterator[str]:
        """Describe the device classes of a pod's claims."""
        for claim, classes in self.by_claim(pod).items():
            yield f"the claim {claim} is of the device class {' and '.join(classes)}"

    def by_claim(self, pod: Pod) -> dict[str, tuple[str, ...]]:
        """Return the device classes of a pod's claims, as far as they are known."""
        return {claim: classes for claim, name in _named(pod) if (classes := self.claims.get(name))}

    def _served(self, pod: Pod) -> Iterator[str]:
        for container in (*(pod.spec.init_containers or ()), *pod.spec.containers):
            for name in claims_of(container, self.served):
                if name in self.served:
                    yield f"container {container.name}: {name} is served by the DeviceClass {self.served[name]}"


def _named(pod: Pod) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the claims of a pod, each with the kind and name of its object."""
    for claim in pod.spec.resource_claims or ():
        if claim.resource_claim_template_name:
            yield claim.name, ("ResourceClaimTemplate", claim.resource_claim_template_name)
        elif claim.resource_claim_name:
            yield claim.name, ("ResourceClaim", claim.resource_claim_name)


def claims_in(manifests: Iterable[Manifest]) -> ManifestClaims:
    """Collect the DeviceClasses and claims in manifests; other objects are skipped."""
    served: dict[str, str] = {}
    claims: dict[tuple[str, str], tuple[str, ...]] = {}
    sources: dict[str, str] = {}
    for obj in _objects(manifests):
        if obj.group != GROUP:
            continue
        spec = mapping_or_empty(obj.data.get("spec"))
        resource = spec.get("extendedResourceName")
        if obj.kind == "DeviceClass" and isinstance(resource, str):
            served[resource] = obj.name
            sources[obj.name] = obj.manifest.source
        elif obj.kind in {"ResourceClaim", "ResourceClaimTemplate"}:
            inner = spec if obj.kind == "ResourceClaim" else mapping_or_empty(spec.get("spec"))
            claims[obj.kind, obj.name] = tuple(dict.fromkeys(_classes(mapping_or_empty(inner.get("devices")))))
    return ManifestClaims(served, claims, sources)


def _objects(manifests: Iterable[Manifest]) -> Iterator[KubeObject]:
    for manifest in manifests:
        try:
            yield from flattened(kube_object(manifest, manifest.data))
        except ManifestError:
            continue


def _classes(devices: Mapping[str, Any]) -> Iterator[str]:
    """The classes of a claim's requests: in ``exactly`` or ``firstAvailable``, with ``v1beta1`` in the request itself."""
    requests = devices.get("requests")
    for request in requests if isinstance(requests, list) else ():
        first = mapping_or_empty(request).get("firstAvailable")
        for part in (request, mapping_or_empty(request).get("exactly"), *(first if isinstance(first, list) else ())):
            name = mapping_or_empty(part).get("deviceClassName")
            if isinstance(name, str):
                yield name
