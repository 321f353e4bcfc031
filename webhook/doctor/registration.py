"""Checks of the webhook configuration: whether it exists, what it selects, which pods it lets through, and its order."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from webhook import __version__
from webhook.cluster.client import Object
from webhook.cluster.registration.names import GPU_KEYS
from webhook.cluster.registration.stored import (
    Severity,
    creates_pods,
    differences,
    keeps_selectors,
    matched_names_in,
    other_writers,
    read_stored,
    webhooks_of,
)
from webhook.cluster.registration.wanted import (
    MUTATING,
    NAME,
    VALIDATING,
    ConfigurationKind,
    Site,
    selects,
    terms_text,
    wanted_by,
)
from webhook.doctor.facts import ClusterFacts, moment
from webhook.doctor.replicas import logs, printed, where_none_acts
from webhook.doctor.result import Level, Missing, Result, UnansweredError, error, known, listed, ok, warning
from webhook.labels import KEEP_SELECTORS, MATCHED_NAMES

INSTALL: Final = (
    "helm install vgpu-webhook deploy/chart --namespace {release} --create-namespace … (docs/install.md); "
    "if it is installed in another namespace: --release-namespace NS"
)


GROWS_FOR: Final = dt.timedelta(minutes=1)
"""How long a new validating configuration may lack webhooks: what is judged follows what is sent to be changed."""


def configurations(facts: ClusterFacts, kind: ConfigurationKind = MUTATING) -> Sequence[Object]:
    """All webhook configurations of a kind.

    Raises:
        UnansweredError: they could not be read.
    """
    found = facts.configurations if kind is MUTATING else facts.validations
    return known(found, f"the {kind.noun}s", f"list {kind.plural}.admissionregistration.k8s.io")


def registered(facts: ClusterFacts, kind: ConfigurationKind = MUTATING) -> Result:
    """Does it exist with both webhooks, written for the current policy?"""
    configurations(facts, kind)
    if facts.nothing_installed:
        return error(
            f"the webhook is not installed: there is no {NAME}, and the namespace {facts.release} has none of its objects",
            hint=INSTALL.format(release=facts.release),
        )
    found = facts.configuration_of(kind)
    if found is None:
        unsent = "no pod is sent to the webhook" if kind is MUTATING else "nothing is sent to it"
        absent = f"there is no {NAME}" if kind is MUTATING else f"there is no {kind.noun} {NAME}"
        return error(f"{absent}: {unsent}", hint=where_none_acts(facts))
    missing = [each.name for each in wanted_by(facts.policy, kind).webhooks if each.name not in webhooks_of(found)]
    created = moment(found["metadata"].get("creationTimestamp"))
    if missing and kind is VALIDATING and created is not None and facts.now - created < GROWS_FOR:
        return warning(
            f"{NAME} has no webhook {' and none '.join(missing)} yet",
            hint="it gets them some seconds after it is made: check again",
        )
    if missing:
        return error(
            f"{NAME} has no webhook {' and none '.join(missing)}",
            hint=f"kubectl delete {kind.kind.lower()} {NAME}: a replica creates it again",
        )
    read = read_stored(found, facts.policy.settings.opt_in_label, kind)
    if read.version is None:
        return ok(f"{NAME} exists, maintained by hand")
    if read.digest != facts.policy.digest and not isinstance(facts.outcome, Missing):
        return warning(
            f"{NAME} was written for policy {read.digest}, but the ConfigMaps make policy {facts.policy.digest}",
            hint=_after_change(facts),
        )
    other = "" if read.version == __version__ else f" (this program is {__version__})"
    return ok(f"{NAME} exists, written by version {read.version}{other} for policy {read.digest}")


def validation(facts: ClusterFacts) -> Result:
    """Is the validating webhook configuration, checked in the same three ways, as the setting `validation` requires?"""
    if not wanted_by(facts.policy, VALIDATING).webhooks:
        return ok("switched off by the setting validation")
    exists = registered(facts, VALIDATING)
    if exists.level is not Level.OK:
        return exists
    others = [answer(facts, VALIDATING) for answer in (selectors, matched_names)]
    return next((each for each in others if each.level is not Level.OK), exists)


def selectors(facts: ClusterFacts, kind: ConfigurationKind = MUTATING) -> Result:
    """Does it select opted-in namespaces, but not the cluster's own and the webhook's?"""
    found = _complete(facts, kind)
    desired = wanted_by(facts.policy, kind)
    site = Site("", own_namespace=facts.release)
    faults = [fault for fault in differences(found, desired, site, _labels(facts)) if fault.field != GPU_KEYS]
    # Without one of our terms, more pods are sent to the webhook than should be.
    serious = [
        str(fault)
        for fault in faults
        if fault.severity is not Severity.SLIGHT or fault.field in {"namespaceSelector", "sideEffects"}
    ]
    slight = [str(fault) for fault in faults if str(fault) not in serious]
    writers = ", ".join(other_writers(found))
    if serious:
        hint = f"compare with {printed(facts)}{f'; written by {writers}' if writers else ''}"
        return error("it does not select the namespaces and pods that it should", *serious, *slight, hint=hint)
    read = read_stored(found, desired.opt_in, kind)
    foreign = read.foreign
    if slight or foreign:
        why = f", which its annotation {KEEP_SELECTORS} permits" if keeps_selectors(found) else ""
        narrowed = [
            f"{name}: others narrow its namespaces: {terms_text(terms)}{why}" for name, terms in foreign.items()
        ]
        title = f"it was changed by {writers or 'others'}"
        if not (writers or foreign) and read.digest not in {None, facts.policy.digest}:
            title = "it was written for another policy"
        elif not (writers or foreign) and read.version and {fault.field for fault in faults} == {"failurePolicy"}:
            title = "the webhook does not hold pods back yet: it does not know that every replica can answer"
            return warning(title, *slight, hint=_after_change(facts))
        show = f"kubectl get {kind.kind.lower()} {NAME} --output yaml"
        return warning(title, *slight, *narrowed, hint=f"if that was not intended: {show}")
    return ok(f"it selects namespaces with {desired.opt_in}=enabled, but not the cluster's own and {facts.release}")


def matched_names(facts: ClusterFacts, kind: ConfigurationKind = MUTATING) -> Result:
    """Do match conditions send every pod with a name of the policy?"""
    found = _complete(facts, kind)
    desired, ours = wanted_by(facts.policy, kind), webhooks_of(found)
    lacking, more = [], []
    strange = f"its condition {GPU_KEYS} is not made from the names in the annotation {MATCHED_NAMES}"
    for webhook in desired.webhooks:
        name, through = webhook.name, matched_names_in(found, webhook, desired.matched_names)
        if not ours[name].get("matchConditions"):
            more.append(f"{name}: every pod, because it has no match conditions")
        elif through is None:
            lacking.append(f"{name}: {strange}")
        else:
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
    return ok("match conditions send every pod with a name of the policy, and no other")


def order(facts: ClusterFacts) -> Result:
    """Is it called before webhooks that have to see what it writes?

    The API server calls them in order of names.
    """
    others = sorted((other for other in configurations(facts) if _changes_pods(other, facts)), key=_name)
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
    if unmatched := [_name(other) for other in earlier if _waits_for_scheduler(other)]:
        return error(
            f"called before ours, and only for pods of a scheduler, which ours sets: {listed(unmatched)}",
            "the API server calls again only what it has called before: pods lack what it writes",
            hint=f"rename it so that it sorts after {NAME}",
        )
    called_once = [
        _name(other)
        for other in earlier
        if any(webhook.get("reinvocationPolicy") != "IfNeeded" for webhook in webhooks_of(other).values())
    ]
    if called_once:
        return warning(
            f"called before ours, and not again afterwards: {listed(called_once)}",
            hint=f"if it acts on GPU keys: set a name after {NAME}; with reinvocationPolicy: IfNeeded it may append twice",
        )
    return ok(f"called before ours, and again afterwards, when it may append twice: {listed([*map(_name, earlier)])}")


def _calls_to_schedulers(configurations: Iterable[Object], facts: ClusterFacts) -> list[str]:
    """The configurations that call the Service of a scheduler of a vendor in force, each with these Services."""
    places = [vendor.place for vendor in facts.policy.in_force]
    schedulers = {name for place in places for name in (place.scheduler, *place.schedulers) if name}
    called = {_name(configuration): sorted(schedulers & _services(configuration)) for configuration in configurations}
    return [f"{name} calls {', '.join(services)}" for name, services in called.items() if services]


def _waits_for_scheduler(configuration: Object) -> bool:
    """Whether a match condition looks at the pod's scheduler, as that of KAI's operator does."""
    conditions = (
        each for webhook in webhooks_of(configuration).values() for each in webhook.get("matchConditions") or ()
    )
    return any("schedulerName" in str(condition.get("expression")) for condition in conditions)


def _complete(facts: ClusterFacts, kind: ConfigurationKind) -> Object:
    """The webhook configuration of a kind.

    Raises:
        UnansweredError: it could not be read, or has not all webhooks.
    """
    configurations(facts, kind)
    found = facts.configuration_of(kind)
    required = {each.name for each in wanted_by(facts.policy, kind).webhooks}
    if found is None or not required <= webhooks_of(found).keys():
        missing = warning("not checked: the webhook configuration is missing or incomplete", hint="see above")
        raise UnansweredError(missing)
    return found


def _changes_pods(configuration: Object, facts: ClusterFacts) -> bool:
    """Whether it is called for new pods of some opted-in namespace, by its namespace selectors."""
    labels = _labels(facts)
    return any(
        any(map(creates_pods, webhook.get("rules") or ()))
        and (not labels or any(selects(webhook.get("namespaceSelector") or {}, each) for each in labels))
        for webhook in webhooks_of(configuration).values()
    )


def _labels(facts: ClusterFacts) -> list[Mapping[str, str]]:
    """Of the opted-in namespaces; empty if they are not known."""
    return [] if isinstance(facts.opted_in, Missing) else [space.labels for space in facts.opted_in]


def _services(configuration: Object) -> set[str]:
    configs = [webhook.get("clientConfig") or {} for webhook in webhooks_of(configuration).values()]
    return {str(config["service"].get("name")) for config in configs if isinstance(config.get("service"), dict)}


def _name(configuration: Object) -> str:
    return str((configuration.get("metadata") or {}).get("name", ""))


def _after_change(facts: ClusterFacts) -> str:
    return f"after a change this takes up to a minute; if it takes longer: {logs(facts)}"
