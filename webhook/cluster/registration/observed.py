"""The webhook configuration in the cluster: who wrote it, which pods it lets through, and what others added."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import total_ordering
from http import HTTPStatus
from typing import Any, Final

from certs.ca import by_der
from webhook.cluster.client import Api, Object, apply_bare, replace_object
from webhook.cluster.registration.desired import (
    API_VERSION,
    KNOWN_KIND,
    MUTATING,
    NAME,
    NAMESPACE_NAME,
    WORKLOADS,
    ConfigurationKind,
    Desired,
    Terms,
    Webhook,
    kinds_in,
)
from webhook.cluster.registration.match_conditions import GPU_KEYS, MatchedNames, parse_names
from webhook.labels import ENABLED, INJECT, KEEP_SELECTORS, MATCHED_NAMES, MODE, WRITTEN_BY
from webhook.mapping.model.policy import CLUSTER_NAMESPACES

_LABELS = {"app.kubernetes.io/managed-by": "vgpu-webhook"}


@dataclass(frozen=True, slots=True)
class StoredConfiguration:
    """The webhook configuration of a kind in a cluster.

    All methods raise `StatusError` if the server answers with an error, and `UnreachableError` if there is no answer.
    """

    api: Api
    kind: ConfigurationKind = MUTATING

    @property
    def _path(self) -> str:
        return f"{self.kind.collection}/{NAME}"

    async def read(self) -> Object | None:
        """Read it; None if there is none."""
        answer = await self.api.request("GET", self._path)
        return None if answer.status == HTTPStatus.NOT_FOUND else answer.object()

    async def create(self, configuration: Object) -> Object | None:
        """Create it; None if another replica was faster, or the object was deleted again.

        It is applied without webhooks and filled afterwards: an apply would overwrite what another replica has just written.
        """
        # After an apply that owns no field, the API server would not record managers of fields.
        bare = {"apiVersion": API_VERSION, "kind": self.kind.kind, "metadata": {"name": NAME, "labels": _LABELS}}
        made = (await apply_bare(self.api, self._path, bare)).object()
        if made.get("webhooks"):
            return None
        metadata = {
            **configuration["metadata"],
            "labels": _LABELS,
            "resourceVersion": made["metadata"]["resourceVersion"],
        }
        return await self.replace({**configuration, "metadata": metadata})

    async def replace(self, configuration: Object) -> Object | None:
        """Replace it; None if it has changed in the meantime."""
        answer = await replace_object(self.api, self._path, configuration)
        return None if answer.status in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND} else answer.object()


def dict_of(value: Any) -> Object:
    """A part of an object that others may have changed; empty if it is no object."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """A list in such an object; empty if it is none."""
    return value if isinstance(value, list) else []


def annotations_of(configuration: Object) -> Object:
    """The annotations of a configuration."""
    return dict_of(dict_of(configuration.get("metadata")).get("annotations"))


def expressions_of(webhook: Object) -> list[Object]:
    """The expressions of a webhook's namespace selector."""
    return [dict_of(term) for term in list_of(dict_of(webhook.get("namespaceSelector")).get("matchExpressions"))]


INJECTED: Final = "cert-manager.io/inject-"
"""The prefix of the annotations that make cert-manager fill in ``caBundle``."""


def bundle_of(webhook: Object) -> bytes:
    """The bundle of one webhook; empty if it has none that can be decoded."""
    encoded = dict_of(webhook.get("clientConfig")).get("caBundle")
    try:
        return base64.b64decode(encoded) if isinstance(encoded, str) else b""
    except (binascii.Error, ValueError):
        return b""


def injected(configuration: Object) -> bool:
    """Whether cert-manager fills in the bundles of a configuration."""
    return any(str(key).startswith(INJECTED) for key in annotations_of(configuration))


def keeps_selectors(configuration: Object) -> bool:
    """Whether the configuration has the annotation that keeps foreign terms in its namespace selectors."""
    return annotations_of(configuration).get(KEEP_SELECTORS) == "true"


def widened(ours: bytes, theirs: bytes) -> bytes:
    """A bundle with the CAs of both; `theirs`, unchanged, if it has all of them already."""
    own, others = by_der(ours), by_der(theirs)
    if not own:
        return ours
    if own.keys() <= others.keys():
        return theirs
    parts = [ours, *(block for der, block in others.items() if der not in own)]
    return b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts)


_STAMP: Final = re.compile(r"(\S+) (\S+)")
_VERSION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})*)(.*)")
_PRE_RELEASE: Final = re.compile(r"[-._]?(?:a|b|c|rc|alpha|beta|pre|dev)")


@total_ordering
@dataclass(frozen=True)
class Version:
    """A version of the program; one that cannot be parsed is older than all others."""

    text: str

    def __lt__(self, other: "Version") -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[tuple[int, ...], bool, str]:
        found = _VERSION.fullmatch(self.text)
        if found is None:
            return (), False, self.text
        numbers = [int(number) for number in found[1].split(".")]
        while numbers and numbers[-1] == 0:
            numbers.pop()
        return (*numbers, 0), _PRE_RELEASE.match(found[2]) is None, found[2]


@dataclass(frozen=True, slots=True)
class Observed:
    """A webhook configuration that was read.

    Attributes:
        version, digest: of the writer; None without its annotation.
        desired: what it was made from; None if this program did not make it, or so much was changed that it is unknown.
        foreign: foreign terms in the namespace selectors, by the name of the webhook.
        bundles: the CAs (DER) in the bundle of each of our webhooks.
        injected: whether cert-manager fills these in.
    """

    version: Version | None = None
    digest: str | None = None
    desired: Desired | None = None
    foreign: Mapping[str, Terms] = field(default_factory=dict)
    bundles: tuple[frozenset[bytes], ...] = ()
    injected: bool = False


