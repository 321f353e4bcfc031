"""Checks of the webhook configuration: whether it exists, what it selects, what it lets through, and its order."""

from typing import Final

from webhook import __version__
from webhook.cluster.client.api import Object
from webhook.cluster.registration.comparison import (
    Difference,
    Severity,
    creates_pods,
    differences,
    keeps_selectors,
    other_writers,
)
from webhook.cluster.registration.desired import AUDIT, ENFORCE, NAME, Service, Site, desired_from
from webhook.cluster.registration.match_conditions import GPU_KEYS
from webhook.cluster.registration.observed import matched_names_in, read_observed, webhooks_of
from webhook.cluster.registration.selector import selects
from webhook.doctor.facts import Facts, address_of
from webhook.doctor.result import Missing, Result, error, listed, ok, unread, warning
from webhook.doctor.targets import opted_in_namespaces
from webhook.labels import KEEP_SELECTORS, MATCHED_NAMES

NEEDS: Final = "list mutatingwebhookconfigurations.admissionregistration.k8s.io"
LOGS: Final = "kubectl logs --namespace {release} --selector app.kubernetes.io/component=webhook"
INSTALL: Final = (
    "helm install vgpu-webhook deploy/chart --namespace {release} --create-namespace … (docs/install.md); "
    "where it is installed in another namespace: --release-namespace NS"
)
_SHOW: Final = f"kubectl get mutatingwebhookconfiguration {NAME} --output yaml"


def registered(facts: Facts) -> Result:
    """Whether it exists with both webhooks, and by which policy it was written."""
    if isinstance(facts.configurations, Missing):
        return unread("the webhook configurations", facts.configurations, NEEDS)
    if facts.nothing_installed:
        return error(
            f"the webhook is not installed: there is no {NAME}, and nothing of it in the namespace {facts.release}",
            hint=INSTALL.format(release=facts.release),
        )
    found, logs = facts.registered, LOGS.format(release=facts.release)
    if found is None:
        return error(f"there is no {NAME}: no pod is sent to the webhook", hint=f"is a replica running? {logs}")
    missing = [name for name in (ENFORCE, AUDIT) if name not in webhooks_of(found)]
    if missing:
        return error(
            f"{NAME} has no webhook {' and none '.join(missing)}",
            hint=f"kubectl delete mutatingwebhookconfiguration {NAME}: a replica writes it anew",
        )
    read = read_observed(found, facts.policy.settings.opt_in_label)
    if read.version is None:
        return ok(f"{NAME} is there, kept by hand")
    if read.digest != facts.policy.digest and not isinstance(facts.outcome, Missing):
        return warning(
            f"{NAME} was written by policy {read.digest}, but the ConfigMaps come to {facts.policy.digest}",
            hint=f"after a change it takes a minute; longer: {logs}",
        )
    other = "" if read.version.text == __version__ else f" (this program is {__version__})"
    return ok(f"{NAME} is there, written by version {read.version.text}{other} and policy {read.digest}")


def selectors(facts: Facts) -> Result:
    """Whether it selects the namespaces and calls that it should, and no others."""
    found = _whole(facts)
    if not isinstance(found, dict):
        return found
    want = desired_from(facts.policy)
    spaces = opted_in_namespaces(facts)
    labels = [] if isinstance(spaces, Missing) else [space.labels for space in spaces]
    site = Site("", own_namespace=facts.release)
    found_differences = [one for one in differences(found, want, site, labels) if one.field != GPU_KEYS]
    serious = [str(one) for one in found_differences if one.severity is not Severity.SLIGHT or _concerns_more(one)]
    slight = [str(one) for one in found_differences if str(one) not in serious]
    by = ", ".join(other_writers(found))
    if serious:
        hint = f"compare with {_printed(facts)}{f'; written by {by}' if by else ''}"
        return error("it does not concern what it should", *serious, *slight, hint=hint)
    foreign = read_observed(found, want.opt_in).foreign
    if slight or foreign:
        why = f", as its annotation {KEEP_SELECTORS} says" if keeps_selectors(found) else ""
        kept = [f"{name}: others narrow its namespaces: {terms}{why}" for name, terms in foreign.items()]
        title = f"it was changed by {by or 'others'}"
        return warning(title, *slight, *kept, hint=f"if that was not intended: {_SHOW}")
    return ok(f"it concerns namespaces with {want.opt_in}=enabled, and spares the cluster's and {facts.release}")


