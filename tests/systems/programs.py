"""Where the programs of other systems come from.

Those of some are Go modules, pinned in the go.mod of a folder beside this file. Those of the others are taken from an
installation: ``SYSTEMS_BIN`` names a folder with a folder for each system, which holds its programs.
"""

import datetime as dt
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from tests.go_program import BinariesMissingError, GoProgram

HERE: Final = Path(__file__).parent
VARIABLE: Final = "SYSTEMS_BIN"
WITHOUT_GO: Final = "the systems are built with Go: install Go 1.26 from https://go.dev/dl/"


@dataclass(frozen=True, slots=True)
class Built:
    """Programs of a Go module.

    Attributes:
        name: of the system, and of the folder with its go.mod.
        module: that holds them below `cmd`.
        names: of the programs.
    """

    name: str
    module: str
    names: tuple[str, ...]

    def folder(self) -> Path:
        """Return the folder with the programs, built now if this machine has never built them.

        Raises:
            BinariesMissingError: they cannot be built.
        """
        first, *others = (f"{self.module}/cmd/{name}" for name in self.names)
        inputs = ("go.mod", "go.sum")
        return GoProgram(self.name, HERE / self.name, inputs, first, "-s -w", WITHOUT_GO, others=tuple(others)).folder()

    def version(self) -> str:
        found = re.search(rf"^(?:require)?\s+{re.escape(self.module)} v(\S+)", self._modules(), re.MULTILINE)
        assert found is not None, f"{self.name}/go.mod does not require {self.module}"
        return f"{self.module} {found[1]}"

    def files(self) -> Path:
        """Return the folder with the module's files, among them the definitions of its kinds.

        Raises:
            BinariesMissingError: it cannot be downloaded.
        """
        go = shutil.which("go")
        if go is None:
            raise BinariesMissingError(WITHOUT_GO)
        command = [go, "mod", "download", "-json", self.module]
        done = subprocess.run(command, cwd=HERE / self.name, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BinariesMissingError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return Path(json.loads(done.stdout)["Dir"])

    def left_out(self) -> str:
        """Nothing: they can be built."""
        return ""

    def _modules(self) -> str:
        return (HERE / self.name / "go.mod").read_text()


@dataclass(frozen=True, slots=True)
class Installed:
    """Programs of an installation.

    Attributes:
        name: of the system, and of its folder in that of `SYSTEMS_BIN`.
        names: of the programs.
    """

    name: str
    names: tuple[str, ...]

    def folder(self) -> Path:
        """Return the folder with the programs.

        Raises:
            BinariesMissingError: there is none, or it lacks a program.
        """
        if why := self.left_out():
            raise BinariesMissingError(why)
        folder = self._folder()
        missing = [name for name in self.names if not os.access(folder / name, os.X_OK)]
        if missing:
            raise BinariesMissingError(f"{VARIABLE}: {folder} lacks the program {missing[0]}")
        return folder

    def version(self) -> str:
        """The name of the system, and what its file `version` says.

        Raises:
            BinariesMissingError: there is no such file.
        """
        file = self._folder() / "version"
        if not file.is_file():
            raise BinariesMissingError(f"{VARIABLE}: write the version of {self.name} into {file}")
        return f"{self.name} {file.read_text().strip()}"

    def left_out(self) -> str:
        """Why there are none, if there are none."""
        if not os.environ.get(VARIABLE):
            return f"{self.name}: set {VARIABLE} to a folder with {self.paths()}"
        return "" if self._folder().is_dir() else f"{self.name}: {VARIABLE} has no folder {self._folder()}"

    def paths(self) -> str:
        """The programs below that folder, as a shell would write them."""
        names = ",".join(self.names)
        return f"{self.name}/{names if len(self.names) == 1 else f'{{{names}}}'}"

    def _folder(self) -> Path:
        return Path(os.environ[VARIABLE]).absolute() / self.name


Programs: TypeAlias = Built | Installed

HAMI: Final = Installed("hami", ("scheduler",))
VOLCANO: Final = Built("volcano", "volcano.sh/volcano", ("scheduler", "controller-manager", "webhook-manager"))
KAI: Final = Installed("kai", ("scheduler", "admission", "binder", "podgrouper"))
KOORDINATOR: Final = Built("koordinator", "github.com/koordinator-sh/koordinator", ("koord-manager", "koord-scheduler"))
VGPU_MANAGER: Final = Installed("vgpu-manager", ("scheduler", "webhook"))
GPUSHARE: Final = Installed("gpushare", ("gpushare-sche-extender",))
KUEUE: Final = Built("kueue", "sigs.k8s.io/kueue", ("kueue",))

SYSTEMS: Final[Mapping[str, Programs]] = {
    "hami": HAMI,
    "volcano": VOLCANO,
    "volcano-with-percentage": VOLCANO,
    "kai": KAI,
    "koordinator": KOORDINATOR,
    "koordinator-with-gate": KOORDINATOR,
    "vgpu-manager": VGPU_MANAGER,
    "gpushare": GPUSHARE,
    "kueue": KUEUE,
}
"""What runs in each part of ``make test-systems``, by the names that ``SYSTEMS`` can list."""


def chosen(names: Iterable[str] = SYSTEMS) -> list[str]:
    """Return those that ``SYSTEMS`` lists, there or not; without it those that can run."""
    listed = os.environ.get("SYSTEMS")
    if listed:
        return [name for name in names if name in listed.split(",")]
    return [name for name in names if not SYSTEMS[name].left_out()]


def first_line(programs: Programs) -> str:
    """How a file of outcomes begins: what was run, and when."""
    return f"{programs.version()}, run on {dt.datetime.now(dt.UTC):%Y-%m-%d}"
