"""The match conditions of the webhook configuration: the names that let a pod through, as CEL and as a predicate (`sends`).

Only a pod that they let through is sent to the webhook, and affected by an outage. The API server limits the cost of CEL per
pod; a look-up in a list of constants costs the same whatever its length.

Resources match by prefix, so that pods with misspelled keys are let through, too, and can be denied. Labels and annotations
match by whole keys or patterns, never by a domain alone: half of the domains of GPU keys occur on ordinary pods, too.
"""

import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from webhook.labels import INJECT, MAPPING, SETTINGS_NAME, STATUS, TARGET
from webhook.mapping.model.policy import Policy
from webhook.mapping.notation import glob_pattern
from webhook.pod import DEVICE_CLASS, MIRROR, WINDOWS, Container, Pod, PodClaim
from webhook.request import CLAIM_NAME, TEMPLATE_NAME

_LEGAL: Final = re.compile(r"[A-Za-z0-9_./*-]+")
"""The characters of names, and ``*``. The API server stores no pod with other characters."""

MAX_TEXT: Final = 100_000
"""The most characters of names as JSON: more would not fit into match conditions, where each name is longer."""

_LETTER: Final = re.compile(r"[A-Za-z0-9]")


class MatchedNames(Struct, frozen=True, dict=True):
    """The names that let a pod through; ``*`` matches anything. Made only by `names_set`, so no prefix covers another name.

    Prefixes are of resource names, and one whose only slash is at its end is a whole domain; names are those of resources
    below none of these; keys are of labels and annotations.
    """

    prefixes: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()

    def __or__(self, other: "MatchedNames") -> "MatchedNames":
        return names_set(
            prefixes=self.prefixes | other.prefixes, names=self.names | other.names, keys=self.keys | other.keys
        )

    def within(self, other: "MatchedNames") -> "MatchedNames":
        """Those of these names of which `other` lets every pod through, too."""
        return names_set(
            prefixes=[prefix for prefix in self.prefixes if _is_below(prefix, other.prefixes)],
            # What a pattern matches, another one matches if it matches the text of the pattern.
            names=filter(other.has_resource, self.names),
            keys=filter(other.has_key, self.keys),
        )

    def lacks(self, other: "MatchedNames") -> list[str]:
        """The names that only `other` has, for messages: a domain ends in a slash, a prefix in ``*``."""
        union = self | other
        prefixes = [prefix if _is_domain(prefix) else f"{prefix}*" for prefix in union.prefixes - self.prefixes]
        return sorted([*prefixes, *(union.names - self.names), *(union.keys - self.keys)])

    def has_resource(self, name: str) -> bool:
        """Whether a resource of this name lets a pod through."""
        return name in self.names or _is_below(name, self.prefixes) or _found(self._name_pattern, name)

    def has_key(self, key: str) -> bool:
        """Whether a label or annotation of this key lets a pod through."""
        return key in self.keys or _found(self._key_pattern, key)

    def has_pod(self, resources: Iterable[str], keys: Iterable[str]) -> bool:
        """Whether a pod with these resources, labels and annotations is let through."""
        return any(map(self.has_resource, resources)) or any(map(self.has_key, keys))

    @cached_property
    def as_json(self) -> str:
        """The names as JSON; the same names make the same text, which `parse_names` reads."""
        data = {"prefixes": sorted(self.prefixes), "names": sorted(self.names), "keys": sorted(self.keys)}
        return json.dumps(data, indent=1)  # one name per line, as in the match conditions

    @cached_property
    def _name_pattern(self) -> re.Pattern[str] | None:
        return _compiled(self.names)

    @cached_property
    def _key_pattern(self) -> re.Pattern[str] | None:
        return _compiled(self.keys)


def _compiled(names: frozenset[str]) -> re.Pattern[str] | None:
    patterns = sorted(name for name in names if "*" in name)
    return re.compile("|".join(map(glob_pattern, patterns)), re.DOTALL) if patterns else None


def _found(pattern: re.Pattern[str] | None, text: str) -> bool:
    return pattern is not None and pattern.fullmatch(text) is not None


def _is_domain(prefix: str) -> bool:
    return prefix.find("/") == len(prefix) - 1


def _is_below(name: str, prefixes: Collection[str]) -> bool:
    """Whether a resource name begins with one of the prefixes; conditions read a name without a slash as a domain, too."""
    return f"{name.partition('/')[0]}/" in prefixes or name.startswith(tuple(prefixes))


