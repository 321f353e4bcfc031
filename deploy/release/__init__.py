"""What a release consists of, built from the last commit into a folder: ``python -m deploy.release``, ``make release``."""


class ReleaseError(Exception):
    """A part cannot be built; the text says why, and what to do."""
