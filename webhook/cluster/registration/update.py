"""Computes the update of the webhook configuration: a pure function, the same on every replica.

Replicas learn of a change one after the other, and there is no leader. So no replica removes what another one may need: a
replica whose policy has changed adds its names to those present. Names that no replica needs anymore are removed once
nothing has changed for a while.

What it updates is what `differences` finds: only the content is compared, whoever wrote it, and anything that keeps pods of an
opted-in namespace from the webhook is a fault, intended or not.
"""

import base64
import copy
import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

from certs.ca import by_der
from webhook.cluster.client import FIELD_MANAGER, Object
from webhook.cluster.events import shortened
from webhook.cluster.registration.desired import (
    AUDIT_MODES,
    FAIL,
    IGNORE,
    NAME,
    NAMESPACE_NAME,
    NEW_PODS,
    PORT,
    VALIDATING,
    Desired,
    Site,
    Terms,
    Webhook,
    registration,
    selects,
)
from webhook.cluster.registration.match_conditions import GPU_KEYS, fits
from webhook.cluster.registration.observed import (
    Observed,
    Version,
    bundle_of,
    dict_of,
    expressions_of,
    foreign_terms,
    injected,
    keeps_selectors,
    list_of,
    matched_names_in,
    webhooks_of,
    widened,
)
from webhook.labels import ENABLED, MATCHED_NAMES, MODE


class Change(enum.Enum):
    """Why a webhook configuration is written."""

    CREATED = "created"
    ANNOUNCED = "written for a new policy"
    WIDENED = "widened"
    NARROWED = "narrowed"
    REPAIRED = "repaired"
    TAKEN_OVER = "taken over from a policy that no replica has anymore"

    @property
    def narrows(self) -> bool:
        """Whether fewer pods may be let through afterwards."""
        return self in {Change.NARROWED, Change.TAKEN_OVER}


class Update(NamedTuple):
    """A configuration to be written, and why."""

    configuration: Object
    change: Change


@dataclass(frozen=True, slots=True)
class Writer:
    """The replica that writes.

    Attributes:
        version: the version of its program.
        desired: what its policy requires.
        site: where the webhook is.
        owner: the owner reference to its release.
        announced: whether the configuration has had its current policy at least once.
        serving: whether callers that trust the bundle can be answered; if not, pods must not be kept waiting for an answer.
        everywhere: whether every replica has the path that is called; if not, pods must not wait, even if they do already.
    """

    version: Version
    desired: Desired
    site: Site
    owner: Object | None = None
    announced: bool = False
    serving: bool = True
    everywhere: bool = True


def update_for(found: Object | None, read: Observed, writer: Writer, *, quiet: bool) -> Update | None:
    """Compute the update that a replica has to write; None if none is needed.

    Args:
        found: the configuration in the cluster, None if there is none.
        read: the same as an `Observed`, with the foreign terms to keep; never that of a newer version.
        writer: the replica.
        quiet: whether neither the policy nor the webhook configuration has changed for a while.
    """
    if found is None:
        made = registration(writer.desired, writer.site, version=writer.version.text)
        _fail_open(made, {}, writer)
        _set_owner(made, writer.owner)
        return Update(made, Change.CREATED)
    version, desired = _agreed(read, writer, quiet=quiet)
    made = registration(desired, writer.site, version=version.text, foreign=read.foreign)
    dropped = _put_bundles(made, found, writer.site, quiet=quiet)
    _fail_open(made, found, writer)
    updated = copy.deepcopy(found)
    updated["webhooks"] = made["webhooks"]
    metadata = _metadata(updated)
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **made["metadata"]["annotations"]}
    _set_owner(updated, writer.owner)
    # An API server returns no empty list.
    same = updated == {**found, "webhooks": list_of(found.get("webhooks"))}
    return None if same else Update(updated, _change(read, desired, writer, dropped=dropped))


def _put_bundles(made: Object, found: Object, site: Site, *, quiet: bool) -> bool:
    """Set the bundles of a new configuration, and return whether that removes a CA.

    Foreign CAs are removed only in a quiet period: another replica may have published a CA that is not known here yet.
    Bundles that something else fills in stay as they are.
    """
    dropped = False
    theirs = webhooks_of(found)
    for webhook in made["webhooks"]:
        config, present = webhook["clientConfig"], bundle_of(theirs.get(webhook["name"], {}))
        if injected(found) or injected(made) or not site.ca_bundle:
            config.pop("caBundle", None)
            bundle = present
        else:
            bundle = site.ca_bundle if quiet else widened(site.ca_bundle, present)
        if bundle:
            config["caBundle"] = base64.b64encode(bundle).decode()
        dropped = dropped or not by_der(present).keys() <= by_der(bundle).keys()
    return dropped


