"""Computes the update of the webhook configuration: a pure function, the same on every replica.

Replicas learn of a change one after the other, and there is no leader. So no replica removes what another one may need: a
replica whose policy has changed adds its names to those present. Names that no replica needs anymore are removed once
nothing has changed for a while.
"""

import base64
import copy
import enum
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from certs.pem import by_der
from webhook.cluster.client.api import Object
from webhook.cluster.registration.ca_bundles import bundle_of, injected, widened
from webhook.cluster.registration.desired import ENFORCE, FAIL, IGNORE, NAME, Desired, Site, registration
from webhook.cluster.registration.match_conditions import fits
from webhook.cluster.registration.observed import Observed, Version, webhooks_of


class Change(enum.Enum):
    """Why a webhook configuration is written."""

    CREATED = "created"
    ANNOUNCED = "written for a new policy"
    WIDENED = "widened"
    NARROWED = "narrowed"
    REPAIRED = "repaired"
    TAKEN_OVER = "taken over from a policy that no replica has anymore"


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
    """

    version: Version
    desired: Desired
    site: Site
    owner: Object | None = None
    announced: bool = False
    serving: bool = True


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
    return None if updated == found else Update(updated, _change(read, desired, writer, dropped=dropped))


def _put_bundles(made: Object, found: Object, site: Site, *, quiet: bool) -> bool:
    """Set the bundles of a new configuration, and return whether that removes a CA.

    Foreign CAs are removed only in a quiet period: another replica may have published a CA that is not known here yet.
    Bundles that something else fills in stay as they are.
    """
    dropped = False
    theirs = {str(webhook.get("name")): webhook for webhook in found.get("webhooks") or () if isinstance(webhook, dict)}
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


def fails_open(configuration: Object) -> bool:
    """Whether pods of namespaces that enforce are admitted without an answer during an outage."""
    enforcing = webhooks_of(configuration).get(ENFORCE, {})
    return enforcing.get("failurePolicy") != FAIL


def _fail_open(made: Object, found: Object, writer: Writer) -> None:
    """Let pods be admitted without an answer while no call can be answered, unless they already wait for one."""
    enforcing = webhooks_of(made)[ENFORCE]
    uncalled = injected(made) and not bundle_of(enforcing)
    if (uncalled or not writer.serving) and fails_open(found):
        enforcing["failurePolicy"] = IGNORE


def _agreed(read: Observed, writer: Writer, *, quiet: bool) -> tuple[Version, Desired]:
    """The version under which to write, and what to write."""
    present = read.desired
    if present is None or read.version is None:
        return writer.version, writer.desired
    all_names = writer.desired.matched_names | present.matched_names
    fit = fits(all_names)
    if not fit:
        # The API server would reject the whole update: the newest policy alone is better.
        all_names = writer.desired.matched_names
    if read.version == writer.version:
        if present.digest == writer.desired.digest:
            return writer.version, writer.desired if quiet else replace(writer.desired, matched_names=all_names)
        if writer.announced and not quiet:
            # Another replica is ahead or behind: only the names that it lacks are added, under its version and digest.
            return read.version, replace(present, matched_names=all_names) if fit else present
    return writer.version, replace(writer.desired, matched_names=all_names)


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
    return isinstance(reference, dict) and all(reference.get(key) == owner[key] for key in ("kind", "name"))


def _metadata(configuration: Object) -> Object:
    metadata: Object = configuration.setdefault("metadata", {"name": NAME})
    return metadata
