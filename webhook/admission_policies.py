"""Admission policies that API servers evaluate by themselves, generated from a policy: they work while no replica does.

`guard_objects`: a ValidatingAdmissionPolicy for pods that the webhook would not have left so, because its configuration was
deleted, or does not send what it should. It has the part of a policy that CEL can tell for certain, and lets all else pass.
`hide_objects`: a MutatingAdmissionPolicy that hides devices from containers that request none, because CUDA images ask for all
(served as v1 by Kubernetes 1.36).

Both apply where the webhook enforces on all pods: not in namespaces with a mode, a roll-out or an annotation that changes what
becomes of a request.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator
from typing import Final, Literal, TypeAlias

from webhook.admission import Context, Namespace, decide
from webhook.admission.decision import ENFORCE_LABEL
from webhook.admission.hide import HIDING, at_home, hiding_of, target_without_overrides
from webhook.admission.overrides import DEFAULT_SCHEDULER, OVERRIDES
from webhook.cluster.client.api import Object
from webhook.cluster.registration.desired import API_VERSION, NAMESPACE_NAME, NEW_PODS
from webhook.cluster.registration.match_conditions import (
    GPU_KEYS,
    any_container,
    any_key,
    any_resource,
    conditions,
    key_test,
    list_text,
    matched_names_of,
    names_set,
    resource_test,
)
from webhook.labels import CLAIM, ENABLED, INJECT, MODE, OPT_OUT, ROLLOUT, SHIM, TARGET, WRITTEN_BY
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.shim import LD_LIBRARY_PATH, LD_PRELOAD
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import NameSet
from webhook.pod import Container, Pod, PodSpec, Resources
from webhook.request import Dimension

GuardAction: TypeAlias = Literal["Deny", "Warn", "Audit"]

GUARD: Final = "vgpu-webhook-guard"
HIDE: Final = "vgpu-webhook-hide"

_APPLIES: Final = """\
!namespaceObject.metadata.?annotations.orValue({{}}).exists(key, key in {overrides})
&& object.metadata.?annotations[?'{target}'].orValue('') == ''
&& (
  object.metadata.?labels[?'{inject}'].orValue('') != 'disabled'
  || namespaceObject.metadata.?labels[?'{opt_out}'].orValue('') == 'forbidden'
)"""

_SCHEDULER: Final = "object.spec.?schedulerName.orValue('') in {names}"
"""Whether a pod has one of these schedulers."""

_NO_CHOICE: Final = "!('{shim}' in namespaceObject.metadata.?annotations.orValue({{}}))"
"""Whether the namespace leaves the delivery of the shim to the mapping."""

_PRIVILEGED: Final = " && namespaceObject.metadata.?labels[?'{level}'].orValue('') == 'privileged'"

_LACKS_SHIM: Final = """\
{requests} && (
    !c.?volumeMounts.orValue([]).exists(mount, mount.name in {volumes})
    || !object.spec.?volumes.orValue([]).exists(volume, volume.name in {volumes})
    || {variables}.exists(name, !c.?env.orValue([]).exists(e, e.name == name))
  )"""
"""Whether a container requests, and lacks its volume, its mount or a variable; `requests` comes first, for it costs least."""

_HIDDEN: Final = """\
Object{{
  spec: Object.spec{{
    {lists}
  }}
}}"""

_HIDDEN_LIST: Final = """\
{field}: object.spec.?{field}.orValue([]).filter(c, variables.applies
      && !{requests}
      && c.?resources.?claims.orValue([]).size() == 0
      && !c.?env.orValue([]).exists(e, e.name == '{name}' && (has(e.valueFrom) || e.?value.orValue('') in {hiding}))
    ).map(c, Object.spec.{field}{{
      name: c.name,
      env: [Object.spec.{field}.env{{name: '{name}', value: '{value}'}}]
    }})"""


def guard_objects(policy: Policy, version: str, action: GuardAction) -> list[Object]:
    """Return the ValidatingAdmissionPolicy of a policy, and its binding; nothing where neither `target` nor `served` is set.

    Args:
        policy: the vendors and settings.
        version: of the program that writes it.
        action: what is done with a pod that the webhook should have changed.
    """
    rules = [*_source_rule(policy), *(rule for vendor in at_home(policy) for rule in _home_rules(vendor, policy))]
    if not rules:
        return []
    spec = {
        "failurePolicy": "Fail",
        "matchConditions": conditions(matched_names_of(policy)),
        "matchConstraints": _constraints(policy),
        "validations": [
            {"expression": f"!variables.applies || !({found})", "message": f"{text}: vgpu-webhook check finds out why"}
            for found, text in rules
        ],
        "variables": [_applies()],
    }
    return _objects("Validating", GUARD, spec, {"validationActions": [action]}, f"{version} {policy.digest}")


def hide_objects(policy: Policy, version: str) -> list[Object]:
    """Return the MutatingAdmissionPolicy of a policy, and its binding; nothing where no variable hides devices.

    A container that requests a device of the hardware, in whatever keys, or that has claims, is left as it is; so is a
    variable with ``valueFrom``, which cannot be replaced by a value.
    """
    hidden = hiding_of(policy)
    if hidden is None:
        return []
    through = [vendor.lets_through for vendor in hidden.vendors]
    names = names_set(
        prefixes=(prefix for each in through for prefix in each.prefixes),
        names=(name for each in through for name in each.resources),
        keys=(key for each in through for key in each.keys if key != CLAIM),
    )
    requests = any_resource(resource_test(names))
    hiding = list_text(HIDING)
    spec = {
        "failurePolicy": "Ignore",
        "matchConditions": [
            *(each for each in conditions(names) if each["name"] != GPU_KEYS),
            {"name": "no-keys-of-pods", "expression": f"!({any_key(names)})"},
        ],
        "matchConstraints": _constraints(policy),
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {
                    "expression": _HIDDEN.format(
                        lists=",\n    ".join(
                            _HIDDEN_LIST.format(field=field, requests=requests, name=name, hiding=hiding, value=value)
                            for field in ("containers", "initContainers")
                        )
                    )
                },
            }
            for name, value in hidden.variables.items()
        ],
        "reinvocationPolicy": "Never",
        "variables": [_applies()],
    }
    return _objects("Mutating", HIDE, spec, {}, f"{version} {policy.digest}")


def _objects(kind: str, name: str, spec: Object, binding: Object, written_by: str) -> list[Object]:
    metadata = {"name": name, "annotations": {WRITTEN_BY: written_by}}
    return [
        {"apiVersion": API_VERSION, "kind": f"{kind}AdmissionPolicy", "metadata": metadata, "spec": spec},
        {
            "apiVersion": API_VERSION,
            "kind": f"{kind}AdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": name, **binding},
        },
    ]


def _constraints(policy: Policy) -> Object:
    """New pods of namespaces in which the webhook enforces on all pods."""
    return {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {
            "matchExpressions": [
                {"key": policy.settings.opt_in_label, "operator": "In", "values": [ENABLED]},
                {"key": NAMESPACE_NAME, "operator": "NotIn", "values": sorted(policy.never_touched)},
                {"key": MODE, "operator": "DoesNotExist"},
                {"key": ROLLOUT, "operator": "DoesNotExist"},
            ]
        },
        "resourceRules": [NEW_PODS],
    }


def _applies() -> dict[str, str]:
    """The variable that says whether the webhook handles a pod, by nothing but the policy; conditions know no namespace."""
    text = _APPLIES.format(overrides=list_text(OVERRIDES), target=TARGET, inject=INJECT, opt_out=OPT_OUT)
    return {"name": "applies", "expression": text}


def _source_rule(policy: Policy) -> Iterator[tuple[str, str]]:
    """Keys of vendors that are translated whatever else the pod has."""
    moved = [vendor for vendor in policy.in_force if target_without_overrides(vendor, policy) not in {None, vendor}]
    names = {name for vendor in moved if _never_left(vendor, policy) for name in _names_of(vendor, policy)}
    if names:
        yield _any_of(names), "a request in keys that are translated here was stored as it was sent"


def _never_left(vendor: Vendor, policy: Policy, *, with_memory: bool = False) -> bool:
    """Whether no request of a vendor is left unchanged; `with_memory`: none that specifies memory."""
    memory = set(vendor.by_dimension["memory"])
    leaving = [form for form in vendor.forms if form.document.leave is not None]
    return (
        not vendor.document.allowed_with
        and not any(vendor.name in other.document.allowed_with for other in policy.vendors.values())
        and not any(variable.rows for variable in vendor.variables.values())
        and all(
            with_memory and memory and any(when.only_absent and memory <= set(when.keys) for when in form.when)
            for form in leaving
        )
    )


def _names_of(vendor: Vendor, policy: Policy, *dimensions: Dimension, plain: bool = False) -> set[str]:
    """The resource names of a vendor that request, and that no other vendor and (unless `plain`) no other plugin has."""
    return {
        template.text
        for key in vendor.keys.values()
        if key.place == "resource" and key.makes_request and not key.variables
        if not dimensions or set(dimensions) & set(key.dimensions)
        for template in key.templates
        if (plain or template not in key.plain)
        and {owner.vendor for owner in policy.resources.exact.get(template.text, ())} == {vendor.name}
    }


def _any_of(names: Iterable[str]) -> str:
    return any_container(_requests_any(names))


def _requests_any(names: Iterable[str]) -> str:
    """Whether a container requests one of these; 0 counts as unset."""
    return any_resource(f"({resource_test(names_set(names=names))}) && string(amounts[name]) != '0'")


def _home_rules(vendor: Vendor, policy: Policy) -> Iterator[tuple[str, str]]:
    """What the webhook writes to each pod that requests memory in the keys of a vendor, and what it removes."""
    memory = _names_of(vendor, policy, "memory")
    place = vendor.place
    if not memory or not _never_left(vendor, policy, with_memory=True):
        return
    if place.scheduler is not None and DEFAULT_SCHEDULER not in {place.scheduler, *place.schedulers}:
        default = _SCHEDULER.format(names=list_text([DEFAULT_SCHEDULER, ""]))
        yield f"{_any_of(memory)} && {default}", f"a request for {vendor.system} lacks its scheduler {place.scheduler}"
    for field, marks in (("annotations", vendor.owned.annotations), ("labels", vendor.owned.labels)):
        if found := _marked(field, marks, vendor.document.owned_by):
            yield f"{_any_of(memory)} && {found}", f"{field} of the pod belong to the scheduler of {vendor.system}"
    yield from _shim_rule(vendor, policy, memory)
    devices = _names_of(vendor, policy, "devices", plain=True)
    if place.scheduler is not None and any(_completed(name, memory, policy) for name in devices):
        yield (
            f"{_bare(vendor, devices)} && "
            + _SCHEDULER.format(names=list_text([DEFAULT_SCHEDULER, "", place.scheduler, *place.schedulers])),
            f"a count of devices was stored without the memory that {vendor.system} needs",
        )


def _shim_rule(vendor: Vendor, policy: Policy, memory: Collection[str]) -> Iterator[tuple[str, str]]:
    """What each container with a size of memory gets: a volume with the library, its mount, and variables.

    Only where that is certain: by a delivery that every namespace permits, or, if it takes the Pod Security level
    ``privileged``, in namespaces whose label says so.
    """
    shim = vendor.shim
    sized = {
        template.text
        for key in vendor.keys.values()
        if key.sized
        for template in key.templates
        if template.text in memory
    }
    if shim is None or not sized:
        return
    if shim.document.mode != "inject" or shim.document.forms is not None or "cores" in shim.document.needs:
        return
    deliveries = list(itertools.takewhile(lambda each: each.kind != "none", shim.deliveries))
    certain = [each for each in deliveries if each.kind != "image" or policy.settings.image_volumes]
    if not certain:
        return
    permitted = len(shim.deliveries) == 1 or not all(each.privileged for each in certain)
    variables = {
        *([LD_PRELOAD] if shim.preload else ()),
        *([LD_LIBRARY_PATH] if shim.library_path and not shim.leave_unset else ()),
        *(each.name for each in shim.variables if not each.indexed and each.uses <= {"memory", "container"}),
    }
    every = [each for known in (shim.deliveries, *shim.by_architecture.values()) for each in known]
    lacks = _LACKS_SHIM.format(
        requests=_requests_any(sized),
        volumes=list_text({each.library for each in every if each.library}),
        variables=list_text(variables),
    )
    where = _NO_CHOICE.format(shim=SHIM) + ("" if permitted else _PRIVILEGED.format(level=ENFORCE_LABEL))
    yield f"{where} && {any_container(lacks)}", f"a container with a share of {vendor.system} lacks the shim"


def _marked(field: str, marks: NameSet, owned_by: Collection[str]) -> str:
    names = names_set(keys=[*marks.exact, *marks.globs])
    if not names.keys and not names.key_patterns:
        return ""
    found = f"object.metadata.?{field}.orValue({{}}).exists(key,\n  {key_test(names)}\n)"
    return f"{found} && !(request.userInfo.username in {list_text(owned_by)})" if owned_by else found


def _completed(name: str, memory: Collection[str], policy: Policy) -> bool:
    """Whether a decision adds memory to one device: by a default, or because a count alone is whole devices."""
    namespace = Namespace("guarded", {policy.settings.opt_in_label: ENABLED})
    pod = Pod(spec=PodSpec([Container("c", Resources({name: "1"}, {name: "1"}))]))
    patch = decide(pod, Context(namespace), policy).patch
    written = {operation["path"].rpartition("/")[2].replace("~1", "/") for operation in patch}
    return not written.isdisjoint(memory)


def _bare(vendor: Vendor, devices: Collection[str]) -> str:
    """Whether a container has a count of devices and nothing else of a vendor, in a pod without such keys."""
    others = {
        template.text
        for key in vendor.keys.values()
        for template in key.templates
        if key.place == "resource" and template.text not in devices
    }
    of_pod = [template.text for key in vendor.keys.values() if not key.of_container for template in key.templates]
    counted = f"{_requests_any(devices)}\n  && !{any_resource(resource_test(names_set(names=others)))}"
    if not of_pod:
        return any_container(counted)
    test = key_test(names_set(keys=of_pod))
    places = ("metadata.?labels", "metadata.?annotations", "spec.?nodeSelector")
    carried = [f"!object.{place}.orValue({{}}).exists(key, {test})" for place in places]
    return " && ".join([any_container(counted), *carried])
