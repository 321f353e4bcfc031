"""Rights as single things: what roles grant, and what a status used, read from the API server's audit log."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controlplane.client import Client, Object

GROUP = "rbac.authorization.k8s.io/v1"
POD = "authentication.kubernetes.io/pod-name"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource; an empty namespace is all of them or none, an empty name is all names.

    `resource` carries its group, unless that is the core's: `clusterroles.rbac.authorization.k8s.io`.
    """

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{named}{f' in {self.namespace}' if self.namespace else ''}"

    def covers(self, used: "Right") -> bool:
        return (
            (self.verb, self.resource) == (used.verb, used.resource)
            and self.namespace in {"", used.namespace}
            and self.name in {"", used.name}
        )


@dataclass(frozen=True, slots=True)
class Used:
    """One request: what was needed for it, the pod that made it, and what came of it."""

    right: Right
    pod: str
    status: int


def granted(client: Client, namespace: str, account: str) -> set[Right]:
    """All that bindings in the cluster give to a service account by name."""
    found = set()
    for kind in ("clusterrolebindings", "rolebindings"):
        for binding in client.list(GROUP, kind):
            subjects = [(each["kind"], each.get("namespace"), each["name"]) for each in binding.get("subjects", [])]
            if ("ServiceAccount", namespace, account) not in subjects:
                continue
            place = binding["metadata"].get("namespace", "")
            reference = binding["roleRef"]
            in_place = place if reference["kind"] == "Role" else None
            role = client.get(GROUP, f"{reference['kind'].lower()}s", reference["name"], in_place).accepted()
            found |= rights_of(role, place)
    return found


def rights_of(role: Object, namespace: str) -> set[Right]:
    """What a Role or ClusterRole grants to those who are bound to it in a namespace, or (empty) everywhere."""
    return {right for rule in role["rules"] for right in _rights(rule, namespace)}


def used(audit_log: Path, namespace: str, account: str) -> Iterator[Used]:
    """What a service account has requested, so far."""
    user = f"system:serviceaccount:{namespace}:{account}"
    for line in audit_log.read_text().splitlines():
        event = json.loads(line)
        if event["user"]["username"] != user or "objectRef" not in event:
            continue
        [pod] = event["user"]["extra"].get(POD, [""])
        yield Used(_right(event), pod, event["responseStatus"]["code"])


def missing(grants: Iterable[Right], uses: Iterable[Right]) -> list[str]:
    """What was used and is not granted."""
    grants = set(grants)
    return sorted({str(use) for use in uses if not any(each.covers(use) for each in grants)})


def unused(grants: Iterable[Right], uses: Iterable[Right]) -> list[str]:
    """What is granted and was not used."""
    uses = set(uses)
    return sorted(str(grant) for grant in grants if not any(grant.covers(use) for use in uses))


def _right(event: Any) -> Right:
    reference = event["objectRef"]
    resource = ".".join(filter(None, (reference["resource"], reference.get("apiGroup", ""))))
    # The name in the body of a POST is no part of what is asked for: RBAC does not see it.
    name = "" if event["verb"] == "create" else reference.get("name", "")
    # Of a Namespace itself, the log has its name as its namespace, too.
    namespace = "" if reference["resource"] == "namespaces" else reference.get("namespace", "")
    return Right(event["verb"], resource, namespace, name)


def _rights(rule: Object, namespace: str) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield Right(verb, ".".join(filter(None, (resource, group))), namespace, name)
