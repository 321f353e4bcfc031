"""Checks of the webhook configuration: whether it exists, what it selects, which pods it lets through, its order.

And of certificates: what API servers trust, what the webhook has made, and for how long.
"""

import base64
import binascii
import datetime as dt
import itertools
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

import msgspec
from cryptography import x509

from webhook import __version__
from webhook.cluster.client import Object, StatusError, annotations_of, each_at, found_at, read_object
from webhook.cluster.registration.names import GPU_KEYS
from webhook.cluster.registration.stored import (
    Difference,
    Severity,
    Stored,
    address_of,
    bundle_of,
    differences,
    includes_rule,
    keeps_selectors,
    matched_names_in,
    other_writers,
    read_stored,
    webhooks_of,
)
from webhook.cluster.registration.wanted import (
    KINDS,
    MUTATING,
    NAME,
    NEW_PODS,
    VALIDATING,
    ConfigurationKind,
    ServiceReference,
    Site,
    selects,
    terms_text,
    wanted_by,
)
from webhook.cluster.secret import NAME as SECRET
from webhook.doctor import Level, Result, UnansweredError, counted, error, listed, ok, warning
from webhook.doctor.cluster import deployment, logs, printed, where_none_acts
from webhook.doctor.reading import ClusterReader, moment, read_or, reads, remembered, tried
from webhook.labels import KEEP_SELECTORS, WRITTEN_BY
from webhook.pod import View

INSTALL: Final = (
    "helm install vgpu-webhook deploy/chart --namespace {release} --create-namespace … (docs/install.md); "
    "if it is installed in another namespace: --release-namespace NS"
)

GROWS_FOR: Final = dt.timedelta(minutes=1)
"""How long a new validating configuration may lack webhooks: what is judged follows what is sent to be changed."""


@remembered
async def nothing_installed(seen: ClusterReader) -> bool:
    """Whether it has no webhook configuration, and nothing in its own namespace; what could not be read counts as existing."""
    if await tried(seen.configuration(MUTATING)) is not None:
        return False
    spaces = await tried(seen.namespaces())
    if not isinstance(spaces, UnansweredError) and seen.release not in {each.name for each in spaces}:
        return True
    found = await tried(seen.outcome())
    if isinstance(found, UnansweredError) or found.verdicts:
        return False
    return await tried(stored(seen)) is None and await tried(deployment(seen)) is None


async def registered(seen: ClusterReader, kind: ConfigurationKind = MUTATING) -> Result:
    """Does it exist with both webhooks, written for the current policy?"""
    found = await seen.configuration(kind)
    if found is None:
        return await _absent(seen, kind)
    wanted = wanted_by(await seen.policy(), kind).webhooks
    if missing := [each.name for each in wanted if each.name not in webhooks_of(found)]:
        return _without(" and none ".join(missing), found, kind, seen.now)
    return await _written(found, seen, kind)


async def _absent(seen: ClusterReader, kind: ConfigurationKind) -> Result:
    if await nothing_installed(seen):
        return error(
            f"the webhook is not installed: there is no {NAME}, and the namespace {seen.release} has none of its objects",
            hint=INSTALL.format(release=seen.release),
        )
    what = (
        f"{NAME}: no pod is sent to the webhook" if kind is MUTATING else f"{kind.noun} {NAME}: nothing is sent to it"
    )
    return error(f"there is no {what}", hint=await where_none_acts(seen))


def _without(missing: str, found: Object, kind: ConfigurationKind, now: dt.datetime) -> Result:
    created = moment(found_at(found, str, "metadata", "creationTimestamp"))
    if kind is VALIDATING and created is not None and now - created < GROWS_FOR:
        later = "it gets them some seconds after it is made: check again"
        return warning(f"{NAME} has no webhook {missing} yet", hint=later)
    again = f"kubectl delete {kind.kind.lower()} {NAME}: a replica creates it again"
    return error(f"{NAME} has no webhook {missing}", hint=again)


async def _written(found: Object, seen: ClusterReader, kind: ConfigurationKind) -> Result:
    in_force = await seen.policy()
    read = read_stored(found, in_force.settings.opt_in_label, kind)
    if read.version is None:
        return ok(f"{NAME} exists, maintained by hand")
    if read.digest != in_force.digest and not isinstance(await tried(seen.outcome()), UnansweredError):
        message = f"{NAME} was written for policy {read.digest}, but the ConfigMaps make policy {in_force.digest}"
        return warning(message, hint=_after_change(seen))
    other = "" if read.version == __version__ else f" (this program is {__version__})"
    return ok(f"{NAME} exists, written by version {read.version}{other} for policy {read.digest}")


