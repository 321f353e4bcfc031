"""What the dynamic loader reads from a container's environment, and how something is put first in it.

glibc separates ``LD_LIBRARY_PATH`` by ``:`` and ``;``, and reads an empty element as the current directory, from which
anybody who can write there could plant a library. ``LD_PRELOAD`` is separated by blanks and colons.
"""

import re
from typing import Final

LD_LIBRARY_PATH: Final = "LD_LIBRARY_PATH"
LD_PRELOAD: Final = "LD_PRELOAD"
KEPT_LIBRARY_PATH: Final = "VGPU_WEBHOOK_LD_LIBRARY_PATH"
"""The name under which a user's ``LD_LIBRARY_PATH`` from elsewhere is kept, to be referred to."""

_EMPTY_ELEMENT: Final = re.compile(r"\A[:;]|[:;](?:[:;]|\Z)")


def has_empty_element(path: str) -> bool:
    """Whether a search path that says something names the current directory by an empty element."""
    return path != "" and _EMPTY_ELEMENT.search(path) is not None


def search_path(first: tuple[str, ...], path: str) -> str:
    """A search path that begins with `first`, then has the rest of `path`, without empty elements.

    What is already so is returned as it is, so that a second time changes nothing.
    """
    beginning = "[:;]".join(map(re.escape, first))
    if re.match(rf"{beginning}(?![^:;])", path) and not has_empty_element(path):
        return path
    return _led(first, path, ":;")


def preload_list(first: tuple[str, ...], preload: str) -> str:
    """A list of files to preload that begins with `first`, then has the rest of `preload`; see `search_path`."""
    beginning = "[ :]+".join(map(re.escape, first))
    if re.match(rf"[ :]*{beginning}(?![^ :])", preload):
        return preload
    return _led(first, preload, " :")


def _led(first: tuple[str, ...], text: str, separators: str) -> str:
    """`first`, then the other elements of a text, never split: one of megabytes would become millions of parts."""
    ours = "|".join(map(re.escape, first))
    others = re.sub(rf"(?<![^{separators}])(?:{ours})(?![^{separators}])", "", text)
    rest = re.sub(rf"[{separators}]+([{separators}])", r"\1", others).strip(separators)
    return ":".join((*first, rest)) if rest else ":".join(first)
