"""What is stored: who wrote the webhook configuration of a cluster, what it was made from, and how it differs.

Only the content is compared, whoever wrote it, and anything that keeps pods of an opted-in namespace from the webhook is a
fault, intended or not.

What one pass writes is a `Pass`, the same on every replica. Replicas learn of a change one after the other, and there is no
leader. So no replica removes what another one may need: a replica whose policy has changed adds its names to those present.
Names that no replica needs anymore are removed once nothing has changed for a while.
"""

import base64
import binascii
import copy
import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from certs.x509 import by_der
from webhook import __version__
from webhook.cluster.client import FIELD_MANAGER, Object, annotations_of, each_at, found_at
from webhook.cluster.events import shortened
from webhook.cluster.registration.names import GPU_KEYS, MatchedNames, fits, parse_names, resource_names
from webhook.cluster.registration.wanted import (
    AUDIT_MODES,
    FAIL,
    IGNORE,
    KNOWN_WORKLOAD,
    MUTATING,
    NAME,
    NAMESPACE_NAME,
    NEW_PODS,
    PORT,
    VALIDATING,
    WORKLOADS,
    ConfigurationKind,
    Labels,
    ServiceReference,
    Site,
    Wanted,
    Webhook,
    holds,
    registration,
    selects,
    terms_of,
    terms_text,
    workloads_in,
)
from webhook.labels import ENABLED, INJECT, KEEP_SELECTORS, MATCHED_NAMES, MODE, WRITTEN_BY
from webhook.mapping.model.policy import CLUSTER_NAMESPACES, Policy
from webhook.pod import Pod

INJECTED: Final = "cert-manager.io/inject-"
"""The prefix of the annotations that make cert-manager fill in ``caBundle``."""

_STAMP: Final = re.compile(r"(\S+) (\S+)")
_VERSION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})*)(.*)")
_PRE_RELEASE: Final = re.compile(r"[-._]?(?:a|b|c|rc|alpha|beta|pre|dev)")