async def validation(seen: ClusterReader) -> Result:
    """Is the validating webhook configuration, checked in the same three ways, as the setting `validation` requires?"""
    if not wanted_by(await seen.policy(), VALIDATING).webhooks:
        return ok("switched off by the setting validation")
    exists = await registered(seen, VALIDATING)
    if exists.level is not Level.OK:
        return exists
    others = [await answer(seen, VALIDATING) for answer in (selectors, matched_names)]
    return next((each for each in others if each.level is not Level.OK), exists)


async def selectors(seen: ClusterReader, kind: ConfigurationKind = MUTATING) -> Result:
    """Does it select opted-in namespaces, but not the cluster's own and the webhook's?"""
    found, in_force = await _complete(seen, kind), await seen.policy()
    desired, site = wanted_by(in_force, kind), Site("", own_namespace=seen.release)
    every = differences(found, desired, site, await _labels(seen))
    faults = [fault for fault in every if fault.field != GPU_KEYS]
    serious = [str(fault) for fault in faults if _is_serious(fault)]
    slight = [fault for fault in faults if not _is_serious(fault)]
    if serious:
        hint = "; written by ".join(
            filter(None, (f"compare with {await printed(seen)}", ", ".join(other_writers(found))))
        )
        return error(
            "it does not select the namespaces and pods that it should", *serious, *map(str, slight), hint=hint
        )
    read = read_stored(found, desired.opt_in, kind)
    if slight or read.foreign:
        hint = f"if that was not intended: kubectl get {kind.kind.lower()} {NAME} --output yaml"
        return _changed(found, slight, read, in_force.digest, (hint, _after_change(seen)))
    return ok(f"it selects namespaces with {desired.opt_in}=enabled, but not the cluster's own and {seen.release}")


def _is_serious(fault: Difference) -> bool:
    """Whether pods are kept out; or, without one of our terms, more are sent to the webhook than should be."""
    return fault.severity is not Severity.SLIGHT or fault.field in {"namespaceSelector", "sideEffects"}


def _changed(found: Object, slight: Sequence[Difference], read: Stored, digest: str, hints: tuple[str, str]) -> Result:
    """Judge what keeps no pod out; `hints`: what to do about it, and what if it is ours."""
    writers, lines = ", ".join(other_writers(found)), [*map(str, slight)]
    if not writers and not read.foreign:
        if read.digest not in {None, digest}:
            return warning("it was written for another policy", *lines, hint=hints[0])
        if read.version and {fault.field for fault in slight} == {"failurePolicy"}:
            held = "the webhook does not hold pods back yet: it does not know that a replica can answer"
            return warning(held, *lines, hint=hints[1])
    permitted = f", which its annotation {KEEP_SELECTORS} permits" if keeps_selectors(found) else ""
    narrowed = [
        f"{name}: others narrow its namespaces: {terms_text(terms)}{permitted}" for name, terms in read.foreign.items()
    ]
    return warning(f"it was changed by {writers or 'others'}", *lines, *narrowed, hint=hints[0])


async def matched_names(seen: ClusterReader, kind: ConfigurationKind = MUTATING) -> Result:
    """Do match conditions send every pod with a name of the policy?"""
    found, desired = await _complete(seen, kind), wanted_by(await seen.policy(), kind)
    faults = differences(found, desired, Site("", own_namespace=seen.release), [])
    lacking = [str(fault) for fault in faults if fault.field == GPU_KEYS]
    more = list[str]()
    for webhook in desired.webhooks:
        through = matched_names_in(found, webhook, desired.matched_names)
        if not webhooks_of(found)[webhook.name].get("matchConditions"):
            more.append(f"{webhook.name}: every pod, because it has no match conditions")
        elif through is not None:
            more += [f"{webhook.name}: {extra}" for extra in desired.matched_names.lacks(through)]
    if lacking:
        return error("pods with these names are not sent to the webhook", *lacking, hint=_after_change(seen))
    if more:
        message = "more pods than the policy requires are sent to the webhook, and depend on it during an outage"
        return warning(message, *more, hint=_after_change(seen))
    return ok("match conditions send every pod with a name of the policy, and no other")


async def order(seen: ClusterReader) -> Result:
    """Is it called before webhooks that have to see what it writes?

    The API server calls them in order of names.
    """
    every, labels = await seen.configurations(MUTATING), await _labels(seen)
    named = {found_at(each, str, "metadata", "name") or "": [*webhooks_of(each).values()] for each in every}
    called = {name: named[name] for name in sorted(named) if any(_changes_pods(each, labels) for each in named[name])}
    earlier = {name: webhooks for name, webhooks in called.items() if name < NAME}
    if not earlier:
        return ok(f"called before all others that change pods ({sum(name > NAME for name in called)})")
    places = [vendor.place for vendor in (await seen.policy()).in_force]
    schedulers = {name for place in places for name in (place.scheduler, *place.schedulers) if name}
    return _before_schedulers(earlier, schedulers) or _before_others(earlier)


