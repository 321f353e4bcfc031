"""Other names of vendors: systems' usual names, in settings, annotations and options."""

import json
from collections import Counter

import pytest

from webhook.admission import Context, Namespace, decide
from webhook.mapping.document.problem import MappingError
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy, load_policy
from webhook.pod import decode_pod

BUILT_IN = load_policy()

OPTED_IN = {"vgpu-webhook.io/inject": "enabled"}


def test_names_are_unambiguous() -> None:
    """No built-in alias is another vendor's name or alias."""
    vendors = BUILT_IN.vendors
    names = Counter([name for vendor in vendors.values() for name in (vendor.name, *vendor.document.aliases)])
    assert {name for name, times in names.items() if times > 1} == set()
    assert {"hami", "volcano-vgpu", "gpu-manager", "ack"} <= names.keys()


def test_settings_take_aliases() -> None:
    """They are the vendors' own names afterwards, wherever the settings name one."""
    text = "{target: hami, served: [volcano-vgpu], owners: {nvidia.com/gpu: plain}}"
    settings = build_policy([], parse(text, "settings")[0]).settings
    assert (settings.target, settings.served, settings.owners) == ("nvidia", ["volcano"], {"nvidia.com/gpu": "whole"})


def test_unknown_names_are_reported_with_what_is_near() -> None:
    """An alias is among what is near."""
    with pytest.raises(MappingError, match="no vendor is called 'hammi'"):
        build_policy([], parse("{target: hammi}", "settings")[0])


def test_own_name_precedes_an_alias() -> None:
    """A document cannot take a vendor's name away from it."""
    (document,) = parse("{extends: kai, aliases: [nvidia]}", "mine")
    policy = build_policy([document])
    assert policy.vendor_called("nvidia") is policy.vendors["nvidia"]


@pytest.mark.parametrize("place", ["pod", "namespace"])
def test_annotations_take_aliases(place: str) -> None:
    """As the target of one pod, or of a namespace."""
    note = {"vgpu-webhook.io/target": "hami"}
    containers = [
        {"name": "c", "resources": {"limits": {"tencent.com/vcuda-core": 50, "tencent.com/vcuda-memory": 16}}}
    ]
    pod = {"metadata": {"name": "p", "annotations": note if place == "pod" else {}}, "spec": {"containers": containers}}
    namespace = Namespace("team", OPTED_IN, note if place == "namespace" else {})
    decision = decide(decode_pod(json.dumps(pod).encode()), Context(namespace), BUILT_IN)
    assert decision.status["containers"]["c"]["target"] == "nvidia"
