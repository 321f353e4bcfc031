"""Texts cut for messages."""

import pytest

from webhook.text import shorten


@pytest.mark.parametrize("text, shown", [("", ""), ("abc", "abc"), ("abcd", "ab…")])
def test_shorten(text: str, shown: str) -> None:
    """A cut text ends in an ellipsis, and that counts."""
    assert shorten(text, 3) == shown
