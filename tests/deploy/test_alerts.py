"""The chart's alerts, tried by promtool: each fires when it should, keeps quiet when it should, and says where to read on."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.fixtures import Built

from .charts import NAMESPACE, ROOT, Chart, one
from .promtool import promtool

CASES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("alerts.yaml").read_text())
RUNBOOK = "docs/runbook.md"


@pytest.fixture(scope="module")
def rules(helm: Chart) -> dict[str, Any]:
    """The groups of rules for Prometheus."""
    spec: dict[str, Any] = one(helm.render({"prometheusRule": {"enabled": True}}), "PrometheusRule")["spec"]
    return spec


@pytest.fixture(scope="module")
def alerts(rules: dict[str, Any]) -> dict[str, Any]:
    """The alerts by name."""
    return {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}


@pytest.fixture(scope="module")
def tool(built: Built) -> Path:
    """Promtool."""
    return built(promtool)


def expected(case: dict[str, Any], alerts: dict[str, Any]) -> dict[str, Any]:
    """One case as promtool wants it; of the annotations only the summary is spelt out in a case."""
    fixed = alerts[case["alert"]]["annotations"]

    def one_of(at: str, found: list[dict[str, str]]) -> dict[str, Any]:
        told = [
            {
                "exp_labels": {name: text for name, text in each.items() if name != "summary"},
                "exp_annotations": fixed | {"summary": each["summary"]},
            }
            for each in found
        ]
        return {"eval_time": at, "alertname": case["alert"], "exp_alerts": told}

    moments = [(at, []) for at in case.get("quiet", ())] + list(case.get("fires", {}).items())
    return {
        "name": case["name"],
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case["series"].items()],
        "alert_rule_test": [one_of(at, found) for at, found in moments],
    }


def groups(cases: list[dict[str, Any]], alerts: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Cases that can be evaluated together, in the time of one: of different alerts, which ask for other metrics."""
    taken: list[set[str]] = []
    found: list[list[dict[str, Any]]] = []
    for case in cases:
        series = (each.partition("{")[0] for each in case["series"])
        names = {case["alert"], *series, *re.findall(r"(?:vgpu_webhook|apiserver)_\w+", alerts[case["alert"]]["expr"])}
        at = next((at for at, others in enumerate(taken) if not others & names), len(taken))
        if at == len(taken):
            taken.append(set())
            found.append([])
        taken[at] |= names
        found[at].append(case)
    return found


def merged(cases: list[dict[str, Any]], alerts: dict[str, Any]) -> dict[str, Any]:
    """Several cases as one."""
    first, *others = (expected(case, alerts) for case in cases)
    for each in others:
        first["name"] += f"; {each['name']}"
        first["input_series"] += each["input_series"]
        first["alert_rule_test"] += each["alert_rule_test"]
    return first


@pytest.mark.long
def test_alerts_fire_and_keep_quiet(tool: Path, rules: dict[str, Any], alerts: dict[str, Any], tmp_path: Path) -> None:
    """Prometheus' own evaluation of every case; and there is a case of either kind for each alert."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    units = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [merged(group, alerts) for group in groups(CASES, alerts)],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(units))
    for arguments in (("check", "rules", "--lint-fatal", "rules.yaml"), ("test", "rules", "tests.yaml")):
        done = subprocess.run([tool, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert {case["alert"] for case in CASES if case.get("fires")} == set(alerts)
    assert {case["alert"] for case in CASES if case.get("quiet")} == set(alerts)


def test_each_alert_has_a_page(alerts: dict[str, Any]) -> None:
    """The runbook has a section for each alert and no other, and the alert links to it."""
    sections = re.findall(r"^## (\w+)$", (ROOT / RUNBOOK).read_text(), re.MULTILINE)
    assert sections == sorted(alerts)
    for name, alert in alerts.items():
        assert alert["annotations"]["runbook_url"] == f"{RUNBOOK}#{name.lower()}"
        assert alert["labels"]["severity"] in {"critical", "warning"}


def test_links_lead_where_the_pages_are(helm: Chart) -> None:
    """Who publishes the pages says where."""
    values = {"prometheusRule": {"enabled": True, "runbook": "https://docs.example/runbook.html"}}
    [group] = one(helm.render(values), "PrometheusRule")["spec"]["groups"]
    urls = {rule["annotations"]["runbook_url"] for rule in group["rules"]}
    assert "https://docs.example/runbook.html#vgpuwebhooknoreplica" in urls


def test_replicas_are_those_of_the_release(helm: Chart) -> None:
    """Too few is fewer than were requested, in the namespace of the release."""
    [group] = one(helm.render({"replicaCount": 5, "prometheusRule": {"enabled": True}}), "PrometheusRule")["spec"][
        "groups"
    ]
    [rule] = [rule for rule in group["rules"] if rule["alert"] == "VgpuWebhookTooFewReplicas"]
    assert rule["expr"].endswith("< 5")
    assert f'namespace="{NAMESPACE}"' in rule["expr"]
