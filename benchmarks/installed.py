"""``python -m benchmarks.installed MODULE …`` runs a module as an installation of the webhook has it.

structlog loads rich (3 MiB) where it finds it, and here the tests have brought it along.
"""

import runpy
import sys

if __name__ == "__main__":
    del sys.argv[0]
    sys.modules["rich"] = None  # type: ignore[assignment]  # stops its import
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