def names_set(*, prefixes: Iterable[str] = (), names: Iterable[str] = (), keys: Iterable[str] = ()) -> MatchedNames:
    """Make a set of names, without duplicates and names that a prefix covers."""
    kept: set[str] = set()
    for prefix in sorted(filter(_legal, set(prefixes)), key=len):
        if "*" not in prefix and not _is_below(prefix, kept):
            kept.add(prefix)
    below = frozenset(name for name in filter(_legal, names) if not _is_below(name, kept))
    return MatchedNames(frozenset(kept), below, frozenset(filter(_legal, keys)))


def parse_names(text: Any) -> MatchedNames | None:
    """The names in a text of `MatchedNames.as_json`; None for any other text."""
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return None
    try:
        data = msgspec.json.decode(text, type=dict[str, list[str]])
        return names_set(**data)
    except (msgspec.DecodeError, TypeError):
        return None


def _legal(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None and _LETTER.search(name) is not None


def matched_names_of(policy: Policy) -> MatchedNames:
    """The names that let a pod through under a policy.

    They are the keys of all vendors, in any place (the webhook warns about request keys in a place where they have no effect),
    the prefixes below which misspelled resource keys are detected, and marks that only schedulers may write.
    """
    vendors = [vendor.lets_through for vendor in policy.vendors.values()]
    return names_set(
        prefixes=(prefix for names in vendors for prefix in names.prefixes),
        names=[
            *(name for names in vendors for name in names.resources),
            # Extended resources always have a domain.
            *(key for key in policy.request_keys if "/" in key),
        ],
        keys=[*policy.request_keys, *(key for vendor in policy.in_force for key in vendor.lets_through.keys)],
    )


GPU_KEYS: Final = "gpu-keys"
"""The name of the condition that depends on the policy."""

NOT_SENT: Final = "the webhook would not see this pod: it has no key that the webhook knows"

MAX_EXPRESSION: Final = 100_000
"""The most code points of an expression (``ExpressionSizeCodePointLimit`` of CEL)."""

POD_CONDITIONS: Final = (
    ("no-mirror-pod", f"!('{MIRROR}' in object.metadata.?annotations.orValue({{}}))"),
    ("no-windows-pod", f"object.spec.?os.?name.orValue('') != '{WINDOWS}'"),
)
"""They exclude pods that are never changed: the kubelet already runs a mirror pod, and shims are Linux libraries."""

DOCUMENT_CONDITIONS: Final = (
    (
        "document",
        f"object.metadata.?labels['{MAPPING}'].orValue('') == 'true' || object.metadata.name == '{SETTINGS_NAME}'",
    ),
    (
        "changed-document",
        """\
oldObject == null || object.?data.orValue({}) != oldObject.?data.orValue({})
|| object.metadata.?labels['MAPPING'].orValue('') != oldObject.metadata.?labels['MAPPING'].orValue('')""".replace(
            "MAPPING", MAPPING
        ),
    ),
)
"""They let through ConfigMaps that are written as a mapping or as the settings, in any namespace."""

WORKLOAD_CONDITIONS: Final = (
    ("no-controlled-object", "!object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false))"),
    (
        "changed-template",
        """\
oldObject == null || (
  object.?spec.?template.hasValue() && oldObject.?spec.?template.hasValue()
  ? object.spec.template != oldObject.spec.template
  : object.?spec.?jobTemplate.hasValue() && oldObject.?spec.?jobTemplate.hasValue()
  ? object.spec.jobTemplate != oldObject.spec.jobTemplate
  : object.?spec.orValue({}) != oldObject.?spec.orValue({})
    || object.?template.orValue({}) != oldObject.?template.orValue({})
    || object.?inference.orValue({}) != oldObject.?inference.orValue({})
)""",
    ),
)
"""They leave out objects that a controller made, whose author nobody is, and updates of anything but the pods."""

_OF_CONTAINERS: Final = """\
[
  object.spec.?containers.orValue([]),
  object.spec.?initContainers.orValue([])
].exists(containers, """

_CONTAINERS: Final = f"{_OF_CONTAINERS}containers.exists(c, {{condition}}))"

_RESOURCES: Final = """\
[
  c.?resources.?limits.orValue({{}}),
  c.?resources.?requests.orValue({{}})
].exists(amounts, amounts.exists(name,
  {test}
))"""

_KEYS: Final = """\
[
  object.metadata.?labels.orValue({{}}),
  object.metadata.?annotations.orValue({{}})
].exists(keys, keys.exists(key,
  {test}
))"""

_CLAIMS: Final = f"""\
object.spec.?resourceClaims.orValue([]).exists(c,
  c.?resourceClaimTemplateName.orValue('').matches('{TEMPLATE_NAME.pattern}')
  || c.?resourceClaimName.orValue('').matches('{CLAIM_NAME.pattern}')
)"""
"""What the webhook has made for other pods."""

MAX_KEYS: Final = 256
"""The most labels, or annotations, of a pod whose names are looked at, ..."""

MAX_NAMES: Final = 512
"""... the most containers, and resources of all of them, ..."""

MAX_CHARACTERS: Final = 16 * 1024
"""... and the most characters of either. Beyond that a pod is sent: a condition whose cost exceeds what the API server grants
is an error, which ``failurePolicy`` would let through. Honest pods have some dozens of each. With patterns as many as
`compiling.MOST` permits, each tenth character costs 500 of 2,500,000 (``RuntimeCELCostBudgetMatchConditions``)."""

MAX_VARIABLES: Final = 8 * 1024
"""The most variables of all containers that are looked at, likewise."""

_MANY_KEYS: Final = f"""\
[
  {{pod}}.metadata.?labels.orValue({{{{}}}}),
  {{pod}}.metadata.?annotations.orValue({{{{}}}})
].exists(keys, keys.size() > {MAX_KEYS} || keys.map(key, key.size()).sum() > {MAX_CHARACTERS})"""

_ALL_RESOURCES: Final = """\
containers.map(c, c.?resources.?limits.orValue({{}}){of} + c.?resources.?requests.orValue({{}}){of}).sum()"""

_MANY_NAMES: Final = f"""\
{_OF_CONTAINERS}containers.size() > {MAX_NAMES}
  || {_ALL_RESOURCES.format(of=".size()")} > {MAX_NAMES}
  || {_ALL_RESOURCES.format(of=".map(name, name.size()).sum()")} > {MAX_CHARACTERS})"""

_MANY_VARIABLES: Final = f"{_OF_CONTAINERS}containers.map(c, c.?env.orValue([]).size()).sum() > {MAX_VARIABLES})"

_LARGE: Final = f"{_MANY_KEYS.format(pod='object')}\n|| {_MANY_NAMES}\n|| "

_OR: Final = "\n  || "


def carries_name(pod: Pod, let_through: MatchedNames) -> bool:
    """Whether a pod has one of the names, or so many that nobody looks, as `match_expression` says it to the API server."""
    keys = [list(each or ()) for each in (pod.metadata.labels, pod.metadata.annotations)]
    containers = [pod.spec.containers, pod.spec.init_containers or []]
    names = [resource_names(each) for each in containers]
    large = [
        *(_exceeds(each, MAX_KEYS) for each in keys),
        *(len(each) > MAX_NAMES for each in containers),
        *(_exceeds(each, MAX_NAMES) for each in names),
    ]
    claimed = any(map(_of_ours, pod.spec.resource_claims or ()))
    return any(large) or claimed or let_through.has_pod(itertools.chain(*names), itertools.chain(*keys))


def _of_ours(claim: PodClaim) -> bool:
    template, name = claim.resource_claim_template_name or "", claim.resource_claim_name or ""
    return TEMPLATE_NAME.match(template) is not None or CLAIM_NAME.match(name) is not None


def resource_names(containers: Iterable[Container]) -> list[str]:
    """The resources of containers, in limits and in requests."""
    resources = [container.resources for container in containers if container.resources is not None]
    return [name for each in resources for side in (each.limits, each.requests) for name in side or ()]


def _exceeds(names: list[str], most: int) -> bool:
    return len(names) > most or sum(map(len, names)) > MAX_CHARACTERS


def sends(pod: Pod, let_through: MatchedNames) -> bool:
    """Whether the API server sends a pod to the webhook, as `conditions` say it; the namespace is not considered."""
    if MIRROR in (pod.metadata.annotations or ()) or (pod.spec.os is not None and pod.spec.os.name == WINDOWS):
        return False
    return carries_name(pod, let_through)


def fits(let_through: MatchedNames) -> bool:
    """Whether the API server accepts the conditions: the length of an expression is limited."""
    return len(template_expression(let_through)) <= MAX_EXPRESSION


def match_expression(let_through: MatchedNames) -> str:
    """A CEL expression that is true for pods to let through; the same names make the same text.

    Sizes come first: what is true ends it, before anything costs much.
    """
    resources = _RESOURCES.format(test=_OR.join(_resource_tests(let_through)) or "false")
    keys = _KEYS.format(test=_key_test(let_through))
    return f"{_LARGE}{_CONTAINERS.format(condition=resources)}\n|| {keys}\n|| {_CLAIMS}"


def hide_expression(let_through: MatchedNames) -> str:
    """True for all other pods, and for those with a variable that hides devices: a later webhook may have added a request."""
    hidden = _CONTAINERS.format(condition="c.?env.orValue([]).exists(e, e.?value.orValue('') == 'void')")
    return f"{_LARGE}{_MANY_VARIABLES}\n|| !(\n{match_expression(let_through)}\n) || {hidden}"


def sent_names(policy: Policy) -> MatchedNames | None:
    """The names of which a pod must have one to be sent; None if every pod is."""
    return None if policy.settings.hide_devices else matched_names_of(policy)


def devices_expression(let_through: MatchedNames) -> str:
    """True for pods with devices: by these names, by claims of any kind, or as the status says."""
    claims = names_set(prefixes=[DEVICE_CLASS], keys=[STATUS])
    return f"object.spec.?resourceClaims.orValue([]).size() > 0\n|| {match_expression(let_through | claims)}"


def no_devices_expression(let_through: MatchedNames) -> str:
    """True for all other pods."""
    return f"!(\n{devices_expression(let_through)}\n)"


def template_expression(let_through: MatchedNames) -> str:
    """The same for the pod template of a workload of Kubernetes; it is true for all kinds whose templates are elsewhere."""
    return f"""\
!(request.kind.group in ['', 'apps', 'batch'])
|| [
  request.kind.kind == 'CronJob' ? object.spec.jobTemplate.spec.template
  : request.kind.kind == 'PodTemplate' ? object.template
  : object.spec.template
].exists(object, object.?spec.hasValue() && object.?metadata.hasValue() && (
{match_expression(let_through)}
))"""


def change_expression(let_through: MatchedNames) -> str:
    """The same for an update: it changes a label or annotation of these.

    The labels and annotations are those of mappings, and those by which a pod chooses what becomes of it.
    """
    changed = replace(let_through, keys=let_through.keys | {INJECT, TARGET})
    maps = [
        [f"{pod}.metadata.?{field}.orValue({{}})" for pod in pods]
        for field in ("annotations", "labels")
        for pods in (("object", "oldObject"), ("oldObject", "object"))
    ]
    pairs = ",".join(f"\n  [{one}, {other}]" for one, other in maps)
    return f"""\
{_MANY_KEYS.format(pod="object")}
|| {_MANY_KEYS.format(pod="oldObject")}
|| [{pairs}
].exists(maps, maps[0].exists(key, !(key in maps[1] && maps[1][key] == maps[0][key]) && (
  {_key_test(changed)}
)))"""


def conditions(
    let_through: MatchedNames,
    expression: Callable[[MatchedNames], str] | None = match_expression,
    others: Iterable[tuple[str, str]] = POD_CONDITIONS,
) -> list[dict[str, str]]:
    """The match conditions of a webhook; a pod must meet all of them."""
    named = (*others, *(() if expression is None else ((GPU_KEYS, expression(let_through)),)))
    return [{"name": name, "expression": text} for name, text in named]


def _resource_tests(let_through: MatchedNames) -> Iterator[str]:
    domains = set(filter(_is_domain, let_through.prefixes))
    if domains:
        yield f"name.split('/')[0] in {_list_text(domain[:-1] for domain in domains)}"
    names, patterns = _split(let_through.names)
    if names:
        yield f"name in {_list_text(names)}"
    if prefixes := let_through.prefixes - domains:
        yield f"{_list_text(prefixes)}.exists(prefix, name.startsWith(prefix))"
    if patterns:
        yield f"name{_pattern_text(patterns)}"


def _key_test(names: MatchedNames) -> str:
    return _OR.join(_key_tests(names)) or "false"


def _key_tests(let_through: MatchedNames) -> Iterator[str]:
    keys, patterns = _split(let_through.keys)
    if keys:
        yield f"key in {_list_text(keys)}"
    # A pattern costs its length for every key, and most patterns are only needed below a few domains.
    domains = {glob: glob.partition("/")[0] for glob in patterns}
    below = {glob for glob, domain in domains.items() if domain != glob and "*" not in domain}
    if below:
        listed = _list_text({domains[glob] for glob in below})
        yield f"key.split('/')[0] in {listed} && key{_pattern_text(below)}"
    if patterns - below:
        yield f"key{_pattern_text(patterns - below)}"


def _split(names: Iterable[str]) -> tuple[set[str], set[str]]:
    """The whole names, and the patterns."""
    patterns = {name for name in names if "*" in name}
    return {*names} - patterns, patterns


def _list_text(values: Iterable[str]) -> str:
    """A CEL list with one item per line, so that each added or removed item is one line of a diff."""
    items = ",".join(f"\n    '{value}'" for value in sorted(values))
    return f"[{items}\n  ]"


def _pattern_text(globs: Iterable[str]) -> str:
    alternatives = "|".join(glob.replace(".", "[.]").replace("*", ".*") for glob in sorted(globs))
    return f".matches('^({alternatives})$')"
