"""The check of generated admission policies: whether they are as the policy in force makes them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from webhook import __version__
from webhook.admission_policies import GUARD, HIDE, guard_objects, hide_objects
from webhook.cluster.client.api import Object
from webhook.doctor.facts import ClusterFacts
from webhook.doctor.result import Result, known, ok, warning
from webhook.labels import WRITTEN_BY
from webhook.mapping.model.policy import Policy

NAMES: Final = (("Validating", GUARD), ("Mutating", HIDE))
"""The kinds of generated policies, each with the name of its objects."""

_NEEDS: Final = "get mutating- and validatingadmissionpolicies and their bindings"


def stale(facts: ClusterFacts) -> Result:
    """Are generated admission policies those that the policy in force makes?"""
    found = known(facts.admission_policies, "the admission policies", _NEEDS)
    present = {(each["kind"], each["metadata"]["name"]): each for each in found}
    faults: list[str] = []
    mend: list[str] = []
    remove: list[str] = []
    for kind, name in NAMES:
        policy, binding = (present.get((f"{kind}AdmissionPolicy{end}", name)) for end in ("", "Binding"))
        if policy is None and binding is None:
            continue
        actions = (binding or {}).get("spec", {}).get("validationActions") or ["Deny"]
        made = _made(name, actions[0], facts.policy)
        if wrong := list(_faults(made, {"": policy, "Binding": binding})):
            faults += [f"{name}: {text}" for text in wrong]
            if made:
                mend.append("--hide" if name == HIDE else f"--guard {actions[0]}")
            else:
                both = f"{kind}admissionpolicy,{kind}admissionpolicybinding".lower()
                remove.append(f"kubectl delete --ignore-not-found {both} {name}")
    if not faults:
        names = ", ".join(dict.fromkeys(name for _, name in present))
        return ok(f"as the policy in force makes them: {names}" if names else "there are none of ours")
    options = " ".join([*mend, f"--release-namespace {facts.release}"])
    print_again = [f"vgpu-webhook admission-policies {options} | kubectl apply -f -"] if mend else []
    return warning(
        "admission policies are not those that the policy in force makes",
        *faults,
        hint="; ".join([*print_again, *remove]),
    )


def _made(name: str, action: Any, policy: Policy) -> Sequence[Object]:
    if name == HIDE:
        return hide_objects(policy, __version__)
    return guard_objects(policy, __version__, action if action in {"Deny", "Warn", "Audit"} else "Deny")


def _faults(made: Sequence[Object], found: Mapping[str, Object | None]) -> Iterator[str]:
    """What differs of a policy and its binding, by the end of their kinds."""
    if not made:
        yield "the policy in force makes none"
        return
    for wanted in made:
        end = "Binding" if wanted["kind"].endswith("Binding") else ""
        stored = found[end]
        if stored is None:
            yield f"there is no {wanted['kind']}, so that it has no effect"
        elif not _contains(stored.get("spec"), wanted["spec"]):
            writer = (stored["metadata"].get("annotations") or {}).get(WRITTEN_BY, "somebody else")
            yield f"the {wanted['kind']} differs (written by {writer})"


def _contains(stored: Any, wanted: Any) -> bool:
    """Whether a stored value is the wanted one; an API server fills in further keys of maps."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(_contains(stored.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(stored, list)
            and len(stored) == len(wanted)
            and all(_contains(each, other) for each, other in zip(stored, wanted, strict=True))
        )
    return bool(stored == wanted)
