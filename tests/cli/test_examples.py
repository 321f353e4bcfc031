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

import webhook

ROOT = Path(webhook.__file__).parent.parent
RUN = [sys.executable, str(ROOT / "examples" / "run.py"), "--port", "0", "--plain-port", "0", "--state-dir"]
"""With ports of its own: several servers may listen on one, and other tests run beside these."""


@pytest.mark.timeout(60)
def test_every_example_is_shown(tmp_path: Path) -> None:
    """What it is about, what changed, what was warned of or why it was denied; then all of it ends."""
    done = subprocess.run(
        [*RUN, str(tmp_path / "state"), "--once"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    files = sorted(file.name for file in (ROOT / "examples" / "pods").glob("*.yaml"))
    assert re.findall(r"^examples/pods/(\S+)$", done.stdout, re.MULTILINE) == files
    assert "+        nvidia.com/gpumem: '5000'" in done.stdout
    assert "warning: VGW101: " in done.stdout
    assert "denied (422): VGW305: " in done.stdout
    assert "stored unchanged" in done.stdout
    assert "\x1b" not in done.stdout
    log = [json.loads(line) for line in (tmp_path / "state" / "serve.log").read_text().splitlines() if line[0] == "{"]
    assert log[-1]["event"] == "stopped"


@pytest.mark.timeout(60)
def test_it_keeps_serving_until_it_is_stopped(tmp_path: Path) -> None:
    """The commands that it prints work as they stand; it ends also where SIGINT is ignored, as in a shell's background."""
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *RUN, str(tmp_path / "state")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line.strip())
                if line.startswith("Ctrl-C ends it"):
                    break
            curl = shlex.split(next(line for line in lines if line.startswith("curl ")))
            body = (ROOT / curl[curl.index("--data") + 1].removeprefix("@")).read_bytes()
            request = urllib.request.Request(curl[-1], body, {"Content-Type": "application/json"})
            trusted = ssl.create_default_context(cafile=str(ROOT / curl[curl.index("--cacert") + 1]))
            with urllib.request.urlopen(request, context=trusted) as answer:
                assert json.load(answer)["response"]["allowed"] is True
            offline = shlex.split(next(line for line in lines if "vgpu-webhook mutate" in line))
            command = [sys.executable, "-m", "webhook", *offline[1:]]
            shown = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
            assert "+  schedulerName: " in shown.stdout
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


def test_a_webhook_that_does_not_start_is_reported(tmp_path: Path) -> None:
    """With the end of its log; exit 1."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "ca.crt").mkdir()
    done = subprocess.run(
        [*RUN, str(tmp_path / "state"), "--once"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the webhook ended with 1:\n")
