"""How to update the webhook configuration: a pure function, the same on every replica.

Replicas learn of a change one after the other, without a leader. So none removes what another may need: a replica whose
policy has changed adds its names to those present; names that no replica needs anymore are removed once nothing has
changed for a while.
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
    TAKEN_OVER = "taken over from a policy that no replica holds any more"


class Update(NamedTuple):
    """A configuration to be written, and why."""

    configuration: Object
    change: Change


@dataclass(frozen=True, slots=True)
class Writer:
    """The replica that writes.

    Attributes:
        version: of its program.
        want: what its policy requires.
        site: where the webhook is.
        owner: the owner reference to its release.
        announced: the configuration has had its current policy at least once.
        serving: callers that trust the bundle can be answered; if not, no pod may be made to wait for an answer.
    """

    version: Version
    want: Desired
    site: Site
    owner: Object | None = None
    announced: bool = False
    serving: bool = True


def update_for(found: Object | None, read: Observed, writer: Writer, *, quiet: bool) -> Update | None:
    """Compute the update that a replica has to write; None if none is needed.

    Args:
        found: the configuration in the cluster, None if there is none.
        read: the same as an `Observed`, with the foreign terms to keep; never a newer version's.
        writer: the replica.
        quiet: neither the policy nor the webhook configuration has changed for a while.
    """
    if found is None:
        made = registration(writer.want, writer.site, version=writer.version.text)
        _spare(made, {}, writer)
        _own(made, writer.owner)
        return Update(made, Change.CREATED)
    version, want = _agreed(read, writer, quiet=quiet)
    made = registration(want, writer.site, version=version.text, foreign=read.foreign)
    dropped = _put_bundles(made, found, writer.site, quiet=quiet)
    _spare(made, found, writer)
    amended = copy.deepcopy(found)
    amended["webhooks"] = made["webhooks"]
    metadata = _metadata(amended)
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **made["metadata"]["annotations"]}
    _own(amended, writer.owner)
    return None if amended == found else Update(amended, _change(read, want, writer, dropped=dropped))


def _put_bundles(made: Object, found: Object, site: Site, *, quiet: bool) -> bool:
    """Set the bundles of the configuration that was made; whether that removes a CA.

    Foreign CAs are removed only when all is quiet: another replica may have published a CA that is not known here yet.
    Bundles that something else fills in stay as they are.
    """
    dropped = False
    theirs = {str(webhook.get("name")): webhook for webhook in found.get("webhooks") or () if isinstance(webhook, dict)}
    for webhook in made["webhooks"]:
        config, there = webhook["clientConfig"], bundle_of(theirs.get(webhook["name"], {}))
        if injected(found) or injected(made) or not site.ca_bundle:
            config.pop("caBundle", None)
            bundle = there
        else:
            bundle = site.ca_bundle if quiet else widened(site.ca_bundle, there)
        if bundle:
            config["caBundle"] = base64.b64encode(bundle).decode()
        dropped = dropped or not by_der(there).keys() <= by_der(bundle).keys()
    return dropped


def spares(configuration: Object) -> bool:
    """Whether pods that should wait for an answer are admitted without one during an outage."""
    enforcing = webhooks_of(configuration).get(ENFORCE, {})
    return enforcing.get("failurePolicy") != FAIL


def _spare(made: Object, found: Object, writer: Writer) -> None:
    """Do not make pods wait for an answer while no call can be answered, unless they do already."""
    enforcing = webhooks_of(made)[ENFORCE]
    uncalled = injected(made) and not bundle_of(enforcing)
    if (uncalled or not writer.serving) and spares(found):
        enforcing["failurePolicy"] = IGNORE


def _agreed(read: Observed, writer: Writer, *, quiet: bool) -> tuple[Version, Desired]:
    """The version to write as, and what to write."""
    there = read.desired
    if there is None or read.version is None:
        return writer.version, writer.want
    both = writer.want.matched_names | there.matched_names
    fit = fits(both)
    if not fit:
        # The API server would refuse the whole update: better the newest policy alone.
        both = writer.want.matched_names
    if read.version == writer.version:
        if there.digest == writer.want.digest:
            return writer.version, writer.want if quiet else replace(writer.want, matched_names=both)
        if writer.announced and not quiet:
            # Another replica is ahead, or behind: only our names that it lacks are added, under its version and digest.
            return read.version, replace(there, matched_names=both) if fit else there
    return writer.version, replace(writer.want, matched_names=both)


def _change(read: Observed, want: Desired, writer: Writer, *, dropped: bool) -> Change:
    if not writer.announced:
        return Change.ANNOUNCED
    if dropped:
        return Change.NARROWED
    if read.desired is None:
        return Change.REPAIRED
    if read.desired.matched_names == want.matched_names:
        return Change.TAKEN_OVER if read.desired.digest != want.digest else Change.REPAIRED
    return Change.WIDENED if want.matched_names.covers(read.desired.matched_names) else Change.NARROWED


def _own(configuration: Object, owner: Object | None) -> None:
    """Set the owner reference, and replace one to a deleted object of the same name."""
    if owner is None:
        return
    metadata = _metadata(configuration)
    there = metadata.get("ownerReferences") or []
    if owner not in there:
        metadata["ownerReferences"] = [*(one for one in there if not _same_name(one, owner)), owner]


def _same_name(reference: Any, owner: Object) -> bool:
    return isinstance(reference, dict) and all(reference.get(key) == owner[key] for key in ("kind", "name"))


def _metadata(configuration: Object) -> Object:
    metadata: Object = configuration.setdefault("metadata", {"name": NAME})
    return metadata
