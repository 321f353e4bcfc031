"""What `make run` runs: serve without a cluster, send every example to the real endpoint, say what became of each.

Then it continues to serve until Ctrl-C. With ``--once`` it ends after the examples; ``--diff`` shows messages and changes.
"""

import argparse
import base64
import contextlib
import difflib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import jsonpatch
import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
EXAMPLES: Final = ROOT / "examples"
POLICY: Final = ("--mappings", str(EXAMPLES / "mappings"), "--settings", str(EXAMPLES / "settings.yaml"))
NAMESPACE: Final = "shares"
"""The namespace of pods that name none."""

COLORS: Final = {"changed": "32", "unchanged": "0", "denied": "31"}
"""What may become of a pod, and the ANSI style of each."""

START_TIME: Final = 30.0
"""Seconds that the webhook may take to be ready; it needs about one."""

END_TIME: Final = 30.0
"""Seconds that it may take to answer the requests in flight."""


@dataclass(frozen=True)
class Endpoint:
    """Where the webhook listens on this machine, and where it stores its CA."""

    tls_port: int
    plain_port: int
    state: Path

    @property
    def url(self) -> str:
        """Where reviews are posted."""
        return f"https://127.0.0.1:{self.tls_port}/mutate"


@dataclass(frozen=True)
class Example:
    """A pod to send: what it shows, and the object."""

    file: Path
    about: str
    pod: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What became of an example: the pod as sent and as stored, and what its author is told."""

    outcome: str
    before: dict[str, Any]
    after: dict[str, Any]
    warnings: Sequence[str]
    denial: str


def main() -> int:
    """Serve, show, keep serving. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true", help="end after the examples")
    parser.add_argument("--diff", action="store_true", help="show what each is told, and what is changed")
    parser.add_argument("--port", type=int, default=8443, help="for reviews; another if it is taken, or 0")
    parser.add_argument("--plain-port", type=int, default=8080, help="for probes; another if it is taken, or 0")
    parser.add_argument("--state-dir", type=Path, default=ROOT / ".state", help="CA, log and sample review")
    arguments = parser.parse_args()
    # A shell starts what runs in the background with SIGINT ignored.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, interrupt)
    endpoint = Endpoint(free_port(arguments.port), free_port(arguments.plain_port), arguments.state_dir)
    try:
        with serving(endpoint) as process:
            print(f"Sending the pods of {EXAMPLES.relative_to(ROOT)}/pods to the webhook:\n", flush=True)
            answered = [(example, answer_to(example, endpoint)) for example in examples()]
            if arguments.diff:
                show_each(answered)
            else:
                list_each(answered)
            print_tally(Counter(answer.outcome for _, answer in answered), diff=arguments.diff)
            if not arguments.once:
                how_to_go_on(endpoint)
                wait_for_the_end(process, endpoint)
    except KeyboardInterrupt:
        print()
    except ServeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def interrupt(*_: object) -> NoReturn:
    """End as for Ctrl-C."""
    raise KeyboardInterrupt


class ServeError(Exception):
    """The webhook did not start, or did not answer as a webhook does."""


