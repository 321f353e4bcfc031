"""DeviceClasses and claims in manifests: of which classes the claims of pods are, and what they request."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from webhook.admission.claims import claims_of
from webhook.cli.manifests.files import Manifest, ManifestError
from webhook.cli.manifests.templates import read_template
from webhook.cli.manifests.workloads import KubeObject, flattened, kube_object, mapping_or_empty
from webhook.mapping.model.policy import Policy
from webhook.mapping.requests.reading import read
from webhook.pod import Pod
from webhook.reasons import Denied

GROUP: Final = "resource.k8s.io"


@dataclass(frozen=True, slots=True)
class ManifestClaims:
    """The DeviceClasses and claims in manifests.

    Attributes:
        served: extended resource → the DeviceClass that serves it.
        claims: kind and name of a claim, or of a template of claims → the device classes that it requests.
        sources: DeviceClass → its file.
        specs: kind and name of a claim, or of a template of claims → the content of a template of it.
    """

    served: Mapping[str, str]
    claims: Mapping[tuple[str, str], tuple[str, ...]]
    sources: Mapping[str, str]
    specs: Mapping[tuple[str, str], Any]

    def notes(self, pods: Iterable[Pod], policy: Policy) -> tuple[str, ...]:
        """Describe the claims of pods, as far as they are known."""
        notes = (
            note for pod in pods for note in (*self.classes(pod), *self._requests(pod, policy), *self._served(pod))
        )
        return tuple(dict.fromkeys(notes))

    def of_gpus(self, policy: Policy) -> frozenset[str]:
        """Return the classes of GPUs: those of mappings, and those that serve a key; without those of `otherDeviceClasses`."""
        serving = {name for resource, name in self.served.items() if policy.resources.owners(resource)}
        return (policy.device_classes | serving).difference(policy.settings.other_device_classes)

    def _requests(self, pod: Pod, policy: Policy) -> Iterator[str]:
        """Describe what the claims of a pod request, if they are such as this webhook writes."""
        for claim, kind in _named(pod):
            found = read_template(self.specs.get(kind), policy.vendors.values())
            if found is None:
                continue
            several = len(found.requests) > 1
            for name, entries in found.requests.items():
                key_values = {entry.key_name: entry for entry in entries}
                with suppress(Denied):
                    reading = read(found.vendor, key_values, {}, policy.largest_card, claim)
                    part, same = (f" ({name})", "; all on one device") if several else ("", "")
                    yield f"the claim {claim}{part} requests {reading.request}, by {found.vendor.name}{same}"

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
    specs: dict[tuple[str, str], Any] = {}
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
            specs[obj.kind, obj.name] = {"spec": inner}
            claims[obj.kind, obj.name] = tuple(dict.fromkeys(_classes(mapping_or_empty(inner.get("devices")))))
    return ManifestClaims(served, claims, sources, specs)


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