def age_of(version: str) -> tuple[tuple[int, ...], bool, str]:
    """What sorts versions of the program by age; one that cannot be parsed is older than all others."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (), False, version
    numbers = [int(number) for number in re.sub(r"(\.0+)+$", "", found[1]).split(".")]
    return (*numbers, 0), _PRE_RELEASE.match(found[2]) is None, found[2]


class Stored(Struct, frozen=True):
    """A webhook configuration that was read; of its writer, nothing is known without its annotation.

    Attributes:
        made_from: what it was made from; None if this program did not make it, or so much was changed that it is unknown.
        foreign: foreign terms in the namespace selectors, by the name of the webhook.
        bundles: the CAs (DER) in the bundle of each of our webhooks.
    """

    object: Object | None = None
    version: str | None = None
    digest: str | None = None
    made_from: Wanted | None = None
    foreign: Mapping[str, Sequence[Object]] = {}
    bundles: tuple[frozenset[bytes], ...] = ()

    def is_newer(self, version: str) -> bool:
        """Whether a newer version of the program wrote it."""
        return self.version is not None and age_of(self.version) > age_of(version)


def read_stored(configuration: Object | None, opt_in: str = INJECT, kind: ConfigurationKind = MUTATING) -> Stored:
    """Read a configuration, even if others have changed it. `opt_in` is the reader's own label; the writer's may differ."""
    if configuration is None:
        return Stored()
    found = webhooks_of(configuration)
    ours = {each.name: found[each.name] for each in kind.webhooks if each.name in found}
    foreign = {name: terms for name, webhook in ours.items() if (terms := foreign_terms(webhook, opt_in))}
    bundles = tuple(frozenset(by_der(bundle_of(webhook))) for webhook in ours.values())
    stored = Stored(configuration, foreign=foreign, bundles=bundles)
    stamp = _STAMP.fullmatch(str(annotations_of(configuration).get(WRITTEN_BY, "")))
    if stamp is None:
        return stored
    made_from = _made_from(configuration, ours, Wanted(stamp[2], MatchedNames(), opt_in, kind=kind))
    return replace(stored, version=stamp[1], digest=stamp[2], made_from=made_from)


def _made_from(configuration: Object, ours: Mapping[str, Object], unknown: Wanted) -> Wanted | None:
    """What leads to these webhooks, by the names in the annotation; None if that does not."""
    names = parse_names(annotations_of(configuration).get(MATCHED_NAMES))
    if names is None:
        return None
    webhooks = [each for each in unknown.kind.webhooks if each.name in ours]
    marks = {
        (
            matched_names_in(configuration, each),
            _opt_in(ours[each.name], unknown.opt_in),
            found_at(ours[each.name], int, "timeoutSeconds"),
        )
        for each in webhooks
        if each.expression is not None
    }
    (named, opt_in, timeout), *others = marks or {(names, unknown.opt_in, unknown.timeout)}
    if others or named != names or opt_in is None or timeout is None:
        return None
    subjects = frozenset(each.subject for each in webhooks if each.subject is not None)
    workloads = workloads_in(str(_conditions(ours.get(WORKLOADS, {})).get(KNOWN_WORKLOAD)))
    found = replace(
        unknown, matched_names=names, opt_in=opt_in, timeout=timeout, subjects=subjects, workloads=workloads
    )
    return found if len(found.webhooks) == len(webhooks) else None


def webhooks_of(configuration: Object) -> dict[str, Object]:
    """The webhooks of a configuration by name."""
    return {str(webhook.get("name")): webhook for webhook in each_at(configuration, "webhooks")}


def bundle_of(webhook: Object) -> bytes:
    """The bundle of one webhook; empty if it has none that can be decoded."""
    try:
        return base64.b64decode(found_at(webhook, str, "clientConfig", "caBundle") or "")
    except (binascii.Error, ValueError):
        return b""


def is_injected(configuration: Object) -> bool:
    """Whether cert-manager fills in the bundles of a configuration."""
    return any(str(key).startswith(INJECTED) for key in annotations_of(configuration))


def keeps_selectors(configuration: Object) -> bool:
    """Whether the configuration has the annotation that keeps foreign terms in its namespace selectors."""
    return annotations_of(configuration).get(KEEP_SELECTORS) == "true"


def _conditions(webhook: Object) -> dict[Any, Any]:
    """The match conditions of a webhook, by name."""
    return {each.get("name"): each.get("expression") for each in each_at(webhook, "matchConditions")}


def matched_names_in(
    configuration: Object, webhook: Webhook, expected: MatchedNames | None = None
) -> MatchedNames | None:
    """The names in the match conditions of a webhook: those in the annotation, if the conditions are made from them.

    The expected ones are recognized without it. None if the annotation is missing, or it or the conditions were changed.
    """
    if webhook.expression is None:
        return expected
    expression = _conditions(webhooks_of(configuration).get(webhook.name, {})).get(GPU_KEYS)
    for names in (parse_names(annotations_of(configuration).get(MATCHED_NAMES)), expected):
        if names is not None and webhook.expression(names) == expression:
            return names
    return None


def _opt_in(webhook: Object, expected: str) -> str | None:
    """The opt-in label that a webhook was made with: the expected one if it is there, or else the one in its place."""
    like = ("In", [ENABLED])
    terms = terms_of(webhook.get("namespaceSelector"))
    keys = [str(term["key"]) for term in terms if (term.get("operator"), term.get("values")) == like]
    return expected if expected in keys else next(iter(keys), None)


def foreign_terms(webhook: Object, opt_in: str) -> list[Object]:
    """The foreign terms of a webhook's namespace selector, except those for our own labels, which could only contradict."""
    own_keys = {_opt_in(webhook, opt_in), opt_in, MODE}
    terms = [term for term in terms_of(webhook.get("namespaceSelector")) if term.get("key") not in own_keys]
    exemption = next(filter(_exempts_cluster_namespaces, terms), None)
    return [term for term in terms if term is not exemption]


def _exempts_cluster_namespaces(term: Object) -> bool:
    """Whether a term is our own exemption of system namespaces; one with more names than that is foreign."""
    names = set(found_at(term, list, "values") or ())
    ours = (term.get("key"), term.get("operator")) == (NAMESPACE_NAME, "NotIn")
    return ours and names >= CLUSTER_NAMESPACES and len(names - CLUSTER_NAMESPACES) <= 1


