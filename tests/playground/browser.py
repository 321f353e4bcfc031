"""Debian's Chromium, driven by Playwright; and programs that serve the page, started as a user starts them."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

ROOT: Final = Path(__file__).parents[2]
PROGRAMS: Final = ("chromium", "google-chrome")
"""What Debian and Ubuntu, and Google's own package, call it."""


def chromium() -> str | None:
    """Return the path of the browser; None without one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def started(program: str) -> Iterator[Browser]:
    """Start the browser; it downloads nothing, and reaches nothing but this machine."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """Start the program with these arguments, and yield the address in its line."""
    command = [sys.executable, "-m", "webhook", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            found = next(filter(None, (re.search(r"ready: (http://\S+/playground/)", line) for line in process.stdout)))
            yield found[1]
        finally:
            process.terminate()
