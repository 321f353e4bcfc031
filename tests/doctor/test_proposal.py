"""`check --pre`: the chart's values that fit a cluster, and that the chart takes them."""

import json
from typing import Any

import jsonschema
import pytest
import yaml

from deploy.generate.schema import values_schema
from tests.doctor.scene import INSTALLER, PLUGINS, REFUSED, but, cluster, daemon_set, lease, node, queue
from webhook.doctor.proposal import proposed
from webhook.doctor.result import UnansweredError
from webhook.mapping.load import load_policy

SCHEMA = json.loads(values_schema())
MEMORY, COUNT = "nvidia.com/gpu.memory", "nvidia.com/gpu.count"
SIZED = node("n", "nvidia.com/gpu", labels={MEMORY: "81559", COUNT: "8"})
HAMI = queue("hami-scheduler", 5)
VOLCANO = queue("volcano", 1)
BUILTIN = load_policy()


async def text_for(**facts: Any) -> str:
    """The proposed values of a cluster without the webhook."""
    before = but(**{"waiting": [], "daemon_sets": [], "nodes": [], "outcome": (), **facts})
    async with cluster(before, BUILTIN) as (seen, _):
        return await proposed(seen)


async def values_for(**facts: Any) -> Any:
    """The same, read back."""
    return yaml.safe_load(await text_for(**facts))


@pytest.mark.parametrize(
    "facts, settings",
    [
        ({"nodes": [node("n", "nvidia.com/gpu")], "waiting": HAMI}, {"target": "nvidia"}),
        (
            {"nodes": [node("n", "nvidia.com/gpu")], "waiting": queue("hami-scheduler", 0, 2)},
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
                "waiting": HAMI,
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
                "waiting": HAMI,
            },
            {"target": "nvidia"},
        ),
        ({"nodes": [node("n", "volcano.sh/vgpu-number")]}, {"target": "volcano"}),
        # The same system and hardware, with other keys.
        (
            {"nodes": [node("a", "volcano.sh/vgpu-number"), node("b", "volcano.sh/gpu-memory")], "waiting": VOLCANO},
            {"target": "volcano", "served": ["volcano-legacy"]},
        ),
        # Names of plain device plugins, too, whose sharing system does not run.
        ({"nodes": [node("n", "amd.com/gpu")]}, {}),
        (
            {
                "nodes": [
                    node("a", "volcano.sh/vgpu-number"),
                    node("b", "volcano.sh/vgpu-number"),
                    node("c", "nvidia.com/gpu"),
                ],
                "waiting": HAMI,
                "leases": [lease("volcano", 9)],
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
async def test_systems(facts: dict[str, Any], settings: dict[str, Any]) -> None:
    """The system of most nodes is the target, others and partitions are served; without one, devices are whole.

    Other hardware of the target's system needs no name.
    """
    assert (await values_for(**facts))["settings"] == {"bareDevices": "whole", **settings}


@pytest.mark.parametrize(
    "plugins, mode",
    [
        ([daemon_set("p", PLUGINS, "/usr/local/vgpu")], "plugin"),
        ([daemon_set("p", PLUGINS, component="hami-device-plugin")], "plugin"),
        ([daemon_set("p", PLUGINS)], "inject"),
        ([daemon_set("p", PLUGINS), INSTALLER], "inject"),
        ([], "plugin"),
        (REFUSED, "plugin"),
    ],
)
async def test_shim(plugins: Any, mode: str) -> None:
    """A library is injected only where a device plugin was seen that mounts none."""
    nodes = [node("n", "nvidia.com/gpu")]
    values = await values_for(nodes=nodes, waiting=HAMI, daemon_sets=plugins)
    assert values["shim"] == {"mode": mode}


async def test_reasons_are_comments() -> None:
    """Each value says what it follows from."""
    text = await text_for(nodes=[node("n", "volcano.sh/vgpu-number")], waiting=queue("volcano", 1))
    assert "  # volcano.sh/vgpu-number on 1 node, volcano is running\n  target: volcano\n" in text
    assert "  # whole devices, as pods that request only a count mean them; `share` cuts each" in text


async def test_the_chart_takes_them() -> None:
    """The proposed values are valid values of the chart."""
    nodes = [node("a", "volcano.sh/vgpu-number"), node("b", "nvidia.com/gpu")]
    systems = await values_for(nodes=nodes, waiting=HAMI)
    for values in (systems, await values_for(nodes=[node("n", "nvidia.com/gpu")])):
        jsonschema.validate(values, SCHEMA)


async def test_nodes_that_cannot_be_read() -> None:
    """Nothing is proposed by guess."""
    with pytest.raises(UnansweredError):
        await text_for(nodes=REFUSED)
