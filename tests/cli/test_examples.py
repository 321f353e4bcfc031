"""``make run``: the examples through a real endpoint, and how to continue."""

import json
import re
import shlex
import signal
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

import webhook
from tests.waiting import PATIENCE
from webhook.cli import main

ROOT = Path(webhook.__file__).parent.parent
RUN = [sys.executable, str(ROOT / "examples" / "run.py"), "--port", "0", "--plain-port", "0", "--state-dir"]
"""With ports of its own: several servers may listen on one, and other tests run beside these."""


def test_every_example_is_shown_and_then_served(tmp_path: Path) -> None:
    """What it is about, what changed, what was warned of or why it was denied.

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
            assert_every_example("".join(lines))
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


def assert_every_example(printed: str) -> None:
    """Each file, and each kind of end."""
    files = sorted(file.name for file in (ROOT / "examples" / "pods").glob("*.yaml"))
    assert re.findall(r"^examples/pods/(\S+)$", printed, re.MULTILINE) == files
    for part in (
        "+        nvidia.com/gpumem: '5000'",
        "warning: VGW101: ",
        "denied (422): VGW305: ",
        "stored unchanged",
    ):
        assert part in printed
    assert "\x1b" not in printed
    [(total, parts)] = re.findall(r"^(\d+) examples: (.+)$", printed, re.MULTILINE)
    tally = {word: int(count) for count, word in re.findall(r"(\d+) ([a-z ]+)", parts)}
    assert int(total) == sum(tally.values()) == len(files)
    assert tally["denied"] == printed.count("\n  denied (")
    assert tally["stored unchanged"] == printed.count("\n  stored unchanged\n")


@pytest.mark.long
def test_once(tmp_path: Path) -> None:
    """After the examples all of it ends."""
    command = [*RUN, str(tmp_path / "state"), "--once"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert_every_example(done.stdout)
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
