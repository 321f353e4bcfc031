"""Checks of the webhook configuration: whether it exists, what it selects, which pods it lets through, and its order."""

from collections.abc import Iterable
from typing import Final

from webhook import __version__
from webhook.cluster.client.api import Object
from webhook.cluster.registration.desired import (
    AUDIT,
    ENFORCE,
    GPU_KEYS,
    NAME,
    ServiceReference,
    Site,
    desired_from,
    selects,
)
from webhook.cluster.registration.observed import keeps_selectors, matched_names_in, read_observed, webhooks_of
from webhook.cluster.registration.update import (
    Difference,
    Severity,
    creates_pods,
    differences,
    other_writers,
)
from webhook.doctor.facts import ClusterFacts, Missing, Result, address_of, error, listed, ok, unread, warning
from webhook.doctor.nodes import opted_in_namespaces
from webhook.labels import KEEP_SELECTORS, MATCHED_NAMES

NEEDS: Final = "list mutatingwebhookconfigurations.admissionregistration.k8s.io"
LOGS: Final = "kubectl logs --namespace {release} --selector app.kubernetes.io/component=webhook"
INSTALL: Final = (
    "helm install vgpu-webhook deploy/chart --namespace {release} --create-namespace … (docs/install.md); "
    "if it is installed in another namespace: --release-namespace NS"
)
_SHOW: Final = f"kubectl get mutatingwebhookconfiguration {NAME} --output yaml"


def registered(facts: ClusterFacts) -> Result:
    """Check that it exists with both webhooks, and that it was written for the current policy."""
    if isinstance(facts.configurations, Missing):
        return unread("the webhook configurations", facts.configurations, NEEDS)
    if facts.nothing_installed:
        return error(
            f"the webhook is not installed: there is no {NAME}, and the namespace {facts.release} has none of its objects",
            hint=INSTALL.format(release=facts.release),
        )
    found, logs = facts.registered, LOGS.format(release=facts.release)
    if found is None:
        return error(f"there is no {NAME}: no pod is sent to the webhook", hint=f"is a replica running? {logs}")
    missing = [name for name in (ENFORCE, AUDIT) if name not in webhooks_of(found)]
    if missing:
        return error(
            f"{NAME} has no webhook {' and none '.join(missing)}",
            hint=f"kubectl delete mutatingwebhookconfiguration {NAME}: a replica creates it again",
        )
    read = read_observed(found, facts.policy.settings.opt_in_label)
    if read.version is None:
        return ok(f"{NAME} exists, maintained by hand")
    if read.digest != facts.policy.digest and not isinstance(facts.outcome, Missing):
        return warning(
            f"{NAME} was written for policy {read.digest}, but the ConfigMaps make policy {facts.policy.digest}",
            hint=_after_change(facts),
        )
    other = "" if read.version.text == __version__ else f" (this program is {__version__})"
    return ok(f"{NAME} exists, written by version {read.version.text}{other} for policy {read.digest}")


def selectors(facts: ClusterFacts) -> Result:
    """Check that it selects the namespaces and pods that it should, and no others."""
    found = _complete(facts)
    if not isinstance(found, dict):
        return found
    desired = desired_from(facts.policy)
    spaces = opted_in_namespaces(facts)
    labels = [] if isinstance(spaces, Missing) else [space.labels for space in spaces]
    site = Site("", own_namespace=facts.release)
    faults = [fault for fault in differences(found, desired, site, labels) if fault.field != GPU_KEYS]
    serious = [str(fault) for fault in faults if fault.severity is not Severity.SLIGHT or _selects_more(fault)]
    slight = [str(fault) for fault in faults if str(fault) not in serious]
    writers = ", ".join(other_writers(found))
    if serious:
        hint = f"compare with {_printed(facts)}{f'; written by {writers}' if writers else ''}"
        return error("it does not select the namespaces and pods that it should", *serious, *slight, hint=hint)
    read = read_observed(found, desired.opt_in)
    foreign = read.foreign
    if slight or foreign:
        why = f", which its annotation {KEEP_SELECTORS} permits" if keeps_selectors(found) else ""
        narrowed = [f"{name}: others narrow its namespaces: {terms}{why}" for name, terms in foreign.items()]
        title = f"it was changed by {writers or 'others'}"
        if not (writers or foreign) and read.digest not in {None, facts.policy.digest}:
            title = "it was written for another policy"
        return warning(title, *slight, *narrowed, hint=f"if that was not intended: {_SHOW}")
    return ok(f"it selects namespaces with {desired.opt_in}=enabled, but not the cluster's own and {facts.release}")


