"""Mutants are real mistakes, and what becomes of one is told right."""

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.__main__ import judge
from tests.mutants.draw import ROOT, made, mutated
from tests.mutants.trial import Outcome

PLAN = Path("certs/plan.py")
SOURCE = (ROOT / PLAN).read_text()

# In a process of its own, for this one has long imported the module.
PROGRAM = """
import json, sys
from pathlib import Path
from tests.mutants import trial
from tests.mutants.draw import Mutant
trial.TIMES, trial.SPARE = 1, 1
path, sources = json.load(sys.stdin)
trials = trial.Trials({"certs": [("tests/certs/test_plan.py::test_what_is_good_is_kept",)]})
print([(outcome.value, test) for outcome, test in (trials.outcome(Mutant(Path(path), 0, each)) for each in sources)])
"""


def annotations(source: str) -> list[str]:
    """Every annotation in a module."""
    every = [getattr(node, name, None) for node in ast.walk(ast.parse(source)) for name in ("annotation", "returns")]
    return [ast.unparse(each) for each in every if isinstance(each, ast.expr)]


def test_mutants_differ_in_what_is_run() -> None:
    """Each is another program that can be compiled, with the same annotations."""
    programs = set()
    for mutation in mutated(PLAN)[::30]:
        source = made(*mutation).source
        assert annotations(source) == annotations(SOURCE)
        programs.add(ast.dump(ast.parse(source)))
    assert len(programs) > 10
    assert ast.dump(ast.parse(SOURCE)) not in programs


@pytest.mark.deep
def test_what_becomes_of_a_mutant() -> None:
    """A mistake is caught by a test, an endless loop by its time; what changes nothing survives; nonsense is no mistake."""
    endless = "def step(*_: object) -> None:\n    while True:\n        pass\n"
    sources = [f"{SOURCE}\n", f"{SOURCE}\nstep = None\n", f"{SOURCE}\n{endless}", "raise ValueError"]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=False,
        input=json.dumps([str(PLAN), sources]),
        text=True,
        capture_output=True,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr
    assert ast.literal_eval(ran.stdout) == [
        ("survived", ""),
        ("caught", "tests/certs/test_plan.py::test_what_is_good_is_kept"),
        ("timed out", ""),
        ("cannot be imported", ""),
    ]


def test_too_few_caught_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """A share below nine tenths fails, and so does a run without any; what cannot be imported does not count."""
    caught, survived, nonsense = Outcome.CAUGHT, Outcome.SURVIVED, Outcome.NOT_IMPORTED
    assert judge(Counter({caught: 9, survived: 1})) == 0
    assert "1 of 10 mutants survived, 90.0% were caught" in capsys.readouterr().out
    assert judge(Counter({caught: 9, survived: 1, Outcome.TIMED_OUT: 1})) == 0
    assert judge(Counter({caught: 8, survived: 1, nonsense: 5})) == 1
    assert judge(Counter({nonsense: 5})) == 1
