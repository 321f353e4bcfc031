"""Log lines: JSON, useful, and without anything that was in a pod's values."""

import io
import json
import logging
from pathlib import Path

import pytest

from tests.server.harness import CLIENT, UID, call, connected, get, pod, request, review, serving
from tests.waiting import until
from webhook.server.logs import (
    MAX_KINDS,
    MAX_MESSAGE,
    MAX_REVIEW_LINES,
    Lines,
    Throttle,
    make_logger,
    take_over,
)
from webhook.text import MAX_FRAMES, error_fields


async def test_denial_is_logged_at_info() -> None:
    """Whoever reads the log finds what was denied, why and where, and not what stood there."""
    async with serving() as server:
        await call(server, request(review(obj=pod("deny"))))
        (line,) = [line for line in server.log if line["level"] == "info" and line["event"] == "review"]
    assert line["uid"] == UID
    assert (line["namespace"], line["pod"], line["outcome"]) == ("team", "deny", "denied")
    assert (line["reason"], line["code"], line["container"], line["field"]) == (
        "privileged",
        "VGW506",
        "c",
        "securityContext",
    )
    assert "s3cr3t" not in json.dumps(line)


async def test_other_reviews_are_logged_at_debug() -> None:
    """A review that passes, and an HTTP error."""
    async with serving() as server:
        await call(server, request(review(dryRun=True)))
        await call(server, request(b"{"))
        lines = [line for line in server.log if line["level"] == "debug"]
    assert [(line["event"], line.get("reason")) for line in lines] == [("review", "changed"), ("http_error", None)]
    assert lines[0]["dry_run"] is True
    assert lines[0]["warnings"] == ["VGW101"]


async def test_long_names_are_cut() -> None:
    """A review cannot write a book into the log."""
    async with serving() as server:
        await call(server, request(review(obj=pod("x" * 10_000), uid="u" * 128)))
        (line,) = [line for line in server.log if line["event"] == "review"]
    assert len(json.dumps(line)) < 1000


def test_level_decides() -> None:
    """What is below the level is not written."""
    file = io.BytesIO()
    log = make_logger("warning", file)
    log.info("no")
    log.warning("yes", number=1)
    line = json.loads(file.getvalue())
    assert (line["event"], line["level"], line["number"]) == ("yes", "warning", 1)
    assert line["timestamp"].endswith("Z")


def test_a_line_that_cannot_be_written_is_counted() -> None:
    """A full disk: whoever logs continues, at every level, and each line counts."""
    before = Lines.lost
    with Path("/dev/full").open("wb", buffering=0) as file:
        log = make_logger("debug", file)
        for level in ("debug", "info", "warning", "error", "critical", "exception"):
            getattr(log, level)("event")
        log.log(30, "event")
    assert Lines.lost - before == 7


def test_error_is_reported_by_type_and_place() -> None:
    """An error's own text stays out; a deep one is bounded."""

    def deep(left: int) -> None:
        if left == 0:
            raise ValueError("s3cr3t")
        deep(left - 1)

    with pytest.raises(ValueError, match="s3cr3t") as caught:
        deep(100)
    fields = error_fields(caught.value)
    assert fields["error"] == "ValueError"
    assert len(fields["traceback"]) == MAX_FRAMES
    assert "s3cr3t" not in json.dumps(fields)


@pytest.fixture
def root_logger() -> object:
    """Put the root logger back as it was."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield root
    root.handlers[:], root.level = before


@pytest.mark.usefixtures("root_logger")
def test_libraries_are_taken_over() -> None:
    """A library's log record becomes a line of the webhook's format, without its arguments."""
    file = io.BytesIO()
    take_over(make_logger("info", file))
    logging.getLogger("asyncio").info("not told")
    try:
        dict[str, str]()["s3cr3t"]
    except KeyError:
        logging.getLogger("asyncio").exception("it failed: %s\nfuture: <Task s3cr3t>", "s3cr3t")
    (line,) = [json.loads(line) for line in file.getvalue().splitlines()]
    assert (line["level"], line["logger"], line["message"], line["error"]) == (
        "error",
        "asyncio",
        "it failed: %s",
        "KeyError",
    )
    assert "s3cr3t" not in file.getvalue().decode()


@pytest.mark.usefixtures("root_logger")
def test_the_same_line_of_a_library_is_reported_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the number of those that were not; another line has a minute of its own."""
    now = 0.0
    monkeypatch.setattr(Throttle, "_now", staticmethod(lambda: now))
    file = io.BytesIO()
    take_over(make_logger("info", file))
    library = logging.getLogger("asyncio")
    for _ in range(1000):
        library.error("socket.accept() out of system resource\nsocket: 7")
    library.error("another")
    now = 61.0
    library.error("socket.accept() out of system resource\nsocket: 8")
    library.error("x" * 100_000)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [line.get("suppressed") for line in lines] == [None, None, 999, None]
    assert len(lines[-1]["message"]) == MAX_MESSAGE


def test_a_throttle_forgets() -> None:
    """A text that is never the same fills nothing."""
    throttle = Throttle(1, 60)
    for number in range(10 * MAX_KINDS):
        assert throttle.passes(number) == 0
    assert len(throttle) <= MAX_KINDS


async def test_what_would_become_of_a_pod_is_logged() -> None:
    """At the default level, with the workload that a person knows; a pod that is changed gets no line there."""
    owner = {"kind": "ReplicaSet", "name": "train-5d4f8", "controller": True}
    would, denied = pod("would"), pod("would-deny")
    would["metadata"]["ownerReferences"] = [owner]
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        for each in (would, denied, pod("changed")):
            assert (await connection.call(request(review(obj=each)))).status == 200
        lines = [line for line in server.log if line["event"] == "review" and line["level"] == "info"]
    assert [(line["namespace"], line["workload"], line["code"], line["would"]) for line in lines] == [
        ("team", "ReplicaSet/train", "VGW010", {"c": {"acme.example/memory": "5"}}),
        ("team", "would-deny", "VGW506", "VGW506: container c: no"),
    ]


async def test_denials_are_logged_up_to_a_number_per_second() -> None:
    """Anybody who can reach the port can have pods denied; the log has some of them, and how many more there were."""
    data = request(review(obj=pod("deny")))
    async with serving() as server, connected(server.addresses.mutate, CLIENT) as connection:
        for _ in range(3 * MAX_REVIEW_LINES):
            assert (await connection.call(data)).status == 200

        def counts() -> tuple[int, int]:
            lines = [line for line in server.log if line["event"] == "review" and line["level"] == "info"]
            return len(lines), sum(line["count"] for line in server.log if line["event"] == "reviews_suppressed")

        # On a machine that takes more than a second for this, there are several lines of what was left out.
        await until(lambda: sum(counts()) == 3 * MAX_REVIEW_LINES)
        lines, left_out = counts()
        metrics = (await get(server, "/metrics")).body
    assert MAX_REVIEW_LINES <= lines < 3 * MAX_REVIEW_LINES
    assert left_out
    assert f'outcome="denied",reason="privileged",vendor="acme"}} {3 * MAX_REVIEW_LINES}.0'.encode() in metrics
