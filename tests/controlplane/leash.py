"""Become the command in the arguments, which the kernel ends together with the process that started this one.

Run as a script. It stands between a test run and each of its processes because the alternative, ``preexec_fn``, may
deadlock in a run with threads, which Python 3.12 warns of.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Set the signal where the system has it, and exec the command; the first argument is the pid of the run."""
    started_by, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != started_by:
            sys.exit("the test run is gone already")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