def _changes_pods(webhook: Object, labels: Sequence[Mapping[str, str]]) -> bool:
    """Whether it is called for new pods of some namespace with such labels, by its namespace selector."""
    if not any(includes_rule(rule, NEW_PODS) for rule in each_at(webhook, "rules")):
        return False
    return not labels or any(selects(webhook.get("namespaceSelector"), each) for each in labels)


def _before_schedulers(earlier: Mapping[str, Sequence[Object]], schedulers: set[str]) -> Result | None:
    calling, unmatched = list[str](), list[str]()
    for name, webhooks in earlier.items():
        called = schedulers & {found_at(each, str, "clientConfig", "service", "name") or "" for each in webhooks}
        calling += [f"{name} calls {', '.join(sorted(called))}"] * bool(called)
        # As that of KAI's operator.
        conditions = [str(each.get("expression")) for hook in webhooks for each in each_at(hook, "matchConditions")]
        unmatched += [name] * any("schedulerName" in each for each in conditions)
    hint = f"rename it so that it sorts after {NAME}"
    if calling:
        message = "the webhook of a scheduler is called before ours, and does not see what ours writes"
        return error(message, *calling, hint=f"{hint}: configurations are called in order of their names")
    if unmatched:
        again = "the API server calls again only what it has called before: pods lack what it writes"
        message = f"called before ours, and only for pods of a scheduler, which ours sets: {listed(unmatched)}"
        return error(message, again, hint=hint)
    return None


def _before_others(earlier: Mapping[str, Sequence[Object]]) -> Result:
    policies = {name: {each.get("reinvocationPolicy") for each in webhooks} for name, webhooks in earlier.items()}
    if once := [name for name, found in policies.items() if found != {"IfNeeded"}]:
        hint = f"if it acts on GPU keys: set a name after {NAME}; with reinvocationPolicy: IfNeeded it may append twice"
        return warning(f"called before ours, and not again afterwards: {listed(once)}", hint=hint)
    return ok(f"called before ours, and again afterwards, when it may append twice: {listed([*earlier])}")


async def _complete(seen: ClusterReader, kind: ConfigurationKind) -> Object:
    """The webhook configuration of a kind; an `UnansweredError` if it could not be read, or has not all webhooks."""
    found = await seen.configuration(kind)
    required = {each.name for each in wanted_by(await seen.policy(), kind).webhooks}
    if found is None or not required <= webhooks_of(found).keys():
        missing = warning("not checked: the webhook configuration is missing or incomplete", hint="see above")
        raise UnansweredError(missing)
    return found


async def _labels(seen: ClusterReader) -> list[Mapping[str, str]]:
    """Of the opted-in namespaces; empty if they are not known."""
    return [space.labels for space in await read_or([], seen.chosen_namespaces())]


def _after_change(seen: ClusterReader) -> str:
    return f"after a change this takes up to a minute; if it takes longer: {logs(seen)}"


LATE: Final = 1 / 4
"""Part of a serving certificate's life that is left when its renewal, due after two thirds, is overdue."""

CA_LEFT: Final = dt.timedelta(days=30)
"""A CA that expires sooner should have had a successor for long."""


async def bundle(seen: ClusterReader) -> Result:
    """Does the webhook configuration trust valid CAs, and those of the Secret?"""
    found, ours = await seen.configuration(MUTATING), await _our_webhooks(seen)
    if found is None or not ours:
        return warning("not checked: there is no webhook configuration", hint="see above")
    act = await where_none_acts(seen)
    bundles = {name: bundle_of(webhook) for name, webhook in ours.items()}
    trusted = {name: _certificates(each) for name, each in bundles.items()}
    if empty := next((name for name, each in bundles.items() if not each.strip()), None):
        return _without_bundle(empty, ours[empty], act)
    if strange := next((name for name, cas in trusted.items() if not cas), None):
        return error(f"the caBundle of {strange} holds something other than certificates", hint=act)
    cas = [*itertools.chain.from_iterable(trusted.values())]
    secret = await read_or(None, stored(seen))
    unknown = [ca for ca in secret[1] if ca not in cas] if secret else []
    different = (
        warning(f"the webhooks of {NAME} trust different CAs", hint=act) if len({*bundles.values()}) > 1 else None
    )
    narrower = _narrower(len(unknown), found, seen) if unknown else None
    return _expired(cas, seen.now, act) or narrower or different or _expiring(cas, seen.now, act)


