"""Names with variable parts: ``iluvatar.ai/{chip}-vgpu``, ``nvidia.com/container.{container}.gpu-memory.limit``."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from webhook.mapping.document.schema import Variable
from webhook.mapping.notation import literal

CONTAINER: Final = "container"
"""The built-in variable: the name of a container of the pod."""

_CONTAINER_NAME: Final = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_PART: Final = re.compile(r"\{([a-z][a-z0-9-]*)\}")

Binding = tuple[tuple[str, str], ...]
"""The values of the variables of a name, in the order of the name."""


@dataclass(frozen=True)
class Template:
    """A name whose variable parts are written ``{variable}``."""

    text: str

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The variables, in order."""
        return tuple(_PART.findall(self.text))

    def render(self, binding: Mapping[str, str]) -> str | None:
        """Return the name with the values of a binding, or None if the binding lacks one."""
        if not self.variables:
            return self.text
        if any(name not in binding for name in self.variables):
            return None
        return _PART.sub(lambda match: binding[match[1]], self.text)

    def count(self, variables: Mapping[str, Variable]) -> int:
        """Return the number of names that `names` yields."""
        return math.prod(len(_listed(variables.get(name))) for name in self.variables)

    def names(self, variables: Mapping[str, Variable]) -> Iterator[tuple[str, Binding]]:
        """Yield every name that can be listed, with its binding; none if a variable is a pattern or a container."""
        choices = [_listed(variables.get(name)) for name in self.variables]
        parts = _PART.split(self.text)
        for values in itertools.product(*choices):
            parts[1::2] = values
            yield "".join(parts), tuple(zip(self.variables, values, strict=True))

    def pattern(self, variables: Mapping[str, Variable]) -> str | None:
        """Return an expression with a group for each variable, or None if all names can be listed."""
        if not self.variables:
            return None
        parts: list[str] = []
        open_ended = False
        for index, part in enumerate(_PART.split(self.text)):
            if index % 2 == 0:
                parts.append(literal(part))
                continue
            pattern = _pattern(part, variables.get(part))
            open_ended = open_ended or pattern is not None
            listed = "|".join(map(literal, _listed(variables.get(part))))
            parts.append(f"(?P<{part.replace('-', '_')}>{pattern or listed})")
        return "".join(parts) if open_ended else None


def _listed(variable: Variable | None) -> list[str]:
    if variable is None:
        return []
    listed = variable.values if isinstance(variable.values, list) else []
    return [*listed, *(variable.rows or {})]


def _pattern(name: str, variable: Variable | None) -> str | None:
    if name == CONTAINER:
        return _CONTAINER_NAME
    if variable is None:
        return None
    patterns = [variable.others] if variable.others is not None else []
    if isinstance(variable.values, str):
        patterns.append(variable.values)
    return "|".join(f"(?:{pattern})" for pattern in patterns) or None
