"""``make run``: the examples through a real endpoint, and how to continue."""

import json
import re
import shlex
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

import webhook
from tests.waiting import PATIENCE
from webhook.cli import main

ROOT = Path(webhook.__file__).parent.parent
FILES = sorted((ROOT / "examples" / "pods").glob("*.yaml"))
RUN = [sys.executable, str(ROOT / "examples" / "run.py"), "--port", "0", "--plain-port", "0", "--state-dir"]
"""With ports of its own: several servers may listen on one, and other tests run beside these."""


def test_every_example_is_listed_and_then_served(tmp_path: Path) -> None:
    """A line says what became of it, and what it is about.

    The commands that it prints work as they stand; it ends also where SIGINT is ignored, as in a shell's background.
    """
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *RUN, str(tmp_path / "state")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line)
                if line.strip().startswith("Ctrl-C ends it"):
                    break
            assert_a_line_for_each("".join(lines))
            curl = shlex.split(next(line for line in lines if line.strip().startswith("curl ")))
            body = (ROOT / curl[curl.index("--data") + 1].removeprefix("@")).read_bytes()
            request = urllib.request.Request(curl[-1], body, {"Content-Type": "application/json"})
            trusted = ssl.create_default_context(cafile=str(ROOT / curl[curl.index("--cacert") + 1]))
            with urllib.request.urlopen(request, context=trusted) as answer:
                assert json.load(answer)["response"]["allowed"] is True
            offline = shlex.split(next(line for line in lines if "vgpu-webhook mutate" in line))
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(ROOT)
                assert "+  schedulerName: " in CliRunner().invoke(main, offline[1:]).stdout
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=PATIENCE) == 0
        finally:
            process.kill()


def assert_a_line_for_each(printed: str) -> None:
    """Its number, its end and its comment, in 80 columns; the tally below counts the ends."""
    listed = re.findall(r"^  (\d\d)  (changed|unchanged|denied) +(\S.*)$", printed, re.MULTILINE)
    comments = [file.read_text().partition("\n")[0].removeprefix("# ") for file in FILES]
    assert [(number, about) for number, _, about in listed] == [
        (file.name[:2], comment) for file, comment in zip(FILES, comments, strict=True)
    ]
    head, _, _ = printed.partition("\nStill serving")
    assert max(map(len, head.splitlines())) <= 80
    assert tally_of(printed) == Counter(end for _, end, _ in listed)


def tally_of(printed: str) -> dict[str, int]:
    """How many became what."""
    [(total, parts)] = re.findall(r"^(\d+) examples: (.+)$", printed, re.MULTILINE)
    tally = {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", parts)}
    assert int(total) == sum(tally.values()) == len(FILES)
    return tally


def test_changes_and_messages_are_shown_on_request(tmp_path: Path) -> None:
    """What changed, what was warned of, and why it was denied. After the examples all of it ends."""
    command = [*RUN, str(tmp_path / "state"), "--once", "--diff"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    shown = re.findall(r"^examples/pods/(\S+)$", done.stdout, re.MULTILINE)
    assert shown == [file.name for file in FILES]
    for part in ("+        nvidia.com/gpumem: '5000'", "  warning: VGW101: ", "  denied (422): VGW305: "):
        assert part in done.stdout
    assert "\x1b" not in done.stdout
    ends = re.findall(r"^  (changed|unchanged|denied)(?= \(|$)", done.stdout, re.MULTILINE)
    assert tally_of(done.stdout) == Counter(ends)
    log = [json.loads(line) for line in (tmp_path / "state" / "serve.log").read_text().splitlines() if line[0] == "{"]
    assert log[-1]["event"] == "stopped"


def test_a_webhook_that_does_not_start_is_reported(tmp_path: Path) -> None:
    """With the end of its log; exit 1."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "ca.crt").mkdir()
    done = subprocess.run(
        [*RUN, str(tmp_path / "state"), "--once"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the webhook ended with 1:\n")
