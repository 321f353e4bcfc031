"""Where a fault was reported: log lines, Events, metrics and their alerts, `vgpu-webhook check`."""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.controlplane.client import Client
from tests.deploy.promtool import evaluated

Samples = Mapping[str, float]
"""Values by series, as promtool writes them: a name and its labels."""

WEBHOOK_COUNTS = re.compile(r"^apiserver_admission_webhook_(?:rejection|fail_open)_count\{.*vgpu-webhook", re.MULTILINE)
USUAL = re.compile(
    r"vgpu_webhook_(?:review_seconds|body_bytes|in_flight|certificate_not|notes|connections(?:_max)?\{"
    r"|reviews_total\{(?!.*outcome=\"denied\"))|.*_created"
)
"""What always moves."""

COUNTER = r"_(?:total|count)\{"
LEVELS = {"warning", "error", "critical"}
FRESH = 2.5
"""Seconds in which every watch brings what was done to a namespace; each fault of the table lasts longer."""

SCRAPED = 5.0
"""Seconds after which a scrape is given up, half of what is usual: what is there is read again afterwards."""

STEADY, GOING_ON = 30, 45
"""Minutes before a fault, and of it, as Prometheus is shown them."""


def samples(text: str, **labels: str) -> dict[str, float]:
    """What stands in Prometheus' text, with labels of whoever scrapes."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            tolerations = ",".join(
                f"{name}={json.dumps(value)}" for name, value in sorted({**sample.labels, **labels}.items())
            )
            found[f"{sample.name}{{{tolerations}}}"] = sample.value
    return found


def api_server_samples(client: Client) -> dict[str, float]:
    """What an API server counts of the webhook; nothing while it does not answer: without its store it takes long."""
    try:
        text = str(client.call("GET", "/metrics", seconds=SCRAPED).body.get("text", ""))
    except OSError:
        return {}
    lines = [line for line in text.splitlines() if WEBHOOK_COUNTS.match(line)]
    return samples("\n".join(lines) + "\n", instance="api-server")


def moved(before: Samples, during: Samples) -> set[str]:
    """The names of metrics that a fault moves, beside what always does.

    Of a replica that is gone only its readiness counts: that its other series are gone, too, says nothing more.
    """
    names = set()
    for series in before.keys() | during.keys():
        name, was, now = series.partition("{")[0], before.get(series), during.get(series)
        if USUAL.match(series) or (now is None and name != "vgpu_webhook_ready"):
            continue
        if (
            _is_stale(series, now)
            if "_age_seconds" in series
            else was != now and (was is not None or now or not re.search(COUNTER, series))
        ):
            names.add(name)
    return names


def stale(found: Samples) -> set[str]:
    """The replicas' watches that have not brought what was done to a namespace just before."""
    return {series for series, value in found.items() if "_age_seconds" in series and _is_stale(series, value)}


def _is_stale(series: str, now: float | None) -> bool:
    """Whether a replica has not yet seen a change to a namespace made just before the request."""
    return 'kind="namespaces"' in series and now is not None and now > FRESH


@dataclass(frozen=True, slots=True)
class Alerts:
    """The chart's alerts, as Prometheus evaluates them.

    Attributes:
        tool: promtool.
        rules: groups of rules.
        folder: for its files.
    """

    tool: Path
    rules: Mapping[str, Any]
    folder: Path

    def firing(self, before: Samples, during: Samples) -> set[str]:
        """The alerts that fire if what happened continues, or comes again every minute."""
        query = 'count by (alertname) (ALERTS{alertstate="firing"})'
        series = _going_on(before, during)
        found = evaluated(self.tool, self.folder, series, [query], minute=STEADY + GOING_ON, rules=self.rules)
        return {labels["alertname"] for labels, _ in found[query]}


def _going_on(before: Samples, during: Samples) -> Iterator[tuple[str, str]]:
    """Series of samples, one a minute: steady first, then as the fault has them, over and over."""
    for series in sorted(before.keys() | during.keys()):
        was, now = before.get(series), during.get(series)
        steady = f"_x{STEADY}" if was is None else f"{was:.17g}x{STEADY - 1}"
        if now is None:
            yield series, f"{steady} stale"
        elif "_age_seconds" in series:
            yield series, f"{steady} {now:.17g}+60x{GOING_ON}" if _is_stale(series, now) else f"{steady} 0x{GOING_ON}"
        elif re.search(COUNTER, series):
            # A counter that is less than it was began anew.
            gained = now - was if was is not None and now >= was else now
            yield series, f"{steady} {now:.17g}+{gained:.17g}x{GOING_ON}"
        else:
            yield series, f"{steady} {now:.17g}x{GOING_ON}"


@dataclass(slots=True)
class Logs:
    """The log lines of all replicas from a moment on."""

    folder: Path
    offsets: dict[Path, int]

    @classmethod
    def since_now(cls, folder: Path) -> "Logs":
        return cls(folder, {log: log.stat().st_size for log in folder.glob("replica-*.log")})

    def lines(self) -> Iterator[dict[str, Any]]:
        for log in self.folder.glob("replica-*.log"):
            with log.open("rb") as file:
                file.seek(self.offsets.get(log, 0))
                text = file.read().decode(errors="replace")
            for line in text.splitlines():
                if line.startswith("{"):
                    yield json.loads(line)

    def events(self) -> set[str]:
        """The events of those that somebody should look at, and all that count others."""
        return {
            str(line.get("event"))
            for line in self.lines()
            if line.get("level") in LEVELS or line.get("event") == "reviews_suppressed"
        }


def event_reasons(client: Client, namespaces: Iterable[str]) -> frozenset[str]:
    """The reasons of the webhook's Events."""
    found = [event for namespace in namespaces for event in client.list("v1", "events", namespace)]
    return frozenset(each["reason"] for each in found if each.get("source", {}).get("component") == "vgpu-webhook")


def checks(command: list[str]) -> dict[str, frozenset[str]]:
    """What each check of `vgpu-webhook check -o json` says that does not end well: its message, and its details."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode not in {0, 1}:
        raise AssertionError(f"check ended with {done.returncode}: {done.stdout}{done.stderr}")
    results = json.loads(done.stdout)["checks"]
    return {each["name"]: frozenset((each["message"], *each["details"])) for each in results if each["level"] != "ok"}
