"""What Helm would render and no cluster could use is refused with a sentence: names, networks, options."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import click
import pytest

from tests.controlplane.client import Object
from tests.depth import one_in
from webhook.cli import main

from .charts import Chart, one
from .helm import HelmError

pytestmark = pytest.mark.controlplane

NO_NAME = "which cannot be the name of a Service: write at most 63 lower-case letters, digits and hyphens"
NO_NETWORK = "is not a network: write it in CIDR notation"
UNLIMITED = {"--reuse-port", "--certificate-days", "--inject-ca-from", "--connections"}
"""Options of the server that the chart says nothing of, and that a pod may have."""


def refusal(helm: Chart, values: Object, **release: str) -> str:
    """What Helm says of values that are refused."""
    with pytest.raises(HelmError) as refused:
        helm.render(values, **release)
    return str(refused.value)


@pytest.mark.parametrize("value", ["nameOverride", "fullnameOverride"])
@pytest.mark.parametrize("name", ["Bad_Name!", "a.b", "9a", "-a", "a-", "ä", "a b", "a" * 64, "a\n"])
def test_names_are_those_of_services(helm: Chart, value: str, name: str) -> None:
    """Of whatever object: the narrowest rule holds for all."""
    assert NO_NAME in refusal(helm, {value: name})


@pytest.mark.parametrize("release", ["rel.1", "1st"])
def test_release_names_are_part_of_them(helm: Chart, release: str) -> None:
    """A release name that no Service can have is refused with the option that sets the whole name."""
    message = refusal(helm, {}, release=release)
    assert (
        f"the release name {release} makes the name {release}-vgpu-webhook, which cannot be the name of a Service"
        in message
    )
    assert "set fullnameOverride" in message
    objects = helm.render({"fullnameOverride": "gpu-shares"}, release=release)
    assert one(objects, "Service")["metadata"]["name"] == "gpu-shares"


@pytest.mark.parametrize("vendor", ["my gpu", "Acme", "a/b", "acme-", "a" * 64])
@pytest.mark.parametrize("mode", ["inject", "plugin"])
def test_mappings_are_named_like_vendors(helm: Chart, vendor: str, mode: str) -> None:
    """The name becomes a part of a ConfigMap's: those that are listed for the plugin, too."""
    mappings = {} if mode == "plugin" else {"mappings": {vendor: {"extends": "nvidia"}}}
    values = {**mappings, "shim": {"mode": mode, "vendors": [vendor]}}
    assert re.search(
        r"mappings: .* is not a name of a vendor: write at most 63 lower-case letters", refusal(helm, values)
    )


NETWORKS = {
    True: ["192.0.2.0/28", "0.0.0.0/0", "255.255.255.255/32", "::/0", "2001:db8::/32", "FE80::1/128", "1:2:3:4:5:6:7:8/64"],
    False: ["10.0.0.0/99", "10.0.0.0/33", "10.0.0/8", "10.0.0.256/32", "10.0.0.01/32", "10.0.0.0", "10.0.0.0/08", "", "a/8",
            "::/129", "1::2::3/64", "1:2:3:4:5:6:7/64", "1:2:3:4:5:6:7:8:9/64", "1:2:3:4::5:6:7:8/64", "12345::/16", ":/0"],
}  # fmt: skip


def policies(network: Any) -> dict[str, Object]:
    """Every place where a network can stand."""
    block = {"ipBlock": {"cidr": network}}
    hole = {"ipBlock": {"cidr": "0.0.0.0/0", "except": [network]}}
    return {
        "apiServerCidrs": {"apiServerCidrs": ["192.0.2.0/24", network]},
        "extraEgress": {"extraEgress": [{"to": [{"podSelector": {}}, block]}]},
        "extraEgress, an exception": {"extraEgress": [{"to": [hole]}]},
        "metricsFrom": {"metricsFrom": [{"podSelector": {}}, block]},
        "metricsFrom, an exception": {"metricsFrom": [hole]},
    }


@pytest.mark.parametrize("at", one_in(16, itertools.product(NETWORKS[False], policies(""))), ids=" ".join)
def test_what_is_no_network_is_refused(helm: Chart, at: tuple[str, str]) -> None:
    """The message names the value and its place."""
    network, place = at
    message = refusal(helm, {"networkPolicy": policies(network)[place]})
    assert f'networkPolicy.{place.partition(",")[0]}: "{network}" {NO_NETWORK}' in message


@pytest.mark.parametrize("at", one_in(8, itertools.product(NETWORKS[True], policies(""))), ids=" ".join)
def test_networks_are_taken(helm: Chart, at: tuple[str, str]) -> None:
    """Of both kinds."""
    network, place = at
    assert network in str(one(helm.render({"networkPolicy": policies(network)[place]}), "NetworkPolicy"))


COMMAND = main.get_command(click.Context(main), "serve")
assert COMMAND is not None
SERVE = [option.opts[0] for option in COMMAND.params if isinstance(option, click.Option)]


WRITTEN: dict[str, Callable[[str], Object]] = {
    "in one": lambda name: {"extraArgs": ["--reuse-port", f"{name}=x"]},
    "in two": lambda name: {"extraArgs": [name, "x"]},
    "variable": lambda name: {
        "extraEnv": [{"name": f"VGPU_WEBHOOK{name[1:].replace('-', '_').upper()}", "value": "x"}]
    },
}
"""The ways to write an option."""


@pytest.mark.parametrize("option", one_in(8, itertools.product(SERVE, WRITTEN)), ids=" ".join)
def test_options_are_reported_once(helm: Chart, option: tuple[str, str]) -> None:
    """What the chart has a value for, or gives a meaning, is no argument and no variable besides; all else is."""
    name, way = option
    values = WRITTEN[way](name)
    if name in UNLIMITED:
        helm.render(values)
    else:
        assert "remove it" in refusal(helm, values)


@pytest.mark.parametrize("argument", ["-h", "--help"])
def test_pods_are_no_help(helm: Chart, argument: str) -> None:
    """They would end at once, again and again."""
    assert "cannot have this option" in refusal(helm, {"extraArgs": [argument]})


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_metrics_are_not_published(helm: Chart, kind: str) -> None:
    """Whoever gets in from outside gets the port for reviews alone; inside the cluster there is another Service."""
    objects = helm.render({"service": {"type": kind}, "serviceMonitor": {"enabled": True}})
    services = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Service"}
    ports = {name: [(port["name"], port["port"]) for port in each["spec"]["ports"]] for name, each in services.items()}
    assert ports == {"vgpu-webhook": [("https", 443)], "vgpu-webhook-metrics": [("metrics", 8080)]}
    assert {name: each["spec"]["type"] for name, each in services.items()} == {
        "vgpu-webhook": kind,
        "vgpu-webhook-metrics": "ClusterIP",
    }
    monitor = one(objects, "ServiceMonitor")["spec"]
    assert monitor["endpoints"][0]["port"] == "metrics"
    assert monitor["selector"]["matchLabels"].items() <= services["vgpu-webhook-metrics"]["metadata"]["labels"].items()