def other_writers(configuration: Object) -> list[str]:
    """The other managers of fields of the webhooks, except for those that only fill in bundles.

    Source: ``metadata.managedFields``, https://kubernetes.io/docs/reference/using-api/server-side-apply/.
    """
    entries = each_at(configuration, "metadata", "managedFields")
    others = [entry for entry in entries if entry.get("manager") != FIELD_MANAGER]
    return sorted({str(entry.get("manager")) for entry in others if _owns_more_than_bundles(entry)})


def _owns_more_than_bundles(entry: Object) -> bool:
    return any(
        {*(found_at(fields, dict) or ())} - {"f:clientConfig", "f:name", "."}
        or {*(found_at(fields, dict, "f:clientConfig") or ())} - {"f:caBundle", "."}
        for fields in (found_at(entry, dict, "fieldsV1", "f:webhooks") or {}).values()
    )


MAX_VALUE: Final = 200
"""The most bytes of a value that a message quotes."""

MOST_NAMES: Final = 10
"""The most names that a message lists of those that let no pod through."""

_Fault: TypeAlias = "tuple[str, str, Severity]"


class Severity(enum.IntEnum):
    """The effect of a difference."""

    SLIGHT = 1
    """Pods are sent to the webhook nevertheless."""
    KEEPS_OUT = 2
    """Pods of opted-in namespaces are not sent to the webhook."""
    NO_VERSION_WRITES = 3
    """Like `KEEPS_OUT`, and no version of this program writes it."""


class Difference(Struct, frozen=True):
    """One difference between a configuration and the wanted one: what is so, as the end of a sentence about the webhook.

    Of the match condition that depends on the policy, the field is the name of the condition; without a webhook, it is about
    the whole configuration.
    """

    webhook: str
    field: str
    what: str
    severity: Severity

    def __str__(self) -> str:
        return f"{self.webhook} {self.what}" if self.webhook else self.what


def sentences(faults: Iterable[Difference]) -> str:
    """The differences for messages."""
    return "; ".join(map(str, faults))


def keeps_out(faults: Iterable[Difference]) -> bool:
    """Whether any of these keeps pods out."""
    return any(fault.severity is not Severity.SLIGHT for fault in faults)


def differences(
    configuration: Object | None, wanted: Wanted, site: Site, opted_in: Sequence[Labels]
) -> list[Difference]:
    """Compare a configuration with the wanted one, for namespaces with these labels; an empty address is not compared."""
    if configuration is None:
        return [Difference("", "", "there is none", Severity.NO_VERSION_WRITES)]
    made = webhooks_of(registration(wanted, site))
    return [
        Difference(each.name, *fault)
        for each in wanted.webhooks
        for fault in _of_webhook(configuration, each, made[each.name], wanted, site, opted_in=opted_in)
    ]


def opted_in_as(webhook: Webhook, wanted: Wanted, opted_in: Iterable[Labels]) -> list[Labels]:
    """The labels of the namespaces that a webhook is for, and those of a namespace with only the required labels."""
    mode = {MODE: AUDIT_MODES[0]} if webhook.modes == "auditing" else {}
    bare = {NAMESPACE_NAME: ""} if webhook.modes is None else {wanted.opt_in: ENABLED, NAMESPACE_NAME: "", **mode}
    return [bare, *(labels for labels in opted_in if webhook.is_for(labels.get(MODE)))]


def harmless(terms: Iterable[Object], namespaces: Sequence[Labels]) -> list[Object]:
    """The terms that keep none of the namespaces out."""
    return [term for term in terms if all(holds(term, labels) for labels in namespaces)]


def _of_webhook(
    configuration: Object, webhook: Webhook, made: Object, wanted: Wanted, site: Site, *, opted_in: Sequence[Labels]
) -> Iterator[_Fault]:
    found = webhooks_of(configuration).get(webhook.name)
    if found is None:
        # Another policy of the same version writes a configuration without a webhook that a setting switches on.
        yield "", "is missing", Severity.NO_VERSION_WRITES if webhook.subject is None else Severity.KEEPS_OUT
        return
    yield from _of_what_is_sent(found, made)
    namespaces = () if keeps_selectors(configuration) else opted_in_as(webhook, wanted, opted_in)
    yield from _of_selector(found, made, wanted, namespaces)
    yield from _of_address(found, made, site)
    for key in ("failurePolicy", "matchPolicy", "reinvocationPolicy", "sideEffects", "timeoutSeconds"):
        if found.get(key) != made.get(key, found.get(key)):
            yield key, f"has {key} {shortened(str(found.get(key)), MAX_VALUE)}, not {made[key]}", Severity.SLIGHT
    if _conditions(found):
        yield from _of_conditions(configuration, webhook, _conditions(made), wanted)


