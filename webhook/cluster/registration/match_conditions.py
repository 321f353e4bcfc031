"""The match conditions of the webhook configuration: matched names as CEL for the API server.

Only a pod that they let through is sent to the webhook, and affected by an outage. The API server limits the cost of CEL per
pod; a look-up in a list of constants costs the same whatever its length.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from webhook.cluster.registration.matched_names import MatchedNames

GPU_KEYS: Final = "gpu-keys"
"""The name of the condition that depends on the policy."""

MAX_EXPRESSION: Final = 100_000
"""The most code points of an expression (``ExpressionSizeCodePointLimit`` of CEL)."""

_EXCLUDED: Final = (
    ("no-mirror-pod", "!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))"),
    ("no-windows-pod", "object.spec.?os.?name.orValue('') != 'windows'"),
)
"""They exclude pods that are never changed: the kubelet already runs a mirror pod, and shims are Linux libraries."""

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


def conditions(let_through: MatchedNames) -> list[dict[str, str]]:
    """The match conditions of a webhook; a pod must meet all of them."""
    named = (*_EXCLUDED, (GPU_KEYS, expression(let_through)))
    return [{"name": name, "expression": text} for name, text in named]


def fits(let_through: MatchedNames) -> bool:
    """Whether the API server accepts the conditions: the length of an expression is limited."""
    return len(expression(let_through)) <= MAX_EXPRESSION


def expression(let_through: MatchedNames) -> str:
    """A CEL expression that is true for pods to let through; the same names make the same text."""
    resources = _OR.join(_resource_tests(let_through)) or "false"
    return _EXPRESSION.format(resources=resources, keys=_OR.join(_key_tests(let_through)) or "false")


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
    # A pattern costs its length for every key, and most patterns are only needed below a few domains.
    domains = {glob: glob.partition("/")[0] for glob in let_through.key_patterns}
    below = {glob for glob, domain in domains.items() if domain != glob and "*" not in domain}
    if below:
        listed = _list_text({domains[glob] for glob in below})
        yield f"key.split('/')[0] in {listed} && key{_pattern_text(below)}"
    if let_through.key_patterns - below:
        yield f"key{_pattern_text(let_through.key_patterns - below)}"


def _list_text(values: Iterable[str]) -> str:
    """A CEL list with one item per line, so that each added or removed item is one line of a diff."""
    items = ",".join(f"\n    '{value}'" for value in sorted(values))
    return f"[{items}\n  ]"


def _pattern_text(globs: Iterable[str]) -> str:
    alternatives = "|".join(glob.replace(".", "[.]").replace("*", ".*") for glob in sorted(globs))
    return f".matches('^({alternatives})$')"