def _expired(trusted: Sequence[x509.Certificate], now: dt.datetime, hint: str) -> Result | None:
    if any(_is_valid(ca, now) for ca in trusted):
        return None
    over = all(ca.not_valid_after_utc < now for ca in trusted)
    message = "every CA of the caBundle has expired" if over else "no CA of the caBundle is valid now"
    return error(message, *dict.fromkeys(map(_span, trusted)), hint=hint)


def _narrower(number: int, found: Object, seen: ClusterReader) -> Result:
    """Judge a bundle that lacks CAs: who adds them."""
    message = f"the caBundle lacks {counted(number, 'CA', 'CAs')} of the Secret {SECRET}"
    if WRITTEN_BY not in annotations_of(found):
        return warning(message, hint="it is maintained by hand: add ca.crt of the Secret to each caBundle")
    elsewhere = f"kubectl delete --namespace {seen.release} secret/{SECRET}"
    soon = f"a replica adds it within a minute; if not: {logs(seen)}"
    return warning(message, hint=f"{soon}; if certificates come from elsewhere now: {elsewhere}")


def _expiring(trusted: Sequence[x509.Certificate], now: dt.datetime, hint: str) -> Result:
    left = max(ca.not_valid_after_utc for ca in trusted if _is_valid(ca, now)) - now
    if left < CA_LEFT:
        return warning(f"the last CA of the caBundle expires in {_days(left)}", hint=hint)
    return ok(f"trusts {counted(len(set(trusted)), 'CA', 'CAs')}, valid for {_days(left)}")


async def _our_webhooks(seen: ClusterReader) -> dict[str, Object]:
    """Our webhooks of both configurations, by name."""
    found = [(kind, await tried(seen.configuration(kind))) for kind in KINDS]
    webhooks = [(kind, webhooks_of(each)) for kind, each in found if isinstance(each, dict)]
    return {each.name: some[each.name] for kind, some in webhooks for each in kind.webhooks if each.name in some}


def _without_bundle(name: str, webhook: Object, hint: str) -> Result:
    """Judge an empty bundle: API servers then trust what their machines trust."""
    if isinstance(address_of(webhook), ServiceReference):
        return error(f"{name} has no caBundle: no API server can trust the webhook", hint=hint)
    what = f"{name} has no caBundle: API servers use the CAs of their machines"
    return warning(what, hint=f"fine if the certificate is from a public CA; {hint}")


async def age(seen: ClusterReader) -> Result:
    """Is the certificate that the webhook renews itself valid for some time?"""
    secret = await stored(seen)
    if secret is None or not secret[0]:
        return ok(f"the Secret {SECRET} has no certificate: it is renewed elsewhere")
    certificate, why = secret[0][0], f"see why: {logs(seen)}"
    if not _is_valid(certificate, seen.now):
        return error("the certificate has expired, or is not valid yet", _span(certificate), hint=why)
    left = certificate.not_valid_after_utc - seen.now
    if left / (certificate.not_valid_after_utc - certificate.not_valid_before_utc) < LATE:
        return warning("the certificate should have been renewed", _span(certificate), hint=why)
    return ok(f"valid for {_days(left)}")


def _is_valid(certificate: x509.Certificate, now: dt.datetime) -> bool:
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def _span(certificate: x509.Certificate) -> str:
    return f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} to {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"


def _days(span: dt.timedelta) -> str:
    return counted(span.days, "day") if span >= dt.timedelta(days=2) else f"{span.total_seconds() / 3600:.0f} h"


class _Data(View, frozen=True):
    """The certificates in the webhook's Secret, in base64; its keys are never decoded."""

    serving: str = msgspec.field(default="", name="tls.crt")
    cas: str = msgspec.field(default="", name="ca.crt")


class _Secret(View, frozen=True):
    data: _Data = _Data()


@reads(f"the Secret {SECRET}", f"get the Secret {SECRET}")
async def stored(seen: ClusterReader) -> tuple[Sequence[x509.Certificate], Sequence[x509.Certificate]] | None:
    """The serving certificate in the Secret, and the CAs; None if there is no Secret."""
    try:
        found = await read_object(seen.api, f"/api/v1/namespaces/{seen.release}/secrets/{SECRET}", _Secret)
    except StatusError as problem:
        if problem.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    return _certificates(found.data.serving), _certificates(found.data.cas)


def _certificates(pem: bytes | str) -> tuple[x509.Certificate, ...]:
    """The certificates of a PEM text, or of its base64; none if it is something else."""
    try:
        return tuple(x509.load_pem_x509_certificates(base64.b64decode(pem) if isinstance(pem, str) else pem))
    except (binascii.Error, ValueError, x509.InvalidVersion):
        return ()