def matched_names(facts: Facts) -> Result:
    """Whether every name of the policy lets a pod through."""
    found = _whole(facts)
    if not isinstance(found, dict):
        return found
    want, ours = desired_from(facts.policy), webhooks_of(found)
    lacking, more = [], []
    for name in (ENFORCE, AUDIT):
        if not ours[name].get("matchConditions"):
            more.append(f"{name}: every pod, for it has no match conditions")
            continue
        through = matched_names_in(found, ours[name], want.matched_names)
        if through is None:
            lacking.append(
                f"{name}: its condition {GPU_KEYS} is not made from the names in the annotation {MATCHED_NAMES}"
            )
            continue
        lacking += [f"{name}: {one}" for one in through.lacks(want.matched_names)]
        more += [f"{name}: {one}" for one in want.matched_names.lacks(through)]
    if lacking:
        return error("pods with these names are not sent to the webhook", *lacking, hint=_after_change(facts))
    if more:
        return warning(
            "more pods are sent to the webhook, and wait for it when it is down, than the policy needs",
            *more,
            hint=_after_change(facts),
        )
    return ok("every name of the policy lets a pod through, and no other does")


def order(facts: Facts) -> Result:
    """Whether webhooks that have to see our changes are called after ours: the API server calls them by name."""
    if isinstance(facts.configurations, Missing):
        return unread("the webhook configurations", facts.configurations, NEEDS)
    others = sorted((other for other in facts.configurations if _concerns(other, facts)), key=_name)
    earlier = [other for other in others if _name(other) < NAME]
    places = [vendor.place for vendor in facts.policy.in_force]
    schedulers = {name for place in places for name in (place.scheduler, *place.schedulers) if name}
    blind = [
        f"{_name(other)} is answered by {', '.join(sorted(answering))}"
        for other in earlier
        if (answering := schedulers & _services(other))
    ]
    if blind:
        return error(
            "the webhook of a scheduler is called before ours, and does not see what we write",
            *blind,
            hint=f"rename it so that it sorts after {NAME}: configurations are called by name",
        )
    called_once = [_name(other) for other in earlier if not _again(other)]
    if called_once:
        return warning(
            f"called before ours, and not again after: {listed(called_once)}",
            hint=f"if it acts on GPU keys: set reinvocationPolicy: IfNeeded, or a name after {NAME}",
        )
    if earlier:
        return ok("what comes first is called again")
    later = sum(_name(other) > NAME for other in others)
    return ok(f"called before all others that change pods ({later})")


def _whole(facts: Facts) -> Object | Result:
    """The webhook configuration if it has both webhooks, else the result of a check that needs it."""
    if isinstance(facts.configurations, Missing):
        return unread("the webhook configurations", facts.configurations, NEEDS)
    found = facts.registered
    if found is None or not {ENFORCE, AUDIT} <= webhooks_of(found).keys():
        return warning("not checked: the webhook configuration is missing or incomplete", hint="see above")
    return found


def _concerns_more(one: Difference) -> bool:
    """Whether more is sent to the webhook than should be: one of our terms is missing."""
    return one.field in {"namespaceSelector", "sideEffects"}


def _concerns(configuration: Object, facts: Facts) -> bool:
    """Whether it is called for new pods of some opted-in namespace, by its namespace selectors."""
    spaces = opted_in_namespaces(facts)
    labels = [] if isinstance(spaces, Missing) else [space.labels for space in spaces]
    return any(
        any(map(creates_pods, webhook.get("rules") or ()))
        and (not labels or any(selects(webhook.get("namespaceSelector") or {}, one) for one in labels))
        for webhook in webhooks_of(configuration).values()
    )


def _services(configuration: Object) -> set[str]:
    configs = [webhook.get("clientConfig") or {} for webhook in webhooks_of(configuration).values()]
    return {str(config["service"].get("name")) for config in configs if isinstance(config.get("service"), dict)}


def _again(configuration: Object) -> bool:
    return all(one.get("reinvocationPolicy") == "IfNeeded" for one in webhooks_of(configuration).values())


def _name(configuration: Object) -> str:
    return str((configuration.get("metadata") or {}).get("name", ""))


def _printed(facts: Facts) -> str:
    """The command that prints the desired configuration for the present address."""
    webhooks = [] if isinstance(facts.registered, Missing | None) else [*webhooks_of(facts.registered).values()]
    address = address_of(webhooks[0]) if webhooks else None
    if isinstance(address, Service):
        return f"vgpu-webhook registration --service {address.namespace}/{address.name}"
    return f"vgpu-webhook registration --{f'url {address}' if address else 'service NS/NAME'}"


def _after_change(facts: Facts) -> str:
    return f"after a change it takes a minute; longer: {LOGS.format(release=facts.release)}"