def read_observed(configuration: Object, opt_in: str = INJECT, kind: ConfigurationKind = MUTATING) -> Observed:
    """Read a configuration, even if others have changed it.

    Args:
        configuration: from the API server.
        opt_in: the reader's own opt-in label; the writer's may be another.
        kind: of the configuration.
    """
    stamp = _STAMP.fullmatch(str(annotations_of(configuration).get(WRITTEN_BY, "")))
    webhooks = webhooks_of(configuration)
    ours = {each.name: webhooks[each.name] for each in kind.webhooks if each.name in webhooks}
    foreign: dict[str, Terms] = {
        name: terms for name, webhook in ours.items() if (terms := foreign_terms(webhook, opt_in))
    }
    bundles = tuple(frozenset(by_der(bundle_of(webhook))) for webhook in ours.values())
    filled_in = injected(configuration)
    if stamp is None:
        return Observed(foreign=foreign, bundles=bundles, injected=filled_in)
    subjects = frozenset(each.subject for each in kind.webhooks if each.subject is not None and each.name in ours)
    unnamed = Desired(stamp[2], MatchedNames(), opt_in, kind=kind, subjects=subjects, kinds=_kinds(ours))
    named = [each for each in kind.webhooks if each.name in ours and each.expression is not None]
    made_from = {_made_from(configuration, each, unnamed) for each in named}
    if not named and all(each.subject is not None for each in kind.webhooks):  # those are switched off
        names = parse_names(annotations_of(configuration).get(MATCHED_NAMES))
        made_from = {None if names is None else replace(unnamed, matched_names=names)}
    missing = any(each.subject is None and each.name not in ours for each in kind.webhooks)
    desired = made_from.pop() if len(made_from) == 1 and not missing else None
    return Observed(Version(stamp[1]), stamp[2], desired, foreign, bundles, filled_in)


def _kinds(ours: Mapping[str, Object]) -> frozenset[str]:
    """The kinds that the match condition of workloads lists."""
    conditions = map(dict_of, list_of(ours.get(WORKLOADS, {}).get("matchConditions")))
    listed = (str(each.get("expression")) for each in conditions if each.get("name") == KNOWN_KIND)
    return kinds_in(next(listed, ""))


def webhooks_of(configuration: Object) -> dict[str, Object]:
    """The webhooks of a configuration by name."""
    return {str(webhook.get("name")): webhook for webhook in map(dict_of, list_of(configuration.get("webhooks")))}


def matched_names_in(
    configuration: Object, webhook: Webhook, expected: MatchedNames | None = None
) -> MatchedNames | None:
    """The names in the match conditions of a webhook: those in the annotation, if the conditions are made from them.

    Args:
        configuration: from the API server.
        webhook: one of ours.
        expected: names that are recognized without the annotation.

    Returns:
        None if the annotation is missing, or it or the conditions were changed.
    """
    found = webhooks_of(configuration).get(webhook.name, {})
    if webhook.expression is None:
        return expected
    conditions = map(dict_of, list_of(found.get("matchConditions")))
    expressions = {condition.get("name"): condition.get("expression") for condition in conditions}
    for names in (parse_names(annotations_of(configuration).get(MATCHED_NAMES)), expected):
        if names is not None and webhook.expression(names) == expressions.get(GPU_KEYS):
            return names
    return None


def _made_from(configuration: Object, webhook: Webhook, unnamed: Desired) -> Desired | None:
    found = webhooks_of(configuration)[webhook.name]
    names, opt_in = matched_names_in(configuration, webhook), _opt_in(found, unnamed.opt_in)
    timeout = found.get("timeoutSeconds")
    if names is None or opt_in is None or not isinstance(timeout, int):
        return None
    return replace(unnamed, matched_names=names, opt_in=opt_in, timeout=timeout)


def _opt_in(webhook: Object, expected: str) -> str | None:
    """The opt-in label that a webhook was made with: the expected one if it is there, or else the one in its place."""
    like = ("In", [ENABLED])
    keys = [str(term["key"]) for term in expressions_of(webhook) if (term.get("operator"), term.get("values")) == like]
    return expected if expected in keys else next(iter(keys), None)


def foreign_terms(webhook: Object, opt_in: str) -> Terms:
    """The foreign terms of a webhook's namespace selector, except those for our own labels, which could only contradict."""
    own_keys = {_opt_in(webhook, opt_in), opt_in, MODE}
    expressions = [term for term in expressions_of(webhook) if term.get("key") not in own_keys]
    exemption = next(filter(_exempts_cluster_namespaces, expressions), None)
    labels = dict_of(dict_of(webhook.get("namespaceSelector")).get("matchLabels"))
    return Terms(
        {key: value for key, value in labels.items() if key not in own_keys},
        [term for term in expressions if term is not exemption],
    )


def _exempts_cluster_namespaces(term: Object) -> bool:
    """Whether a term is our own exemption of system namespaces; one with more names than that is foreign."""
    if (term.get("key"), term.get("operator")) != (NAMESPACE_NAME, "NotIn"):
        return False
    names = set(list_of(term.get("values")))
    return names >= CLUSTER_NAMESPACES and len(names - CLUSTER_NAMESPACES) <= 1