def _of_what_is_sent(found: Object, made: Object) -> Iterator[_Fault]:
    for rule in made["rules"]:
        if not any(includes_rule(theirs, rule) for theirs in each_at(found, "rules")):
            yield "rules", f"has no rule for {_rule_text(rule)}", Severity.NO_VERSION_WRITES
    if found.get("objectSelector"):
        yield "objectSelector", "has an objectSelector, which keeps pods out", Severity.NO_VERSION_WRITES
    if "v1" not in (found_at(found, list, "admissionReviewVersions") or ()):
        yield "admissionReviewVersions", "has no v1 among its admissionReviewVersions", Severity.NO_VERSION_WRITES


def _of_address(found: Object, made: Object, site: Site) -> Iterator[_Fault]:
    if site.address and address_of(found) != address_of(made):
        yield "clientConfig", f"calls {address_of(found) or 'nothing'}, not {address_of(made)}", Severity.KEEPS_OUT
    if not by_der(site.ca_bundle).keys() <= by_der(bundle_of(found)).keys():
        yield "caBundle", "has a caBundle that does not contain this webhook's CA", Severity.KEEPS_OUT


def _of_selector(found: Object, made: Object, wanted: Wanted, namespaces: Sequence[Labels]) -> Iterator[_Fault]:
    """Find missing terms of our own, and any terms that keep out namespaces which ours select."""
    terms = terms_of(found.get("namespaceSelector"))
    for ours in terms_of(made["namespaceSelector"]):
        key, operator = ours["key"], ours["operator"]
        same = [term for term in terms if (term.get("key"), term.get("operator")) == (key, operator)]
        # What additional values keep out is found below.
        absent = sorted(set(ours["values"]).difference(*(found_at(term, list, "values") or () for term in same)))
        if absent:
            what = f"has a namespaceSelector without {key} {operator} ({', '.join(absent)})"
            yield "namespaceSelector", what, Severity.SLIGHT
    kept = harmless(terms, [labels for labels in namespaces if selects(made["namespaceSelector"], labels)])
    if harmful := [term for term in terms if term not in kept]:
        # Terms with the keys that this program uses may be those of another version or policy.
        foreign = any(term in harmful for term in foreign_terms(found, wanted.opt_in))
        text = shortened(terms_text(harmful), MAX_VALUE)
        yield (
            "namespaceSelector",
            f"has a namespaceSelector that keeps opted-in namespaces out: {text}",
            Severity.NO_VERSION_WRITES if foreign else Severity.KEEPS_OUT,
        )


def _of_conditions(
    configuration: Object, webhook: Webhook, made: Mapping[str, str], wanted: Wanted
) -> Iterator[_Fault]:
    for name, expression in _conditions(webhooks_of(configuration)[webhook.name]).items():
        if name not in made:
            what = f"has a foreign match condition, {shortened(str(name), MAX_VALUE)}"
            yield "matchConditions", what, Severity.KEEPS_OUT
        elif name != GPU_KEYS and expression != made[name]:
            what = f"has a match condition {name} that differs from what this version writes"
            yield "matchConditions", what, Severity.KEEPS_OUT
    let_through = matched_names_in(configuration, webhook, wanted.matched_names)
    if let_through is None:
        what = f"has a match condition {GPU_KEYS!r} that is not made from the names in the annotation {MATCHED_NAMES}"
        yield GPU_KEYS, what, Severity.KEEPS_OUT
    elif missing := let_through.lacks(wanted.matched_names):
        more = f" and {len(missing) - MOST_NAMES} more" if len(missing) > MOST_NAMES else ""
        yield GPU_KEYS, f"does not let pods through for {', '.join(missing[:MOST_NAMES])}{more}", Severity.KEEPS_OUT