def fails_open(configuration: Object, desired: Desired) -> bool:
    """Whether pods of namespaces that enforce are admitted without an answer during an outage."""
    found = webhooks_of(configuration)
    return any(
        found.get(each.name, {}).get("failurePolicy") != FAIL
        for each in desired.webhooks
        if each.failure_policy == FAIL
    )


def _fail_open(made: Object, found: Object, writer: Writer) -> None:
    """Let pods be admitted without an answer while no call can be answered, unless they already wait for one."""
    if writer.everywhere and not fails_open(found, writer.desired):
        return
    for webhook in made["webhooks"]:
        uncalled = injected(made) and not bundle_of(webhook)
        if uncalled or not writer.serving or not writer.everywhere:
            webhook["failurePolicy"] = IGNORE


def _agreed(read: Observed, writer: Writer, *, quiet: bool) -> tuple[Version, Desired]:
    """The version under which to write, and what to write."""
    present = read.desired
    if present is None or read.version is None:
        return writer.version, writer.desired
    ours, both, fit = _together(writer.desired, present)
    if read.version == writer.version:
        if present.digest == ours.digest:
            return writer.version, ours if quiet else both
        if writer.announced and not quiet:
            # Another replica is ahead or behind: only the names that it lacks are added, under its version and digest.
            return read.version, replace(present, matched_names=both.matched_names) if fit else present
    return writer.version, both


def _together(ours: Desired, present: Desired) -> tuple[Desired, Desired, bool]:
    """What is desired here; what several replicas need; and whether the names of all of them fit.

    What is judged is nobody's need: of the validating configuration, that of the newest policy is the best.
    """
    if ours.kind is VALIDATING:
        return ours, ours, False
    names = ours.matched_names | present.matched_names
    # The API server would reject the whole update: the newest policy alone is better.
    return (ours, replace(ours, matched_names=names), True) if (fit := fits(names)) else (ours, ours, fit)


def _change(read: Observed, desired: Desired, writer: Writer, *, dropped: bool) -> Change:
    if not writer.announced:
        return Change.ANNOUNCED
    if dropped:
        return Change.NARROWED
    if read.desired is None:
        return Change.REPAIRED
    if read.desired.matched_names == desired.matched_names:
        return Change.TAKEN_OVER if read.desired.digest != desired.digest else Change.REPAIRED
    return Change.WIDENED if desired.matched_names.covers(read.desired.matched_names) else Change.NARROWED


def _set_owner(configuration: Object, owner: Object | None) -> None:
    """Set the owner reference, and replace one to a deleted object of the same name."""
    if owner is None:
        return
    metadata = _metadata(configuration)
    present = metadata.get("ownerReferences") or []
    if owner not in present:
        others = (reference for reference in present if not _same_name(reference, owner))
        metadata["ownerReferences"] = [*others, owner]


def _same_name(reference: Any, owner: Object) -> bool:
    return all(dict_of(reference).get(key) == owner[key] for key in ("kind", "name"))


def _metadata(configuration: Object) -> Object:
    metadata: Object = configuration.setdefault("metadata", {"name": NAME})
    return metadata


MAX_VALUE: Final = 200
"""The most bytes of a value that a message quotes."""

MAX_NAMES: Final = 10
"""The most names that a message lists of those that let no pod through."""

Labels: TypeAlias = Mapping[str, str]
_Fault: TypeAlias = "tuple[str, str, Severity]"


class Severity(enum.IntEnum):
    """The effect of a difference."""

    SLIGHT = 1
    """Pods are sent to the webhook nevertheless."""
    KEEPS_OUT = 2
    """Pods of opted-in namespaces are not sent to the webhook."""
    NO_VERSION_WRITES = 3
    """Like `KEEPS_OUT`, and no version of this program writes it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between a configuration and the desired one.

    Attributes:
        webhook: the webhook's name; empty for the whole configuration.
        field: the field of the webhook; for the match condition that depends on the policy, the name of the condition.
        what: the difference, as the end of a sentence about the webhook.
        severity: its effect.
    """

    webhook: str
    field: str
    what: str
    severity: Severity

    def __str__(self) -> str:
        return f"{self.webhook} {self.what}" if self.webhook else self.what


