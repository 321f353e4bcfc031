"""One mutant under the tests: in a process of its own, forked off one that has imported the libraries, but nothing of ours.

Every mutant is imported anew: what modules and session fixtures remember (compiled policies above all) is its own.
"""

import contextlib
import importlib
import importlib.util
import os
import resource
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.mutants.draw import Mutant

LIBRARIES = (
    *("aiohttp", "blockbuster", "cryptography.x509", "hypothesis.internal.conjecture.engine", "hypothesis.strategies"),
    *("jsonpatch", "jsonschema", "msgspec", "pydantic.main", "pytest_asyncio.plugin", "pytest_cov.plugin", "re2"),
    *("structlog", "xdist.looponfail", "xdist.plugin", "yaml"),
)
"""What tests import that is not ours."""

OPTIONS = (
    *("-x", "--quiet", "--numprocesses=0", "-p", "no:cacheprovider"),
    # Rewriting assertions shows why one fails, which nobody reads, and wants plugins that nobody has imported yet.
    "--assert=plain",
    *("-m", "not controlplane and not long and not node and not systems and not browser"),
)

CERTIFICATES = (
    ("tests/certs", "--deselect=tests/certs/test_rotation.py::test_twenty_years"),
    ("tests/certs/test_rotation.py",),
)
"""What a mutant of `certs` is put to: the tests of one line after the other, until one fails."""

_ELSEWHERE = ("bounds", "extends", "load", "numbers", "pattern", "strict_yaml")
"""What tests of mappings are about that is none of the mutated packages, or takes as long."""

DECISIONS = (
    ("tests/decisions/test_cases.py", "tests/decisions/test_keys.py"),
    (
        *("tests/admission", "tests/mapping", "tests/test_response.py"),
        *("tests/decisions/test_guard_lists.py", "tests/decisions/test_missing_names.py"),
        *(f"--ignore=tests/mapping/test_{part}.py" for part in _ELSEWHERE),
    ),
    (
        *("tests/fuzz/test_fuzz.py::test_nothing_is_found", "tests/explanation"),
        "tests/decisions/test_remembered_size.py",
    ),
    (
        *(f"tests/mapping/test_{part}.py" for part in ("extends", "load", "numbers", "pattern")),
        *(f"tests/cluster/test_{part}.py" for part in ("hostile_documents", "policies", "reach")),
        *("tests/cli/test_check.py", "tests/cli/test_explain.py", "tests/cli/test_vendors.py", "tests/others"),
    ),
)
"""The same for every other one, those first that end most mutants in the least time."""

_PROCESSES = ("crowd", "drain", "serve")
"""What tests of the server run in processes of its own, where there is no mistake."""

AROUND = (
    ("tests/cluster", "tests/replica"),
    ("tests/server", *(f"--ignore=tests/server/test_{part}.py" for part in _PROCESSES)),
    (
        "tests/doctor",
        "tests/cli/test_preview.py",
        "tests/cli/test_check.py",
        "tests/certs/test_upkeep.py",
        "tests/faults",
    ),
)
"""The same for what is around the decision."""

STAGES = {
    "certs": CERTIFICATES,
    "webhook.cluster": AROUND,
    "webhook.replica": AROUND,
    "webhook.server": (AROUND[1], AROUND[0], AROUND[2]),
    "webhook": (*DECISIONS, *AROUND[:2]),
}
"""The tests for each package: of the first one here that a module is in."""

TIMES = 4
"""How many times the processor time of the tests without a mistake a mutant may take, ..."""
SPARE = 10
"""... and how many seconds more: importing takes most of a short run."""
MEMORY = 4 << 30
"""Bytes of address space: a loop without an end may fill a list."""

_NOT_IMPORTED = 99


class Outcome(Enum):
    """What became of a mutant."""

    CAUGHT = "caught"
    TIMED_OUT = "timed out"
    NOT_IMPORTED = "cannot be imported"
    SURVIVED = "survived"


