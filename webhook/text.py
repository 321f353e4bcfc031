"""Texts for messages: cut to a length, because what a user writes has any."""


def shorten(text: str, most: int) -> str:
    """A text of at most `most` characters, with an ellipsis if it was cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