def keeps_out(faults: Iterable[Difference]) -> bool:
    """Whether any of these keeps pods out."""
    return any(fault.severity is not Severity.SLIGHT for fault in faults)


def differences(
    configuration: Object | None, desired: Desired, site: Site, opted_in: Sequence[Labels]
) -> list[Difference]:
    """Compare a configuration with the desired one.

    Args:
        configuration: the configuration in the API server; None if there is none.
        desired: what the policy requires.
        site: where the webhook is; an empty address is not compared.
        opted_in: the labels of each namespace that has opted in.
    """
    if configuration is None:
        return [Difference("", "", "there is none", Severity.NO_VERSION_WRITES)]
    found = webhooks_of(configuration)
    made = webhooks_of(registration(desired, site))
    keeps_terms = keeps_selectors(configuration)
    return [
        Difference(each.name, *fault)
        for each in desired.webhooks
        for fault in (
            [
                *_of_webhook(
                    found[each.name],
                    made[each.name],
                    desired,
                    site,
                    () if keeps_terms else opted_in_as(each, desired, opted_in),
                ),
                *_of_conditions(configuration, each, made[each.name], desired),
            ]
            if each.name in found
            else [("", "is missing", _if_missing(each))]
        )
    ]


def _if_missing(webhook: Webhook) -> Severity:
    """Another policy of the same version writes a configuration without a webhook that a setting switches on."""
    return Severity.NO_VERSION_WRITES if webhook.subject is None else Severity.KEEPS_OUT


def opted_in_as(webhook: Webhook, desired: Desired, opted_in: Iterable[Labels]) -> list[Labels]:
    """The labels of the namespaces that a webhook is for, and those of a namespace with only the required labels."""
    mode = {MODE: AUDIT_MODES[0]} if webhook.modes == "auditing" else {}
    bare = {NAMESPACE_NAME: ""} if webhook.modes is None else {desired.opt_in: ENABLED, NAMESPACE_NAME: "", **mode}
    return [bare, *(labels for labels in opted_in if webhook.is_for(labels.get(MODE)))]


def harmless(terms: Terms, namespaces: Sequence[Labels]) -> Terms:
    """The terms that keep none of the namespaces out."""

    def selected(kind: str, term: object) -> bool:
        return all(selects({kind: term}, labels) for labels in namespaces)

    return Terms(
        {key: value for key, value in terms.labels.items() if selected("matchLabels", {key: value})},
        [term for term in terms.expressions if selected("matchExpressions", [term])],
    )


def other_writers(configuration: Object) -> list[str]:
    """The other managers of fields of the webhooks, except for those that only fill in bundles.

    Source: ``metadata.managedFields``, https://kubernetes.io/docs/reference/using-api/server-side-apply/.
    """
    return sorted(
        {
            str(entry.get("manager"))
            for entry in map(dict_of, list_of(dict_of(configuration.get("metadata")).get("managedFields")))
            for fields in map(dict_of, dict_of(dict_of(entry.get("fieldsV1")).get("f:webhooks")).values())
            if entry.get("manager") != FIELD_MANAGER
            and (
                fields.keys() - {"f:clientConfig", "f:name", "."}
                or dict_of(fields.get("f:clientConfig")).keys() - {"f:caBundle", "."}
            )
        }
    )


def _of_webhook(
    found: Object, made: Object, desired: Desired, site: Site, namespaces: Sequence[Labels]
) -> Iterator[_Fault]:
    for rule in made["rules"]:
        if not any(includes_rule(theirs, rule) for theirs in found.get("rules") or ()):
            yield "rules", f"has no rule for {_rule_text(rule)}", Severity.NO_VERSION_WRITES
    if found.get("objectSelector"):
        yield "objectSelector", "has an objectSelector, which keeps pods out", Severity.NO_VERSION_WRITES
    if "v1" not in (found.get("admissionReviewVersions") or ()):
        yield "admissionReviewVersions", "has no v1 among its admissionReviewVersions", Severity.NO_VERSION_WRITES
    yield from _of_selector(found, made, desired, namespaces)
    if site.address and _address(found) != _address(made):
        yield "clientConfig", f"calls {_address(found)}, not {_address(made)}", Severity.KEEPS_OUT
    if not by_der(site.ca_bundle).keys() <= by_der(bundle_of(found)).keys():
        yield "caBundle", "has a caBundle that does not contain this webhook's CA", Severity.KEEPS_OUT
    for key in ("failurePolicy", "matchPolicy", "reinvocationPolicy", "sideEffects", "timeoutSeconds"):
        if key in made and found.get(key) != made[key]:
            yield key, f"has {key} {shortened(str(found.get(key)), MAX_VALUE)}, not {made[key]}", Severity.SLIGHT


