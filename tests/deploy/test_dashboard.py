"""The chart's dashboard: every query shows what a replica and an API server count."""

import json
import math
import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from deploy.generate import CHART
from tests.controlplane.client import Object
from tests.controlplane.fixtures import Built
from tests.controlplane.in_cluster import serving, unregister
from tests.controlplane.objects import namespace, pod, settings
from tests.controlplane.plane import ControlPlane
from tests.faults.witnesses import Samples, api_server_samples, samples
from tests.waiting import PATIENCE
from webhook.cluster.registration.wanted import ENFORCE

from .promtool import Found, evaluated, promtool

pytestmark = pytest.mark.long

DASHBOARD: dict[str, Any] = json.loads((CHART / "files/dashboard.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]

OWN, TEAM, WATCHED = "dashboard-own", "dashboard-team", "dashboard-watched"
OPT_IN = "dashboard.example/in"
UNREACHABLE = "GPU pods denied because the webhook could not be reached"


@pytest.fixture(scope="module")
def tool(built: Built) -> Path:
    """Promtool."""
    return built(promtool)


def with_share(name: str, variable: str = "A") -> Object:
    """A pod with a share, and a variable."""
    made = pod(name, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})
    made["spec"]["containers"][0]["env"] = [{"name": variable, "value": "true"}]
    return made


@pytest.fixture(scope="module")
def series(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """What Prometheus would have of a replica and an API server, while everything happened that the dashboard shows."""
    client = control_plane.client
    opted_in = {OPT_IN: "enabled"}
    for name, labels in ((OWN, {}), (TEAM, opted_in), (WATCHED, {**opted_in, "vgpu-webhook.io/mode": "audit"})):
        control_plane.create_namespace(namespace(name, labels))
    client.create(settings(f"optInLabel: {OPT_IN}\n"), OWN).accepted()
    folder = tmp_path_factory.mktemp("dashboard")
    with serving(control_plane, folder, "--release-namespace", OWN, "--ca-settle", "1") as replica:
        found = re.search(r"ready: (https://\S+), (http://\S+) ", replica.log.read_text())
        assert found is not None, replica.log.read_text()

        def changed() -> bool:
            stored = client.create(with_share("changed"), TEAM, dry_run=True)
            return stored.status < 300 and stored.body["spec"]["schedulerName"] == "hami-scheduler"

        def scraped() -> Samples:
            control_plane.wait_until(changed, "called")
            assert "VGW605" in client.create(with_share("denied", "CUDA_DISABLE_CONTROL"), TEAM, dry_run=True).message
            client.create(with_share("watched"), WATCHED, dry_run=True).accepted()
            with pytest.raises(HTTPError):
                urlopen(found[1], b"no review", timeout=PATIENCE, context=ssl._create_unverified_context())  # noqa: SLF001
            with urlopen(f"{found[2]}/metrics", timeout=PATIENCE) as answer:
                return samples(answer.read().decode(), namespace=OWN, pod="replica-0")

        own = scraped(), scraped()

    def refused() -> Samples:
        assert ENFORCE in client.create(with_share("refused"), TEAM, dry_run=True).message
        return api_server_samples(client)

    api_server = refused(), refused()
    unregister(control_plane)
    before, now = ({**one, **other} for one, other in zip(own, api_server, strict=True))
    return [*_minutes(before, now)]


def _minutes(before: Samples, now: Samples) -> Iterator[tuple[str, str]]:
    """Samples of eight minutes, of which the last two see what happened meanwhile."""
    for each, value in now.items():
        yield each, f"{before[each]:.17g}x5 {value:.17g}x1" if each in before else f"_x6 {value:.17g}x1"


def filled_in(query: str) -> str:
    """A query as Grafana sends it: for two chosen namespaces, and with the times of its default scrape interval."""
    values = {"$namespace": f"({OWN}|other)", "$__rate_interval": "4m", "$__range": "6h"}
    for name, value in values.items():
        query = query.replace(name, value)
    assert "$" not in query
    return query


QUERIES = {filled_in(target["expr"]): (panel, target) for panel in PANELS for target in panel["targets"]}


@pytest.fixture(scope="module")
def shown(
    tool: Path, series: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[list[str]], dict[str, Found]]:
    """Prometheus' own engine over these series."""
    return lambda queries: evaluated(tool, tmp_path_factory.mktemp("queries"), series, queries, minute=7)


def test_every_query_shows_something(shown: Callable[[list[str]], dict[str, Found]]) -> None:
    """Numbers, and the labels that the legend names; of pods that could not be judged no denial by the webhook."""
    for query, found in shown([*QUERIES]).items():
        panel, target = QUERIES[query]
        legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert found, f"{panel['title']}: {query} shows nothing"
        for labels, value in found:
            assert math.isfinite(value), f"{panel['title']}: {query}: {value}"
            assert labels.keys() == legend, f"{panel['title']}: {query}: {labels}"
        if panel["title"] == UNREACHABLE:
            assert {labels["error_type"] for labels, _ in found} == {"calling_webhook_error"}


def test_each_query_counts_what_happened(shown: Callable[[list[str]], dict[str, Found]]) -> None:
    """A rate is more than zero: but for bugs, of which there was none."""
    moved = {query for query in QUERIES if re.search(r"\b(?:rate|increase)\(", query) and "bugs" not in query}
    still = [query for query, found in shown([*moved]).items() if not any(value > 0 for _, value in found)]
    assert not still


def test_namespaces_to_choose_from(shown: Callable[[list[str]], dict[str, Found]]) -> None:
    """The values of the variable are the namespaces of replicas."""
    [text] = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    values = re.fullmatch(r"label_values\((\w+), (\w+)\)", text)
    assert values is not None
    query = f"group by ({values[2]}) ({values[1]})"
    assert shown([query])[query] == [({values[2]: OWN}, 1)]
