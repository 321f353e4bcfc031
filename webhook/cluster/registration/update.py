"""What one pass over the webhook configuration writes: a pure function, the same on every replica.

Replicas learn of a change one after the other, and there is no leader. So no replica removes what another one may need: a
replica whose policy has changed adds its names to those present. Names that no replica needs anymore are removed once
nothing has changed for a while.
"""

import base64
import copy
import enum
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

from certs.x509 import by_der
from webhook import __version__
from webhook.cluster.client import Object, each_at
from webhook.cluster.registration.names import fits
from webhook.cluster.registration.stored import (
    Difference,
    Stored,
    annotations_of,
    bundle_of,
    is_injected,
    keeps_out,
    other_writers,
    sentences,
    webhooks_of,
)
from webhook.cluster.registration.wanted import FAIL, IGNORE, NAME, VALIDATING, Site, Wanted, registration


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


@dataclass(frozen=True, slots=True)
class Pass:
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
    _: KW_ONLY
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
