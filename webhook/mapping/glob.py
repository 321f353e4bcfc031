"""Names with ``*`` for anything, as regular expressions that match in time linear in the name's length.

A name under admission can be megabytes long; the obvious ``.*`` for each star would take its square.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_NO_PARTS: Final[Mapping[str, str]] = MappingProxyType({})
_TOKEN: Final = re.compile(r"\*+|\{[^{}]*\}")


def glob_pattern(text: str, parts: Mapping[str, str] = _NO_PARTS) -> str:
    """A regular expression for ``fullmatch``, to be compiled with `re.DOTALL`.

    Args:
        text: the name, with ``*`` for any text.
        parts: expressions for variable parts: ``{name}`` stands for what `parts` has under its name; a part that is not
            there is taken to the letter.
    """
    pieces = [""]
    at = 0
    for token in _TOKEN.finditer(text):
        pieces[-1] += re.escape(text[at : token.start()])
        at = token.end()
        if token[0][0] == "*":
            pieces.append("")
        else:
            part = parts.get(token[0][1:-1])
            pieces[-1] += re.escape(token[0]) if part is None else f"(?:{part})"
    pieces[-1] += re.escape(text[at:])
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    # Taking the nearest place for a middle piece and never another (an atomic group) loses no match: a star follows it.
    return f"{first}{''.join(f'(?>.*?{piece})' for piece in middle)}.*{last}"