class CleanRunError(Exception):
    """Tests fail without any mistake; its argument is what they printed."""


class _Loader(SourceFileLoader):
    """A module with a mistake; nothing of it is kept in a cache."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


class _Finder:
    """Finds the mutant in place of its module."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if name != self._mutant.module:
            return None
        found = PathFinder.find_spec(name, path)
        if found is None or found.origin is None:
            raise ModuleNotFoundError(name)
        return importlib.util.spec_from_file_location(
            name, found.origin, loader=_Loader(name, found.origin, self._mutant.source)
        )


class _Order:
    """Runs those tests first that ended other mutants of the module, and reports which one ends this one."""

    def __init__(self, first: Sequence[str], report: int) -> None:
        self._rank = {test: number for number, test in enumerate(first)}
        self._report = report

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self._rank.get(item.nodeid, len(self._rank)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tell(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._tell(report)

    def _tell(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            os.write(self._report, f"{report.nodeid}\n".encode())


@dataclass
class Trials:
    """What is known from one trial to the next.

    Attributes:
        stages: for each package of ours, which tests its mutants are put to, one stage after the other.
    """

    stages: Mapping[str, Sequence[tuple[str, ...]]] = field(default_factory=lambda: STAGES)
    _limits: dict[tuple[str, ...], int] = field(default_factory=dict)
    _killers: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def __post_init__(self) -> None:
        for name in LIBRARIES:
            importlib.import_module(name)

    def outcome(self, mutant: Mutant) -> tuple[Outcome, str]:
        """What becomes of a mutant, and the test that ends it.

        Raises:
            CleanRunError: tests fail without the mutant, too.
        """
        package = next(each for each in self.stages if f"{mutant.module}.".startswith(f"{each}."))
        for stage in self.stages[package]:
            with Path(os.devnull).open("w") as nowhere:
                code, _, test = self._run(mutant, stage, self._limit(stage), nowhere.fileno())
            if code == _NOT_IMPORTED:
                return Outcome.NOT_IMPORTED, ""
            if code in {-signal.SIGXCPU, -signal.SIGKILL}:
                return Outcome.TIMED_OUT, ""
            if code != 0:
                self._killers[mutant.module][test] += 1
                return Outcome.CAUGHT, test
        return Outcome.SURVIVED, ""

    def _limit(self, stage: tuple[str, ...]) -> int:
        """How many seconds of processor time tests may take, measured once without a mutant."""
        if stage not in self._limits:
            with tempfile.TemporaryFile("w+") as output:
                code, seconds, _ = self._run(None, stage, resource.RLIM_INFINITY, output.fileno())
                if code != 0:
                    output.seek(0)
                    raise CleanRunError(output.read())
            self._limits[stage] = round(TIMES * seconds) + SPARE
        return self._limits[stage]

    def _run(self, mutant: Mutant | None, stage: tuple[str, ...], limit: int, output: int) -> tuple[int, float, str]:
        """The exit code of some tests, their seconds of processor time, and the first that failed."""
        first = [test for test, _ in self._killers[mutant.module].most_common()] if mutant else []
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os.close(read)
                os.dup2(output, 1)
                os.dup2(output, 2)
                os._exit(_test(mutant, stage, limit, _Order(first, write)))
            os._exit(1)
        os.close(write)
        with os.fdopen(read) as report:
            failed = report.readline().strip()
        _, status, usage = os.wait4(child, 0)
        return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, failed


def _test(mutant: Mutant | None, stage: tuple[str, ...], limit: int, order: _Order) -> int:
    """Run some tests in this process, which is the mutant's own, and return pytest's exit code."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if mutant is not None:
        sys.meta_path.insert(0, _Finder(mutant))
        try:
            importlib.import_module(mutant.module)
        except Exception:  # noqa: BLE001  # whatever it is: there is nothing to put to a test
            return _NOT_IMPORTED
    return pytest.main([*OPTIONS, *stage], plugins=[order])
