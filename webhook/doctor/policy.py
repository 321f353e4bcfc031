"""Checks of the API server itself, and of the policy in its ConfigMaps."""

import re
from typing import Final

from webhook.doctor.facts import ClusterFacts
from webhook.doctor.result import Missing, Result, counted, error, known, ok, unread, warning
from webhook.mapping.document.schema import API_VERSION
from webhook.mapping.requests.values import unreadable

OLDEST: Final = (1, 30)
"""Match conditions of webhooks are stable since this version of Kubernetes; without them, an outage blocks all pods."""

_HEADER: Final = re.compile("^[\"']?apiVersion[\"']? *:", re.MULTILINE)
_VERSION: Final = re.compile(r"v(\d+)\.(\d+)")


def server(facts: ClusterFacts) -> Result:
    """Does the API server answer, and is it 1.30 or newer?"""
    if isinstance(facts.server, Missing) and not facts.reachable:
        hint = "try kubectl version, or set --kubeconfig"
        return error("the API server does not answer", facts.server.why, hint=hint)
    version = known(facts.server, "the version of the API server", "get the path /version")
    found = _VERSION.match(version)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return error(
            f"the API server is {version}, without match conditions", hint=f"Kubernetes {oldest} or newer is required"
        )
    return ok(f"the API server answers: {version}")


def mappings(facts: ClusterFacts) -> Result:
    """Are the documents of all ConfigMaps in force, and can the keys of all vendors in force be read?"""
    if isinstance(facts.outcome, Missing):
        result = unread("the ConfigMaps", facts.outcome, f"get and list configmaps in {facts.release}")
        return warning(
            result.message, *result.details, "the checks below assume the built-in mappings", hint=result.hint
        )
    rejected = [verdict for verdict in facts.outcome.verdicts if not verdict.accepted]
    if rejected:
        return error(
            f"{counted(len(rejected), 'document')} not in force",
            *(line for verdict in rejected for line in verdict.lines()),
            hint=f"kubectl edit --namespace {facts.release} {rejected[0].name}",
        )
    unread_vendors = list(unreadable(facts.policy.vendors.values()))
    if unread_vendors:
        return warning(
            f"{counted(len(unread_vendors), 'vendor')} cannot be read yet",
            *unread_vendors,
            hint="add its mapping as a ConfigMap, or change the setting `owners`",
        )
    headless = [name for name, text in facts.outcome.accepted.items() if not _HEADER.search(text)]
    if headless:
        return warning(
            f"{counted(len(headless), 'document')} without apiVersion, read as {API_VERSION}",
            *headless,
            hint=f"write apiVersion: {API_VERSION} and kind: Mapping, or Settings, into each",
        )
    number = len(facts.outcome.verdicts)
    own = (
        f"{counted(number, 'document')} of {facts.release} in force" if number else "the built-in mappings are in force"
    )
    return ok(f"{own}, policy {facts.policy.digest}")
