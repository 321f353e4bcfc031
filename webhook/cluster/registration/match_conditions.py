"""The match conditions of the webhook configuration: matched names as CEL for the API server, and parsed back from it.

A pod that they let through is sent to the webhook, and held back if the webhook cannot be reached; other pods are not
affected. The API server limits the cost of CEL per pod, where a list of constants is one look-up, whatever its length.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from webhook.cluster.registration.matched_names import MatchedNames, names_set

WORDS: Final = "gpu-keys"
"""The condition that depends on the policy."""

LONGEST: Final = 100_000
"""Code points of an expression (``ExpressionSizeCodePointLimit`` of CEL)."""

_ALWAYS: Final = (
    ("no-mirror-pod", "!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))"),
    ("no-windows-pod", "object.spec.?os.?name.orValue('') != 'windows'"),
)
"""Pods that are never changed: the kubelet already runs a mirror pod, and shims are Linux libraries."""

_EXPRESSION: Final = """\
[
  object.spec.?containers.orValue([]),
  object.spec.?initContainers.orValue([])
].exists(containers, containers.exists(c, [
  c.?resources.?limits.orValue({{}}),
  c.?resources.?requests.orValue({{}})
].exists(amounts, amounts.exists(name,
  {resources}
))))
|| [
  object.metadata.?labels.orValue({{}}),
  object.metadata.?annotations.orValue({{}})
].exists(keys, keys.exists(key,
  {keys}
))"""

_OR: Final = "\n  || "
_LIST: Final = r"\[([^\]]*)\]"
_PATTERN: Final = r"\.matches\('\^\(([^']*)\)\$'\)"
_DOMAINS: Final = re.compile(rf"\bname\.split\('/'\)\[0\] in {_LIST}")
_NAMES: Final = re.compile(rf"\bname in {_LIST}")
_PREFIXES: Final = re.compile(rf"{_LIST}\.exists\(prefix,")
_NAME_PATTERNS: Final = re.compile(rf"\bname{_PATTERN}")
_KEYS: Final = re.compile(rf"\bkey in {_LIST}")
_KEY_PATTERNS: Final = re.compile(rf"\bkey{_PATTERN}")


def conditions(let_through: MatchedNames) -> list[dict[str, str]]:
    """The match conditions of a webhook; a pod must meet all of them."""
    named = (*_ALWAYS, (WORDS, expression(let_through)))
    return [{"name": name, "expression": text} for name, text in named]


def fits(let_through: MatchedNames) -> bool:
    """Whether the API server accepts the conditions: the length of an expression is limited."""
    return len(expression(let_through)) <= LONGEST


def expression(let_through: MatchedNames) -> str:
    """A CEL expression that is true for the pods to let through; the same text for the same names."""
    resources = _OR.join(_resource_tests(let_through)) or "false"
    return _EXPRESSION.format(resources=resources, keys=_OR.join(_key_tests(let_through)) or "false")


def parse(text: str) -> MatchedNames | None:
    """The names that an expression was made from; None if `expression` did not make it, or it was changed since."""
    parsed = names_set(
        prefixes=[*(f"{domain}/" for domain in _listed(_DOMAINS, text)), *_listed(_PREFIXES, text)],
        names=[*_listed(_NAMES, text), *_globs(_NAME_PATTERNS, text)],
        keys=[*_listed(_KEYS, text), *_globs(_KEY_PATTERNS, text)],
    )
    return parsed if expression(parsed) == text else None


def _resource_tests(let_through: MatchedNames) -> Iterator[str]:
    if let_through.domains:
        yield f"name.split('/')[0] in {_list_text(let_through.domains)}"
    if let_through.names:
        yield f"name in {_list_text(let_through.names)}"
    if let_through.prefixes:
        yield f"{_list_text(let_through.prefixes)}.exists(prefix, name.startsWith(prefix))"
    if let_through.name_patterns:
        yield f"name{_pattern_text(let_through.name_patterns)}"


def _key_tests(let_through: MatchedNames) -> Iterator[str]:
    if let_through.keys:
        yield f"key in {_list_text(let_through.keys)}"
    # A pattern costs by its length for every key: most patterns are needed below a few domains only.
    domains = {glob: glob.partition("/")[0] for glob in let_through.key_patterns}
    below = {glob for glob, domain in domains.items() if domain != glob and "*" not in domain}
    if below:
        listed = _list_text({domains[glob] for glob in below})
        yield f"key.split('/')[0] in {listed} && key{_pattern_text(below)}"
    if let_through.key_patterns - below:
        yield f"key{_pattern_text(let_through.key_patterns - below)}"


def _list_text(values: Iterable[str]) -> str:
    """One to a line: what a change adds or removes is then a line of a diff."""
    items = ",".join(f"\n    '{value}'" for value in sorted(values))
    return f"[{items}\n  ]"


def _pattern_text(globs: Iterable[str]) -> str:
    alternatives = "|".join(glob.replace(".", "[.]").replace("*", ".*") for glob in sorted(globs))
    return f".matches('^({alternatives})$')"


def _listed(where: re.Pattern[str], text: str) -> list[str]:
    return [value for listed in where.findall(text) for value in re.findall(r"'([^']*)'", listed)]


def _globs(where: re.Pattern[str], text: str) -> list[str]:
    alternatives = [one for found in where.findall(text) for one in found.split("|")]
    return [one.replace(".*", "*").replace("[.]", ".") for one in alternatives]
