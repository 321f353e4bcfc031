"""`check --pre`: the chart's values that fit a cluster, and that the chart takes them."""

import json
from typing import Any

import jsonschema
import pytest
import yaml

from deploy.generate.schema import values_schema
from tests.doctor.scene import PLUGINS, but, daemon_set, node
from webhook.cluster.configuration.policies import PolicyOutcome
from webhook.doctor.facts import ClusterFacts, Scheduler
from webhook.doctor.nodes import proposed, values_text
from webhook.doctor.result import Missing, UnansweredError
from webhook.mapping.load import load_policy

SCHEMA = json.loads(values_schema())
MEMORY, COUNT = "nvidia.com/gpu.memory", "nvidia.com/gpu.count"
SIZED = node("n", "nvidia.com/gpu", labels={MEMORY: "81559", COUNT: "8"})
RUNS = Scheduler(5, 0)
STOPPED = Scheduler(0, 0)
BUILTIN = PolicyOutcome(load_policy(), (), {}, frozenset())


def values_for(**facts: Any) -> Any:
    """The proposed values, read back from their text."""
    return yaml.safe_load(values_text(proposed(before(**facts))))


def before(**facts: Any) -> ClusterFacts:
    """A cluster without the webhook."""
    nothing = {"schedulers": {}, "daemon_sets": [], "nodes": [], "outcome": BUILTIN}
    return but(**{**nothing, **facts})


@pytest.mark.parametrize(
    "facts, settings",
    [
        ({"nodes": [node("n", "nvidia.com/gpu")], "schedulers": {"hami-scheduler": RUNS}}, {"target": "nvidia"}),
        (
            {"nodes": [node("n", "nvidia.com/gpu")], "schedulers": {"hami-scheduler": STOPPED}},
            {"target": "whole", "owners": {"nvidia.com/gpu": "whole"}},
        ),
        (
            {"nodes": [node("a", "nvidia.com/gpu"), node("b", "nvidia.com/mig-1g.10gb")]},
            {"target": "whole", "owners": {"nvidia.com/gpu": "whole"}, "served": ["mig"]},
        ),
        ({"nodes": [node("n", "nvidia.com/mig-3g.40gb")]}, {"served": ["mig"]}),
        (
            {
                "nodes": [
                    node("a", "nvidia.com/mig-1g.10gb"),
                    node("b", "nvidia.com/mig-1g.10gb"),
                    node("c", "nvidia.com/gpu"),
                ],
                "schedulers": {"hami-scheduler": RUNS},
            },
            {"target": "nvidia", "served": ["mig"]},
        ),
        (
            {"nodes": [node("a", "volcano.sh/vgpu-number"), node("b", "hygon.com/dcunum")]},
            {"target": "hygon", "served": ["volcano"]},
        ),
        (
            {
                "nodes": [node("a", "nvidia.com/gpu"), node("b", "nvidia.com/gpu"), node("c", "hygon.com/dcunum")],
                "schedulers": {"hami-scheduler": RUNS},
            },
            {"target": "nvidia"},
        ),
        ({"nodes": [node("n", "volcano.sh/vgpu-number")]}, {"target": "volcano"}),
        (
            {
                "nodes": [
                    node("a", "volcano.sh/vgpu-number"),
                    node("b", "volcano.sh/vgpu-number"),
                    node("c", "nvidia.com/gpu"),
                ],
                "schedulers": {"hami-scheduler": RUNS, "volcano": RUNS},
            },
            {"target": "volcano", "served": ["nvidia"]},
        ),
        ({"nodes": [node("n", "cpu")]}, {}),
        (
            {"nodes": [SIZED, node("m", "nvidia.com/gpu", labels={MEMORY: "24576", COUNT: "16"})]},
            {
                "target": "whole",
                "owners": {"nvidia.com/gpu": "whole"},
                "largestDevice": {"nvidia": "81559Mi"},
                "largestNode": 16,
            },
        ),
        # Of a node without labels nobody knows what it has.
        (
            {"nodes": [SIZED, node("m", "huawei.com/Ascend910B")]},
            {"target": "ascend", "largestDevice": {"nvidia": "81559Mi"}},
        ),
        ({"nodes": [SIZED, node("m", "nvidia.com/gpu")]}, {"target": "whole", "owners": {"nvidia.com/gpu": "whole"}}),
        (
            {"nodes": [node("n", "nvidia.com/gpu", labels={MEMORY: "80GB", COUNT: "9" * 10})]},
            {"target": "whole", "owners": {"nvidia.com/gpu": "whole"}},
        ),
    ],
)
def test_systems(facts: dict[str, Any], settings: dict[str, Any]) -> None:
    """The system of most nodes is the target, others and partitions are served; without one, devices are whole.

    Other hardware of the target's system needs no name.
    """
    assert values_for(**facts)["settings"] == {"bareDevices": "whole", **settings}


@pytest.mark.parametrize(
    "plugins, mode",
    [
        ([daemon_set("p", PLUGINS, "/usr/local/vgpu")], "plugin"),
        ([daemon_set("p", PLUGINS, component="hami-device-plugin")], "plugin"),
        ([daemon_set("p", PLUGINS)], "inject"),
        ([], "plugin"),
        (Missing("forbidden"), "plugin"),
    ],
)
def test_shim(plugins: Any, mode: str) -> None:
    """A library is injected only where a device plugin was seen that mounts none."""
    nodes = [node("n", "nvidia.com/gpu")]
    values = values_for(nodes=nodes, schedulers={"hami-scheduler": RUNS}, daemon_sets=plugins)
    assert values["shim"] == {"mode": mode}


def test_reasons_are_comments() -> None:
    """Each value says what it follows from."""
    text = values_text(proposed(before(nodes=[node("n", "volcano.sh/vgpu-number")], schedulers={"volcano": RUNS})))
    assert "  # volcano.sh/vgpu-number on 1 node, volcano is running\n  target: volcano\n" in text
    assert "  # whole devices, as pods that request only a count mean them; `share` cuts each" in text


def test_the_chart_takes_them() -> None:
    """The proposed values are valid values of the chart."""
    nodes = [node("a", "volcano.sh/vgpu-number"), node("b", "nvidia.com/gpu")]
    systems = values_for(nodes=nodes, schedulers={"hami-scheduler": RUNS})
    for values in (systems, values_for(nodes=[node("n", "nvidia.com/gpu")])):
        jsonschema.validate(values, SCHEMA)


def test_nodes_that_cannot_be_read() -> None:
    """Nothing is proposed by guess."""
    with pytest.raises(UnansweredError):
        proposed(before(nodes=Missing("forbidden")))
