"""What is told of a pod, and written into it, to the letter: tables of single rules, where `tests/cases` has whole pods.

A file of `told/` has rules; each has pods, in short: `limits` and `requests` of the container ``main``, its `env` by name, and
what `container` says beside, the `spec` of the pod, `annotations` and `labels`; and of its namespace `space` (annotations)
and `team` (labels). `each` holds for every pod of a rule, or of the file. `told` is what comes of it: the denial, or what
`show` names of the stored pod (without it the code); then warnings, and the codes of notes.

Without `mapping` the built-in ones are in force, with the documents of `with` over them; one of a rule or file is the only
vendor, with `more` of the rule, else of the file.
``--update-golden`` writes `told` anew.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.decided import decided
from tests.mapping.vendors import unprobed, vendor
from tests.strict_patch import apply_strictly
from tests.yaml_text import hold, load_yaml
from webhook.admission import Context, Decision, Namespace
from webhook.mapping.document import parse
from webhook.mapping.model.policy import Policy, compile_policy
from webhook.mapping.settings import Settings
from webhook.reasons import Finding

FILES = sorted(Path(__file__).with_name("told").iterdir())
Json = dict[str, Any]


@cache
def policy_of(mapping: str, settings: str, documents: str) -> Policy:
    """The policy of a rule; most have the same."""
    if not mapping:
        given = parse(settings, "settings.yaml")
        return unprobed(parse(documents, "told.yaml"), given[0] if given else None)
    made = vendor(mapping)
    return compile_policy({made.name: made}, Settings.model_validate(load_yaml(settings) or {}), "0" * 12)


def policy_in(case: Json) -> Policy:
    """The policy of a case."""
    mapping, more, settings, documents = (case.get(name, "") for name in ("mapping", "more", "settings", "with"))
    return policy_of(f"{mapping}{more}", settings, documents)


def pod_of(case: Json) -> Json:
    """The pod of a case."""
    env = [{"name": key, **({"value": of} if isinstance(of, str) else of)} for key, of in case.get("env", {}).items()]
    sides = {side: case[side] for side in ("limits", "requests") if side in case}
    main = {"name": "main", **({"resources": sides} if sides else {}), **({"env": env} if env else {})}
    keys = {place: case[place] for place in ("annotations", "labels") if place in case}
    return {
        "metadata": {"name": "p", **keys},
        "spec": {"containers": [{**main, **case.get("container", {})}], **case.get("spec", {})},
    }


def context_of(case: Json) -> Context:
    """The namespace of a case: opted in, with the level `privileged`, unless it says otherwise."""
    labels = {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}
    return Context(Namespace("team", {**labels, **case.get("team", {})}, case.get("space", {})))


def line(kind: str, finding: Finding) -> str:
    """A finding as it is told, with the field that it names."""
    return f"{kind} {finding.text}" + (f" [{finding.field}]" if finding.field is not None else "")


def part(stored: Json, decision: Decision, path: str) -> Any:
    """What stands at a path of the stored pod; or values of a variable, the status, or the reasons in the audit log.

    `means` is what each container holds, in short; `selects` are the expressions of the templates that a pod needs.
    """
    if path == "means":
        held = {name: each.get("allocation", each["request"]) for name, each in decision.status["containers"].items()}
        return ", ".join(f"{name} {each['devices']} x {each['memory']} {each['cores']}" for name, each in held.items())
    if path == "status":
        return decision.status["containers"].get("main") if decision.status else None
    if path == "selects":
        devices = [each.spec["spec"]["devices"] for each in decision.objects]
        return [request["exactly"].get("selectors", []) for each in devices for request in each["requests"]]
    if path == "audit":
        return decision.audit.get("reasons")
    place, _, name = path.partition(" ")
    if place == "variable":
        env = stored["spec"]["containers"][0]["env"]
        return " then ".join(str(each.get("value", each.get("valueFrom"))) for each in env if each["name"] == name)
    found: Any = stored
    for key in path.split(" "):
        found = found[int(key)] if isinstance(found, list) else found.get(key)
        if found is None:
            return None
    return found


def told_of(case: Json) -> str:
    """What comes of a case, line by line; a second pass changes nothing more."""
    pod, context, in_force = pod_of(case), context_of(case), policy_in(case)
    decision = decided(pod, in_force, context)
    findings = [
        *(line("warning", each) for each in decision.warnings),
        *(f"note {each.reason.code}" for each in decision.notes),
    ]
    if decision.denial is not None and not decision.allowed:
        return "\n".join([line("denied", decision.denial), *findings])
    stored = apply_strictly(pod, decision.patch)
    again = decided(stored, in_force, context)
    assert (again.allowed, again.patch) == (True, ())
    shown = part(stored, decision, case["show"]) if case.get("show") else decision.reason.code
    return "\n".join([shown if isinstance(shown, str) else json.dumps(shown), *findings])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_told(file: Path, *, update_golden: bool) -> None:
    """Each pod has what its line says."""
    hold(file, "pods", told_of, update=update_golden)