def includes_rule(rule: Object, other: Object) -> bool:
    """Whether a rule of a webhook matches everything that another one of ours does."""
    any_of = {"apiGroups": {"*"}, "apiVersions": {"*"}, "operations": {"*"}, "resources": {"*", "*/*"}}
    return rule.get("scope") in {None, "*", other["scope"]} and all(
        wildcards.intersection(given) or set(other[key]) <= given
        for key, wildcards in any_of.items()
        for given in [set(found_at(rule, list, key) or ())]
    )


def _rule_text(rule: Object) -> str:
    if rule == NEW_PODS:
        return "new pods"
    return f"{', '.join(rule['operations'])} of {', '.join(rule['resources'])}"


def address_of(webhook: Object) -> ServiceReference | str | None:
    """Where an API server calls one webhook of a configuration; None if that cannot be used."""
    service = found_at(webhook, dict, "clientConfig", "service")
    if service is None:
        return found_at(webhook, str, "clientConfig", "url")
    namespace, name, path = str(service.get("namespace")), str(service.get("name")), str(service.get("path") or "/")
    return ServiceReference(namespace, name, path, service.get("port") or PORT)


def known_to_peers(pod: Pod, policy: Policy, own: MatchedNames, registered: Stored | None) -> bool:
    """Whether a pod has a name that the webhook configuration lets through and this replica's policy does not know.

    The answer is then 503 with ``Retry-After: 1``, and the API server retries within the same call. A configuration with this
    replica's own digest, or without one (because it is maintained by hand), never has such a name.
    """
    if registered is None or registered.digest is None or registered.digest == policy.digest:
        return False
    resources = resource_names([*pod.spec.containers, *(pod.spec.init_containers or ())])
    keys = [*(pod.metadata.labels or ()), *(pod.metadata.annotations or ())]
    if registered.made_from is None:
        return not own.has_pod(resources, keys)
    theirs = registered.made_from.matched_names
    return any(theirs.has_resource(name) and not _known(name, policy) for name in resources) or any(
        theirs.has_key(key) and not own.has_key(key) for key in keys
    )


def _known(name: str, policy: Policy) -> bool:
    """Whether a policy knows a resource name as a key, as one of an inactive vendor, or as one of another system."""
    return bool(policy.resources.owners(name)) or name in policy.inactive or name in policy.near.known


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