def _of_selector(found: Object, made: Object, desired: Desired, namespaces: Sequence[Labels]) -> Iterator[_Fault]:
    """Find missing terms of our own, and any terms that keep out namespaces which ours select."""
    terms = expressions_of(found)
    for ours in expressions_of(made):
        key, operator = ours["key"], ours["operator"]
        same = [term for term in terms if (term.get("key"), term.get("operator")) == (key, operator)]
        # What additional values keep out is found below.
        absent = sorted(set(ours["values"]) - {value for term in same for value in term.get("values") or ()})
        if absent:
            yield (
                "namespaceSelector",
                f"has a namespaceSelector without {key} {operator} ({', '.join(absent)})",
                Severity.SLIGHT,
            )
    kept = [labels for labels in namespaces if selects(made["namespaceSelector"], labels)]
    present = Terms(dict_of(dict_of(found.get("namespaceSelector")).get("matchLabels")), terms)
    if harmful := _without(present, harmless(present, kept)):
        # Terms with the keys that this program uses may be those of another version or policy.
        foreign = foreign_terms(found, desired.opt_in)
        another = _without(harmful, foreign) == harmful
        yield (
            "namespaceSelector",
            f"has a namespaceSelector that keeps opted-in namespaces out: {shortened(str(harmful), MAX_VALUE)}",
            Severity.KEEPS_OUT if another else Severity.NO_VERSION_WRITES,
        )


def _without(terms: Terms, others: Terms) -> Terms:
    return Terms(
        {key: value for key, value in terms.labels.items() if key not in others.labels},
        [term for term in terms.expressions if term not in others.expressions],
    )


def _of_conditions(configuration: Object, webhook: Webhook, made: Object, desired: Desired) -> Iterator[_Fault]:
    found = webhooks_of(configuration)[webhook.name]
    conditions = [dict_of(condition) for condition in list_of(found.get("matchConditions"))]
    if not conditions:
        return
    names = {condition["name"] for condition in made["matchConditions"]}
    for condition in conditions:
        if condition.get("name") not in names:
            yield (
                "matchConditions",
                f"has a foreign match condition, {shortened(str(condition.get('name')), MAX_VALUE)}",
                Severity.KEEPS_OUT,
            )
        elif condition["name"] != GPU_KEYS and condition not in made["matchConditions"]:
            yield (
                "matchConditions",
                f"has a match condition {condition['name']} that differs from what this version writes",
                Severity.KEEPS_OUT,
            )
    let_through = matched_names_in(configuration, webhook, desired.matched_names)
    if let_through is None:
        yield (
            GPU_KEYS,
            f"has a match condition {GPU_KEYS!r} that is not made from the names in the annotation {MATCHED_NAMES}",
            Severity.KEEPS_OUT,
        )
    elif missing := let_through.lacks(desired.matched_names):
        more = f" and {len(missing) - MAX_NAMES} more" if len(missing) > MAX_NAMES else ""
        yield GPU_KEYS, f"does not let pods through for {', '.join(missing[:MAX_NAMES])}{more}", Severity.KEEPS_OUT


def includes_rule(rule: Any, other: Object) -> bool:
    """Whether a rule of a webhook matches everything that another one of ours does."""
    rule = dict_of(rule)
    any_of = {"apiGroups": {"*"}, "apiVersions": {"*"}, "operations": {"*"}, "resources": {"*", "*/*"}}
    return rule.get("scope") in {None, "*", other["scope"]} and all(
        set(rule.get(key) or ()) & wildcards or set(other[key]) <= set(rule.get(key) or ())
        for key, wildcards in any_of.items()
    )


def creates_pods(rule: Any) -> bool:
    """Whether a rule of a webhook matches new pods."""
    return includes_rule(rule, NEW_PODS)


def _rule_text(rule: Object) -> str:
    if rule == NEW_PODS:
        return "new pods"
    return f"{', '.join(rule['operations'])} of {', '.join(rule['resources'])}"


def _address(webhook: Object) -> str:
    config = dict_of(webhook.get("clientConfig"))
    if service := dict_of(config.get("service")):
        path, port = service.get("path") or "/", service.get("port") or PORT
        return f"{service.get('namespace')}/{service.get('name')}:{port}{path}"
    return str(config.get("url") or "nothing")