def free_port(wanted: int) -> int:
    """`wanted` if it is free, or else any free port."""
    for port in (wanted, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise ServeError("no free port on 127.0.0.1")


@contextlib.contextmanager
def serving(endpoint: Endpoint) -> Iterator["subprocess.Popen[bytes]"]:
    """The webhook in a process of its own, until the block ends."""
    state = endpoint.state
    state.mkdir(mode=0o700, exist_ok=True)
    (state / ".gitignore").write_text("*\n")
    log = state / "serve.log"
    command = [sys.executable, "-m", "webhook", "serve", "--standalone", "--state-dir", str(state)]
    command += ["--drain-grace", "0"]
    command += ["--listen", f"127.0.0.1:{endpoint.tls_port}", "--plain-listen", f"127.0.0.1:{endpoint.plain_port}"]
    command += ["--namespaces", str(EXAMPLES / "namespaces.yaml"), *POLICY]
    with log.open("wb") as output:
        # in a session of its own, so that Ctrl-C reaches us alone and we end it in order
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True)
    try:
        wait_until_ready(process, endpoint, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_TIME)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(process: "subprocess.Popen[bytes]", endpoint: Endpoint, log: Path) -> None:
    """Ask for readiness until it is there.

    Raises:
        ServeError: the process ended, or is not ready in time; with the end of its log.
    """
    deadline = time.monotonic() + START_TIME
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServeError(f"the webhook ended with {process.returncode}:\n{log.read_text()[-2000:]}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{endpoint.plain_port}/readyz"):
            return
        time.sleep(0.05)
    raise ServeError(f"the webhook is not ready after {START_TIME:.0f} s:\n{log.read_text()[-2000:]}")


def wait_for_the_end(process: "subprocess.Popen[bytes]", endpoint: Endpoint) -> NoReturn:
    """Wait as long as the webhook serves.

    Raises:
        KeyboardInterrupt: this process was asked to end.
        ServeError: it ended by itself.
    """
    raise ServeError(f"the webhook ended with {process.wait()}; see {endpoint.state / 'serve.log'}")


def examples() -> Iterator[Example]:
    """The pods of ``examples/pods``, each with the comment above it."""
    for file in sorted((EXAMPLES / "pods").glob("*.yaml")):
        text = file.read_text()
        about = " ".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
        for document in yaml.safe_load_all(text):
            yield Example(file.relative_to(ROOT), about, pod_of(document))