class Pass(Struct, frozen=True):
    """What one pass of a replica over the webhook configuration has found, and what it may write.

    Attributes:
        stored: the configuration, with the foreign terms that are kept; never as that of a newer version.
        wanted: what the policy requires, as far as it may be written now; `required`: all of it, if that is more.
        announced: whether the configuration has had the current policy at least once.
        quiet: whether neither the policy nor the webhook configuration has changed for a while.
        serving: whether callers that trust the bundle can be answered; if not, pods must not be kept waiting for an answer.
    """

    stored: Stored
    wanted: Wanted
    site: Site
    version: str = __version__
    required: Wanted | None = None
    faults: Sequence[Difference] = ()
    owner: Object | None = None
    announced: bool = False
    quiet: bool = False
    serving: bool = True

    @property
    def held(self) -> bool:
        """Whether a part of what the policy requires may not be written yet."""
        return self.required is not None and self.required != self.wanted

    @property
    def urgent(self) -> bool:
        """Whether pods of opted-in namespaces are created without a call, or without an answer."""
        found = self.stored.object
        return found is None or keeps_out(self.faults) or fails_open(found, self.wanted)

    def deed(self) -> str:
        """What others did to the configuration; empty if that is unknown."""
        if self.stored.object is None:
            return "deleted"
        writers, changes = ", ".join(other_writers(self.stored.object)), sentences(self.faults)
        return f"changed{f' by {writers}' if writers else ''}{f' ({changes})' if changes else ''}".removesuffix(
            "changed"
        )

    def update(self) -> tuple[Object, Change] | None:
        """The configuration to be written, and why; None if nothing is missing."""
        found = self.stored.object
        version, wanted = self._agreed()
        made = registration(wanted, self.site, version=version, foreign=self.stored.foreign)
        dropped = self._put_bundles(made)
        self._fail_open(made)
        updated = made if found is None else {**copy.deepcopy(found), "webhooks": made["webhooks"]}
        metadata: Object = updated.setdefault("metadata", {"name": NAME})
        metadata["annotations"] = {**annotations_of(updated), **made["metadata"]["annotations"]}
        self._set_owner(metadata)
        if found is None:
            return updated, Change.CREATED
        # An API server returns no empty list.
        same = updated == {**found, "webhooks": found.get("webhooks") or []}
        return None if same else (updated, self._change(wanted, dropped=dropped))

    def _agreed(self) -> tuple[str, Wanted]:
        """The version under which to write, and what to write."""
        ours, present = self.wanted, self.stored.made_from
        # What is judged is nobody's need: of the validating configuration, that of the newest policy is the best.
        if present is None or self.stored.version is None:
            return self.version, ours
        names = ours.matched_names | present.matched_names
        # Of names that do not fit together the API server would reject the whole update: the newest policy alone is better.
        together = ours.kind is not VALIDATING and fits(names)
        both = replace(ours, matched_names=names) if together else ours
        if self.stored.version != self.version:
            return self.version, both
        if present.digest == ours.digest:
            return self.version, ours if self.quiet else both
        if self.announced and not self.quiet:
            # Another replica is ahead or behind: only the names that it lacks are added, under its digest.
            return self.version, replace(present, matched_names=names) if together else present
        return self.version, both

    def _put_bundles(self, made: Object) -> bool:
        """Set the bundles of a new configuration, and return whether that removes a CA.

        Foreign CAs are removed only in a quiet period: another replica may have published a CA that is not known here yet.
        Bundles that something else fills in stay as they are.
        """
        dropped = False
        found, ours = self.stored.object or {}, self.site.ca_bundle
        theirs = webhooks_of(found)
        others = is_injected(found) or is_injected(made) or not ours
        for webhook in made["webhooks"]:
            config, present = webhook["clientConfig"], bundle_of(theirs.get(webhook["name"], {}))
            config.pop("caBundle", None)
            if bundle := present if others else ours if self.quiet else widened(ours, present):
                config["caBundle"] = base64.b64encode(bundle).decode()
            dropped = dropped or not by_der(present).keys() <= by_der(bundle).keys()
        return dropped

    def _fail_open(self, made: Object) -> None:
        """Let pods be admitted without an answer while no call can be answered, unless they already wait for one."""
        if not fails_open(self.stored.object or {}, self.wanted):
            return
        for webhook in made["webhooks"]:
            uncalled = is_injected(made) and not bundle_of(webhook)
            if uncalled or not self.serving:
                webhook["failurePolicy"] = IGNORE

    def _change(self, wanted: Wanted, *, dropped: bool) -> Change:
        present = self.stored.made_from
        if not self.announced:
            return Change.ANNOUNCED
        if dropped:
            return Change.NARROWED
        if present is None:
            return Change.REPAIRED
        if present.matched_names == wanted.matched_names:
            return Change.TAKEN_OVER if present.digest != wanted.digest else Change.REPAIRED
        return Change.NARROWED if wanted.matched_names.lacks(present.matched_names) else Change.WIDENED

    def _set_owner(self, metadata: Object) -> None:
        """Set the owner reference, and replace one to a deleted object of the same name."""
        present = each_at(metadata, "ownerReferences")
        if self.owner is not None and self.owner not in present:
            same = {key: self.owner[key] for key in ("kind", "name")}
            others = [each for each in present if {**each, **same} != each]
            metadata["ownerReferences"] = [*others, self.owner]


def widened(ours: bytes, theirs: bytes) -> bytes:
    """A bundle with the CAs of both; `theirs`, unchanged, if it has all of them already."""
    own, others = by_der(ours), by_der(theirs)
    if not own:
        return ours
    if own.keys() <= others.keys():
        return theirs
    parts = [ours, *(block for der, block in others.items() if der not in own)]
    return b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts)


def fails_open(configuration: Object, wanted: Wanted) -> bool:
    """Whether pods of namespaces that enforce are admitted without an answer during an outage."""
    found = webhooks_of(configuration)
    closed = [each.name for each in wanted.webhooks if each.failure_policy == FAIL]
    return any(found.get(name, {}).get("failurePolicy") != FAIL for name in closed)
