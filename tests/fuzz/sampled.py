"""What takes more decisions than one: memory, defaults left out, the command line, explanations."""

from collections.abc import Iterator

from tests.fuzz.trial import Finding, Trial


def sampled_findings(trial: Trial) -> Iterator[Finding]:
    """Everything that is wrong with how other ways to decide on the case agree."""
    yield from ()