def matched_names(facts: ClusterFacts) -> Result:
    """Check that every name of the policy lets a pod through, and no other name does."""
    found = _complete(facts)
    if not isinstance(found, dict):
        return found
    desired, ours = desired_from(facts.policy), webhooks_of(found)
    lacking, more = [], []
    for name in (ENFORCE, AUDIT):
        if not ours[name].get("matchConditions"):
            more.append(f"{name}: every pod, because it has no match conditions")
            continue
        through = matched_names_in(found, ours[name], desired.matched_names)
        if through is None:
            lacking.append(
                f"{name}: its condition {GPU_KEYS} is not made from the names in the annotation {MATCHED_NAMES}"
            )
            continue
        lacking += [f"{name}: {missing}" for missing in through.lacks(desired.matched_names)]
        more += [f"{name}: {extra}" for extra in desired.matched_names.lacks(through)]
    if lacking:
        return error("pods with these names are not sent to the webhook", *lacking, hint=_after_change(facts))
    if more:
        return warning(
            "more pods than the policy requires are sent to the webhook, and depend on it during an outage",
            *more,
            hint=_after_change(facts),
        )
    return ok("every name of the policy lets a pod through, and no other name does")


def order(facts: ClusterFacts) -> Result:
    """Check that webhooks that have to see our changes are called after ours: the API server calls them in order of names."""
    if isinstance(facts.configurations, Missing):
        return unread("the webhook configurations", facts.configurations, NEEDS)
    others = sorted((other for other in facts.configurations if _changes_pods(other, facts)), key=_name)
    earlier = [other for other in others if _name(other) < NAME]
    if not earlier:
        later = sum(_name(other) > NAME for other in others)
        return ok(f"called before all others that change pods ({later})")
    if of_schedulers := _calls_to_schedulers(earlier, facts):
        return error(
            "the webhook of a scheduler is called before ours, and does not see what ours writes",
            *of_schedulers,
            hint=f"rename it so that it sorts after {NAME}: configurations are called in order of their names",
        )
    called_once = [_name(other) for other in earlier if not _is_reinvoked(other)]
    if called_once:
        return warning(
            f"called before ours, and not again afterwards: {listed(called_once)}",
            hint=f"if it acts on GPU keys: set reinvocationPolicy: IfNeeded, or a name after {NAME}",
        )
    return ok(f"webhooks that are called before ours are called again: {listed([*map(_name, earlier)])}")


def _calls_to_schedulers(configurations: Iterable[Object], facts: ClusterFacts) -> list[str]:
    """The configurations that call the Service of a scheduler of a vendor in force, each with these Services."""
    places = [vendor.place for vendor in facts.policy.in_force]
    schedulers = {name for place in places for name in (place.scheduler, *place.schedulers) if name}
    called = {_name(configuration): sorted(schedulers & _services(configuration)) for configuration in configurations}
    return [f"{name} calls {', '.join(services)}" for name, services in called.items() if services]


def _complete(facts: ClusterFacts) -> Object | Result:
    """The webhook configuration if it has both webhooks, or else the result of a check that needs it."""
    if isinstance(facts.configurations, Missing):
        return unread("the webhook configurations", facts.configurations, NEEDS)
    found = facts.registered
    if found is None or not {ENFORCE, AUDIT} <= webhooks_of(found).keys():
        return warning("not checked: the webhook configuration is missing or incomplete", hint="see above")
    return found


def _selects_more(fault: Difference) -> bool:
    """Whether more pods are sent to the webhook than should be, because one of our terms is missing."""
    return fault.field in {"namespaceSelector", "sideEffects"}


def _changes_pods(configuration: Object, facts: ClusterFacts) -> bool:
    """Whether it is called for new pods of some opted-in namespace, by its namespace selectors."""
    spaces = opted_in_namespaces(facts)
    labels = [] if isinstance(spaces, Missing) else [space.labels for space in spaces]
    return any(
        any(map(creates_pods, webhook.get("rules") or ()))
        and (
            not labels or any(selects(webhook.get("namespaceSelector") or {}, of_namespace) for of_namespace in labels)
        )
        for webhook in webhooks_of(configuration).values()
    )


def _services(configuration: Object) -> set[str]:
    configs = [webhook.get("clientConfig") or {} for webhook in webhooks_of(configuration).values()]
    return {str(config["service"].get("name")) for config in configs if isinstance(config.get("service"), dict)}


def _is_reinvoked(configuration: Object) -> bool:
    return all(webhook.get("reinvocationPolicy") == "IfNeeded" for webhook in webhooks_of(configuration).values())


def _name(configuration: Object) -> str:
    return str((configuration.get("metadata") or {}).get("name", ""))


def _printed(facts: ClusterFacts) -> str:
    """The command that prints the desired configuration for the current address."""
    webhooks = [] if isinstance(facts.registered, Missing | None) else [*webhooks_of(facts.registered).values()]
    address = address_of(webhooks[0]) if webhooks else None
    if isinstance(address, ServiceReference):
        return f"vgpu-webhook registration --service {address.namespace}/{address.name}"
    return f"vgpu-webhook registration --{f'url {address}' if address else 'service NS/NAME'}"


def _after_change(facts: ClusterFacts) -> str:
    return f"after a change this takes up to a minute; if it takes longer: {LOGS.format(release=facts.release)}"
