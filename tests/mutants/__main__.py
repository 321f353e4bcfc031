"""``make mutants``: deliberate mistakes, drawn at random, and how many of them the tests catch.

A seed always draws the same ones of the same code, in the same order: with less time it is the beginning of it.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator

from tests.mutants.draw import Mutant, draw, named
from tests.mutants.trial import CleanRunError, Outcome, Trials

ENOUGH = 0.9
"""The share of mutants that has to be caught."""


def main() -> int:
    """Runs, prints, and returns 1 if too few were caught."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=350, help="how many to draw")
    parser.add_argument("--minutes", type=float, default=55, help="after how many no other is begun")
    parser.add_argument("--since", default="", help="only of lines that changed since this commit")
    parser.add_argument("--only", action="append", help="this one instead: path:number")
    arguments = parser.parse_args()
    until = time.monotonic() + 60 * arguments.minutes
    trials = Trials()
    mutants = (
        map(named, arguments.only) if arguments.only else _drawn(arguments.mutants, arguments.seed, arguments.since)
    )
    outcomes: Counter[Outcome] = Counter()
    for mutant in mutants:
        if time.monotonic() > until:
            break
        try:
            outcome, test = trials.outcome(mutant)
        except CleanRunError as error:
            _say(f"{error}\nerror: tests fail without any mistake")
            return 1
        outcomes[outcome] += 1
        _say(f"{outcome.value}: {mutant.name}{_shown(mutant, outcome)}{f' by {test}' if test else ''}")
    return judge(outcomes)


def _drawn(count: int, seed: int, since: str) -> Iterator[Mutant]:
    mutants, there_are = draw(count, seed, since)
    _say(
        f"{count} of {there_are:,} mutants, seed {seed}{since and f', of lines changed since {since}'}; there are none of "
        "annotations, type aliases, docstrings, f-strings, decorators, options of structs, decorated functions, and what "
        "coverage excludes"
    )
    return mutants


def _shown(mutant: Mutant, outcome: Outcome) -> str:
    return f"\n{mutant.difference()}" if outcome is Outcome.SURVIVED else ""


def judge(outcomes: Counter[Outcome]) -> int:
    """Print the share, and return whether it is too small; what cannot be imported is no mistake that a test could find."""
    put = outcomes.total() - outcomes[Outcome.NOT_IMPORTED]
    survived = outcomes[Outcome.SURVIVED]
    share = (put - survived) / put if put else 0
    _say(", ".join(f"{outcomes[outcome]} {outcome.value}" for outcome in Outcome))
    _say(f"{survived} of {put} mutants survived, {share:.1%} were caught (at least {ENOUGH:.0%} have to be)")
    return int(share < ENOUGH)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
