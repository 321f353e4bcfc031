"""Checks the workflows. Without Go it only says so: whoever changes no workflow needs none for `make check`."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.go_program import BinariesMissingError
from tests.parts import may_skip, not_skipped

from . import actionlint

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"

if __name__ == "__main__":
    try:
        program = actionlint()
    except BinariesMissingError as error:
        if shutil.which("go"):
            sys.exit(f"error: {error}")
        if not may_skip("workflows"):
            sys.exit(not_skipped("workflows", f"the workflows are NOT checked: {error}"))
        sys.stderr.write(f"the workflows are NOT checked: {error}\n")
        sys.exit()
    # Not with shellcheck and pyflakes, which some machines have: what is found must not depend on that.
    command = [str(program), "-shellcheck=", "-pyflakes=", *map(str, sorted(WORKFLOWS.glob("*.yml")))]
    sys.exit(subprocess.run(command, check=False).returncode)
