"""The settings document: the cluster's target and rules, in addition to the mappings."""

from typing import Annotated, Final, Literal, TypeAlias, get_args

from pydantic import AfterValidator, Field

from webhook.labels import INJECT, KEYS
from webhook.mapping.notation import MAX_KEY
from webhook.mapping.strict import (
    API_VERSION,
    FEW,
    MANY,
    SOME,
    CardMemory,
    DeviceMemory,
    KeyText,
    LabelKey,
    Long,
    Name,
    SizeInBytes,
    Strict,
    like,
    refused,
    told,
)
from webhook.request import MAX_DEVICES

VariableName: TypeAlias = Annotated[str, Field(pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$", max_length=MAX_KEY)]
"""The name of an environment variable, as the API server accepts it."""

BareDevices: TypeAlias = Literal["whole", "share"]  # what a count of devices alone requests
ValidationSubject: TypeAlias = Literal["pods", "ephemeralContainers", "workloads", "updates", "configMaps"]
"""What the validating webhook looks at."""

SUBJECTS: Final[tuple[ValidationSubject, ...]] = get_args(ValidationSubject)

_TAKEN: Final = {*(key.name for key in KEYS), "kubernetes.io/metadata.name"} - {INJECT}
"""Keys with a meaning of their own: by one of these, no namespace could opt in."""


def _can_opt_in(key: str) -> str:
    if key in _TAKEN:
        raise refused(f"{key} has another meaning", f"write {INJECT}, or a label of your own")
    return key


_GROUP: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+"
_KIND: Final = r"[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?"
_TEMPLATE: Final = r"spec(\.(\*|([^.*\\]|\\.)+))+"

Group: TypeAlias = Annotated[
    str,
    Field(max_length=253, json_schema_extra={"pattern": f"^{_GROUP}$"}),
    like(_GROUP, "the group of a custom resource, such as example.com"),
]
KindName: TypeAlias = Annotated[
    str,
    Field(max_length=63, json_schema_extra={"pattern": f"^{_KIND}$"}),
    like(_KIND, "a kind, such as TrainJob"),
]
TemplatePath: TypeAlias = Annotated[
    str,
    Field(max_length=MAX_KEY, json_schema_extra={"pattern": f"^{_TEMPLATE}$"}),
    like(_TEMPLATE, "a path below spec, such as spec.template or spec.workers.*.template"),
]


class WorkloadKind(Strict):
    """A kind of custom resource with pod templates."""

    group: Group = Field(description="the API group, in any version")
    kind: KindName
    templates: list[TemplatePath] = Field(
        min_length=1,
        max_length=FEW,
        description="the paths of its pod templates (`metadata` and `spec`); `*` is any key or element",
    )


TEMPLATES: Final = 256  # the default of `templates_per_namespace`: most teams have a dozen different requests


class Settings(Strict):
    """One strict YAML document; every key is optional."""

    api_version: Literal["vgpu-webhook.io/v1alpha1"] = API_VERSION
    kind: Literal["Settings"] = "Settings"
    target: Name | None = told(
        "the vendor that this cluster runs; requests of the same hardware family are translated to it"
    )
    bare_devices: BareDevices | None = told(
        "what a count of devices alone requests: `whole` devices, or a `share` of each by the mapping's "
        "defaults. The chart requires it; without it a settings document means `share`, and warnings say so"
    )
    served: list[Name] = told(
        "vendors that this cluster serves beside the target: their requests stay in their keys, others are denied",
        [],
        max_length=SOME,
    )
    owners: dict[KeyText, Name] = told(
        "resource name → the active vendor, for names that several vendors use", {}, max_length=MANY
    )
    largest_device: DeviceMemory | Annotated[dict[Name, DeviceMemory], Field(max_length=SOME)] | None = told(
        "the memory of the largest device of the cluster, or by hardware family: a request for more is denied; "
        "without it one gets a warning if no device that is sold has so much"
    )
    largest_node: int | None = told(
        "the most devices of a node of the cluster: a request for more is denied; without it one for more than 16 "
        "gets a warning",
        ge=1,
        le=MAX_DEVICES,
    )
    smallest_memory: SizeInBytes = told(
        "a request for less memory per device than this gets a warning: the unit is probably wrong", "256Mi"
    )
    cards: dict[KeyText, CardMemory] = told("the name of a device in a node label → its memory", {}, max_length=MANY)
    card_labels: list[LabelKey] = told(
        "node labels that name the device, in addition to those of the mappings", [], max_length=FEW
    )
    pod_security_default: Literal["privileged", "baseline", "restricted"] | None = told(
        "the Pod Security level of a namespace without an `enforce` label"
    )
    image_volumes: bool | None = told(
        "whether the cluster serves image volumes; without it, API servers of 1.35 and later count as such"
    )
    node_name: Literal["deny", "affinity"] = told("how `spec.nodeName` beside a share is handled", "deny")
    resource_claims: Literal["deny", "warn"] = told(
        "how a device class beside a GPU request in one container is handled", "deny"
    )
    other_device_classes: list[KeyText] = told(
        "device classes of other hardware, which may be beside a GPU request", [], max_length=MANY
    )
    guard_exceptions: dict[VariableName, Annotated[list[Long], Field(min_length=1, max_length=SOME)]] = told(
        "guarded variable → values that the administrator has chosen for the cluster, which are permitted",
        {},
        max_length=SOME,
    )
    hide_devices: bool = told(
        "whether containers that request no device get the variable that hides those of the node; every pod of "
        "a namespace that enforces is sent then",
        default=False,
    )
    never_touched: list[Name] = told(
        "namespaces whose pods are never changed, in addition to the cluster's own", [], max_length=MANY
    )
    opt_in_label: Annotated[LabelKey, AfterValidator(_can_opt_in)] = told(
        "the label that opts a namespace in if its value is `enabled`", INJECT
    )
    validation: list[ValidationSubject] = told(
        "what the validating webhook looks at; `[]` switches it off: `pods` denies pods that other webhooks have "
        "changed so that they would be changed or denied again; `ephemeralContainers` denies those that lift a limit, or show "
        "devices; `workloads` warns whoever applies a workload of what would "
        "become of its pods; `configMaps` denies ConfigMaps with an invalid mapping or settings document; `updates` denies "
        "changes of what schedulers own by anybody outside `ownedBy`",
        ["pods", "ephemeralContainers", "workloads", "configMaps"],
        max_length=len(SUBJECTS),
    )
    workloads: list[WorkloadKind] = told(
        "further kinds with pod templates, in addition to those that the webhook and offline commands know",
        [],
        max_length=FEW,
    )
    templates_per_namespace: int = told(
        "the most ResourceClaimTemplates of the webhook in a namespace: beyond them the oldest that no pod names "
        "are deleted, and if there are none, pods are denied that need another one",
        TEMPLATES,
        ge=1,
        le=10_000,
    )
    timeout_seconds: int = told("seconds that the API server waits for an answer", 5, ge=1, le=30)
