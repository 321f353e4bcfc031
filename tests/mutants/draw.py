"""Which mutants there are, and which of them a seed draws.

mutmut makes them; it does not mutate annotations, docstrings, decorators, nor functions that have one (other than static and
class methods), and none but constants as defaults. Left out besides is only what no test can see: type aliases, options of
structs (``frozen``, ``gc``; those of dataclasses are decorators), and what coverage excludes because it is for a type checker
alone or never reached, as `pyproject.toml` says.
"""

import difflib
import itertools
import random
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # each process of a test run collects this, and mutmut and libcst take a second to import
    import libcst

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    """A module with one mistake.

    Attributes:
        path: its file, from the root of the project.
        number: which of the mutations of this file it is, for `--only`.
        source: the whole module with the mistake.
    """

    path: Path
    number: int
    source: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.number}"

    @property
    def module(self) -> str:
        return ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")

    @property
    def line(self) -> int:
        pairs = zip((ROOT / self.path).read_text().splitlines(), self.source.splitlines(), strict=False)
        return next((number for number, (before, after) in enumerate(pairs, 1) if before != after), 0)

    def difference(self) -> str:
        """The lines that are changed, as they were and as they are now, with the number of the first."""
        before, after = (ROOT / self.path).read_text().splitlines(), self.source.splitlines()
        lines = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
        return "\n".join(f"    {line}" for line in lines)


def mutated(path: Path) -> "list[tuple[Path, libcst.Module, libcst.CSTNode, libcst.CSTNode, int]]":
    """Every mutation of a file: the module, what is replaced in it, by what, and its number."""
    from mutmut.mutation.file_mutation import create_mutations

    source = (ROOT / path).read_text()
    module, mutations, _, _ = create_mutations(str(path), source, None, _excluded(source))
    return [(path, module, each.original_node, each.mutated_node, number) for number, each in enumerate(mutations)]


def _excluded(source: str) -> set[int]:
    """The lines of type aliases and of structs' options, and those that coverage excludes."""
    report = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]["report"]
    excluded = re.compile("|".join([*report["exclude_also"], ": TypeAlias = ", r"^class .*(frozen|gc)="]))
    return {number for number, line in enumerate(source.splitlines(), 1) if excluded.search(line)}


def made(path: Path, module: "libcst.Module", old: "libcst.CSTNode", new: "libcst.CSTNode", number: int) -> Mutant:
    """A mutation that is carried out."""
    import libcst

    return Mutant(path, number, libcst.ensure_type(module.deep_replace(old, new), libcst.Module).code)


def named(name: str) -> Mutant:
    """The mutant of a name."""
    path, _, number = name.rpartition(":")
    return made(*mutated(Path(path))[int(number)])


def draw(count: int, seed: int, since: str = "") -> tuple[Iterator[Mutant], int]:
    """Some mutants in random order, of lines that changed since a commit if one is named, and how many there are in all."""
    from mutmut.configuration import config
    from mutmut.utils.file_utils import walk_source_files

    paths = sorted(path for path in walk_source_files() if config().should_mutate(path))
    every = [mutation for path in paths for mutation in mutated(path)]
    shuffled = random.Random(seed).sample(every, len(every))
    if not since:
        return (made(*each) for each in shuffled[:count]), len(every)
    lines = changed_lines(since)
    mutants = (made(*each) for each in shuffled if each[0] in lines)
    return itertools.islice((each for each in mutants if each.line in lines[each.path]), count), len(every)


def changed_lines(since: str) -> dict[Path, set[int]]:
    """The numbers of the lines that a file has now and did not have at a commit."""
    path, lines = Path(), dict[Path, set[int]]()
    difference = ["git", "diff", "--unified=0", "--no-prefix", since, "--", "*.py"]
    for line in subprocess.run(difference, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines():
        if line.startswith("+++ "):
            path = Path(line[4:])
        elif found := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(found[1]), int(found[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + count))
    return lines
