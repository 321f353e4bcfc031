"""The state that the steps of one admission share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from webhook.admission.decision import Context
from webhook.finding import Finding
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.patch import PodEdits, Slot
from webhook.pod import Pod, Volume, decode_volumes
from webhook.request import Request


class Allocation(NamedTuple):
    """The allocation of one container.

    Attributes:
        slot: the container.
        source: the vendor whose keys request it.
        owner: the vendor that owns the written keys; another than the target if the target is inactive.
        vendor: the vendor under which it will run (the target).
        request: the settled request as the target's keys express it.
        form: the name of the target's form that those keys take.
        copy: the vendor in whose keys the same request is repeated, and kept.
        moved: keys of the source are removed; not in a second pass, which finds those of the target.
        share: it is less than whole devices, so that shim, guard and the rules for `nodeName` and privileged apply.
    """

    slot: Slot
    source: Vendor
    owner: Vendor
    vendor: Vendor
    request: Request
    form: str | None
    copy: Vendor | None = None
    moved: bool = False
    share: bool = True

    @property
    def vendors(self) -> tuple[Vendor, ...]:
        """All vendors concerned: one pass treats what they own or place as a second pass would."""
        return (self.source, self.owner, self.vendor, *([] if self.copy is None else [self.copy]))


@dataclass(slots=True)
class Plan:
    """One pod during its admission: read-only facts, and the results of the steps so far.

    Attributes:
        slots: every container that can hold resources.
        claims: what containers claim, by their paths, without those that claim nothing.
        allocations: the allocation of each requesting container, init containers first.
        left_alone: containers with resources of a vendor, but without an allocation: a count of 0, names that cannot be
            read as a single request, or a form with `leave`. The guard treats them like containers with whole devices.
        edits: the changes to the pod.
        findings: warnings for the user, in order.
        deliveries: how the shim reaches each container that gets one, by container name; for the status.
        hidden: the containers in which devices are hidden by us, for the status.
        stripped: variables that the guard has removed so far.
        paths: characters of the search and preload paths that the shim has looked at so far.
        reported_once: the findings of `report_once`.
        labels, annotations: those keys of the pod that the policy reads.
        searched: by path of a container, whether its undecoded env could hold a watched variable.
        decoded_volumes: the result of `volumes`, once it is needed.
    """

    pod: Pod
    context: Context
    policy: Policy
    edits: PodEdits
    slots: tuple[Slot, ...]
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allocations: tuple[Allocation, ...] = ()
    left_alone: tuple[tuple[Slot, Vendor], ...] = ()
    findings: list[Finding] = field(default_factory=list)
    deliveries: dict[str, str] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)
    stripped: int = 0
    paths: int = 0
    reported_once: set[Finding] = field(default_factory=set)
    searched: dict[str, bool] = field(default_factory=dict)
    decoded_volumes: dict[str, list[Volume]] | None = None
    labels: list[str] = field(init=False)
    annotations: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.labels = list(self.pod.metadata.labels or ())
        self.annotations = list(self.pod.metadata.annotations or ())

    def report_once(self, finding: Finding) -> None:
        """Add, once, a finding that several containers cause but that concerns the pod."""
        if finding not in self.reported_once:
            self.reported_once.add(finding)
            self.findings.append(finding)

    def volumes(self) -> Mapping[str, list[Volume]]:
        """Return the pod's volumes by name: several of one name, if it is not valid."""
        if self.decoded_volumes is None:
            self.decoded_volumes = {}
            for volume in decode_volumes(self.pod.spec.volumes):
                self.decoded_volumes.setdefault(volume.name, []).append(volume)
        return self.decoded_volumes

    def watched(self, slot: Slot) -> bool:
        """Return whether the env of a container has to be decoded; its hundreds of variables are searched once."""
        known = self.searched.get(slot.path)
        if known is None:
            known = self.searched[slot.path] = self.policy.watched_variables.among(slot.container.env)
        return known
