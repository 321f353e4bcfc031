"""Names with ``*`` for anything, as regular expressions that match in time linear in the name's length.

A name under admission can be megabytes long; the obvious ``.*`` for each star would take its square. There is nothing in them
but the letters of the name and what stands here for a star: expressions that documents write are in
`webhook.mapping.notation.pattern`.
"""

import re


def glob_pattern(text: str) -> str:
    """A regular expression for ``fullmatch``, to be compiled with `re.DOTALL`; in the text ``*`` stands for any text."""
    first, *others = (re.escape(piece) for piece in re.split(r"\*+", text))
    if not others:
        return first
    *middle, last = others
    # Taking the nearest place for a middle piece and never another (an atomic group) loses no match: a star follows it.
    return f"{first}{''.join(f'(?>.*?{piece})' for piece in middle)}.*{last}"