def pod_of(document: dict[str, Any]) -> dict[str, Any]:
    """A pod, or the first one that the controllers would create for a Deployment or StatefulSet."""
    if document["kind"] == "Pod":
        return document
    name, template = document["metadata"]["name"], document["spec"]["template"]
    kind = "StatefulSet"
    if document["kind"] == "Deployment":
        kind, name = "ReplicaSet", f"{name}-5d4f8c7b9"
    metadata = {
        "generateName": f"{name}-",
        **({"namespace": document["metadata"]["namespace"]} if "namespace" in document["metadata"] else {}),
        **template["metadata"],
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "0", "controller": True}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def review_of(pod: dict[str, Any]) -> dict[str, Any]:
    """What an API server sends when a user creates the pod."""
    namespace = pod["metadata"].get("namespace", NAMESPACE)
    pod = {**pod, "metadata": {**pod["metadata"], "namespace": namespace}}
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "name": pod["metadata"].get("name", ""),
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": "example", "groups": ["system:authenticated"]},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def ask(review: dict[str, Any], endpoint: Endpoint) -> dict[str, Any]:
    """Post a review over TLS that is verified with the webhook's own CA; its response.

    Raises:
        ServeError: the answer is no AdmissionReview for this request.
    """
    verified = ssl.create_default_context(cafile=str(endpoint.state / "ca.crt"))
    with contextlib.closing(
        http.client.HTTPSConnection("127.0.0.1", endpoint.tls_port, context=verified, timeout=10)
    ) as connection:
        connection.request("POST", "/mutate", json.dumps(review), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
    if answer.status != http.HTTPStatus.OK:
        raise ServeError(f"status {answer.status}: {body.decode()}")
    response: dict[str, Any] = json.loads(body)["response"]
    if response["uid"] != review["request"]["uid"]:
        raise ServeError("the answer is for another request")
    return response


def answer_to(example: Example, endpoint: Endpoint) -> Answer:
    """Send an example."""
    review = review_of(example.pod)
    response = ask(review, endpoint)
    before = after = review["request"]["object"]
    denial = ""
    if response["allowed"]:
        after = jsonpatch.apply_patch(before, json.loads(base64.b64decode(response.get("patch") or "W10=")))
        outcome = "unchanged" if after == before else "changed"
    else:
        status = response["status"]
        outcome, denial = "denied", f"({status['code']}): {status['message']}"
    return Answer(outcome, before, after, response.get("warnings", ()), denial)


def list_each(answered: Iterable[tuple[Example, Answer]]) -> None:
    """Print a line for each: its number, what became of it, and what it is about."""
    for example, answer in answered:
        number = example.file.name.partition("-")[0]
        print(f"  {number}  {styled(f'{answer.outcome:9}', COLORS[answer.outcome])}  {example.about}")


def show_each(answered: Iterable[tuple[Example, Answer]]) -> None:
    """Print what each is about, what its author is told, and what is changed."""
    shown: set[str] = set()
    for example, answer in answered:
        print(styled(f"{example.file}", "1"))
        print(f"  {example.about}")
        for warning in answer.warnings:
            print(styled(f"  warning: {warning}", "33"))
        print(styled(f"  {answer.outcome} {answer.denial}".rstrip(), COLORS[answer.outcome]))
        for line in difference(answer.before, shortened(answer.after, answer.before, shown)):
            print(f"  {line}")
        print()


def print_tally(became: Counter[str], *, diff: bool) -> None:
    """Print how many examples became what, and how to see it in full."""
    parts = ", ".join(f"{count} {word}" for word, count in became.most_common())
    print(styled(f"\n{became.total()} examples: {parts}", "1"))
    if not diff:
        print("make run DIFF=1 shows what each was told, and what was changed.")


def shortened(after: Any, before: Any, shown: set[str]) -> Any:
    """`after`, with volumes and mounts that an earlier example showed already replaced by a short text."""
    if isinstance(after, list) and isinstance(before, list):
        olds = [*before, *[None] * len(after)]
        return [shortened(new, old, shown) for new, old in zip(after, olds, strict=False)]
    if not isinstance(after, dict) or not isinstance(before, dict):
        return after
    short = {}
    for key, value in after.items():
        short[key] = shortened(value, before.get(key), shown)
        if key in {"volumes", "volumeMounts"} and key not in before:
            text = json.dumps(value)
            if text in shown:
                short[key] = "… (as above)"
            shown.add(text)
    return short


def difference(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """The lines of YAML that differ, with two lines around them; long ones are cut."""
    width = shutil.get_terminal_size((120, 24)).columns - 4
    old, new = (
        yaml.safe_dump(pod, sort_keys=False, allow_unicode=True, width=10_000).splitlines() for pod in (before, after)
    )
    for line in list(difflib.unified_diff(old, new, n=2, lineterm=""))[2:]:
        shown = line if len(line) <= width else f"{line[: width - 1]}…"
        if line.startswith("@@"):
            yield styled("…", "2")
        else:
            yield styled(shown, {"+": "32", "-": "31"}.get(line[0], "0"))


def styled(text: str, code: str) -> str:
    """Text with an ANSI style, if it is written to a terminal."""
    return f"\033[{code}m{text}\033[0m" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text


def how_to_go_on(endpoint: Endpoint) -> None:
    """Print how to send a pod of one's own."""
    example = next(iter(examples()))
    sample = endpoint.state / "review.json"
    sample.write_text(json.dumps(review_of(example.pod), indent=2))
    state = Path(os.path.relpath(endpoint.state))
    policy = " ".join(each if each.startswith("-") else os.path.relpath(each) for each in POLICY)
    print(
        f"""
Still serving on {endpoint.url}; its log is {state}/serve.log, its metrics are on http://127.0.0.1:{endpoint.plain_port}/metrics.

Send a review of your own, as an API server would (change {state}/review.json as you like):

  curl --cacert {state}/ca.crt -H 'Content-Type: application/json' --data @{state}/review.json {endpoint.url}

Or see what becomes of any manifest, without a server:

  .venv/bin/vgpu-webhook mutate -f {example.file} {policy} -o diff

Ctrl-C ends it.""",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
