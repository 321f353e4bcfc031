"""`check --pre`: the chart's values that fit a cluster, and that the chart takes them."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from deploy.generate.schema import values_schema
from tests.doctor.scene import INSTALLER, PLUGINS, REFUSED, but, cluster, daemon_set, lease, node, queue
from tests.naming import naming
from tests.yaml_text import load_yaml
from webhook.cluster.client import Object
from webhook.doctor import UnansweredError
from webhook.doctor.checks import proposed
from webhook.mapping.load import load_policy

SCHEMA = json.loads(values_schema())
LABELS = ("nvidia.com/gpu.memory", "nvidia.com/gpu.count")
HAMI = queue("hami-scheduler", 5)
BUILTIN = load_policy()


async def text_for(**facts: Any) -> str:
    """The proposed values of a cluster without the webhook."""
    before = but(**{"waiting": [], "daemon_sets": [], "nodes": [], "outcome": (), **facts})
    async with cluster(before, BUILTIN) as (seen, _):
        return await proposed(seen)


async def values_for(**facts: Any) -> Any:
    """The same, read back."""
    return yaml.safe_load(await text_for(**facts))


def nodes_of(*given: str | list[str]) -> list[Object]:
    """Nodes with a resource each, and labels of its memory and count."""
    each = enumerate([entry] if isinstance(entry, str) else entry for entry in given)
    return [node(f"n{at}", name, labels=dict(zip(LABELS, said, strict=False)) or None) for at, (name, *said) in each]


async def test_systems() -> None:
    """The settings are those of the table."""
    for rule in load_yaml(Path(__file__).with_name("proposals.yaml").read_text()):
        for told in rule["clusters"]:
            with naming(f"{rule['rule']}: {told}"):
                pods = [pod for name, counts in told.get("pods", {}).items() for pod in queue(name, *counts)]
                leases = {"leases": [lease(*each) for each in told["leases"].items()]} if "leases" in told else {}
                values = await values_for(nodes=nodes_of(*told["nodes"]), waiting=pods, **leases)
                assert values["settings"] == {"bareDevices": "whole", **told["settings"]}


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
