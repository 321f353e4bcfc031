"""Names with ``*``, as regular expressions that match in time linear in the length of the name.

A name in a review can be megabytes long, and the obvious ``.*`` for each star would take quadratic time. Expressions that
documents write are in `webhook.mapping.notation.pattern`.
"""

import re


def glob_pattern(text: str) -> str:
    """Return a regular expression for ``fullmatch``, to compile with `re.DOTALL`; ``*`` matches any text."""
    first, *others = (re.escape(piece) for piece in re.split(r"\*+", text))
    if not others:
        return first
    *middle, last = others
    # An atomic group takes the first match of a middle piece only; that loses nothing, as a star follows it.
    return f"{first}{''.join(f'(?>.*?{piece})' for piece in middle)}.*{last}"
