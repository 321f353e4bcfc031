"""Policies as clusters configure them: settings, and a few lines over built-in mappings. And namespaces."""

import json
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.unprobed import unprobed_policy
from webhook.admission import Context, Namespace
from webhook.mapping.document.problem import MappingError
from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.model.policy import Policy

SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "target": st.sampled_from(["nvidia", "aliyun", "vcuda", "iluvatar"]),
        "owners": st.just({"aliyun.com/gpu-mem": "gpushare"}),
        "nodeName": st.just("affinity"),
        "cards": st.just({"A100": "40Gi", "T4": "15109Mi"}),
        "podSecurityDefault": st.sampled_from(["baseline", "privileged"]),
    },
)
CHANGES: dict[str, list[dict[str, Any]]] = {
    "nvidia": [
        {"defaults": {"devices": 2, "memory": "all", "cores": 30}},
        {"defaults": {"devices": 0, "memory": 0}},
        {"defaults": {"memory": "5001Ki", "cores": 33}},
        {"shim": {"mode": "plugin"}, "place": {"conflict": "override"}},
        {"shim": {"unmet": "deny"}, "privileged": "allow"},
        {"guard": [{"env": ["CUDA_DEVICE_*_LIMIT*", "CUDA_REDIRECT"], "unless": [], "action": "strip"}]},
        {"translateTo": "aliyun", "place": {"conflict": "deny"}},
        {"keys": {"gpu": {"resource": ["nvidia.com/gpu", "example.com/vgpu"]}}},
    ],
    "iluvatar": [
        {"defaults": {"devices": 1, "memory": "5000Mi", "cores": 7}},
        {"defaults": {"devices": 2}, "translateTo": "nvidia"},
    ],
    "aliyun": [{"defaults": {"cores": 33}}, {"translateTo": "nvidia"}, {"drop": ["cores"]}],
    "gpushare": [{"drop": ["cores"]}, {"keys": {"gpu-mem": {"unit": "128Mi"}}}],
    "vcuda": [{"defaults": {"memory": "4Gi"}}, {"defaults": {"memory": "1Mi", "cores": 10}}, {"translateTo": "nvidia"}],
}


class Configured:
    """A policy, shown as the documents that it was made of."""

    def __init__(self, settings: str, changes: tuple[str, ...], policy: Policy) -> None:
        self.policy = policy
        self._shown = f"settings {settings}, over the built-in mappings: {', '.join(changes) or 'nothing'}"

    def __repr__(self) -> str:
        return f"<{self._shown}>"


@cache
def policy_of(settings: str, changes: tuple[str, ...]) -> Policy | None:
    """The policy of these documents in JSON; None where they contradict each other."""
    documents = [Document("generated", json.loads(change), {}) for change in changes]
    try:
        return unprobed_policy(documents, Document("settings", json.loads(settings), {}))
    except MappingError:
        return None


@st.composite
def policies(draw: st.DrawFn) -> Configured:
    """A policy that can be in force; half of them are the built-in one."""
    settings = "{}"
    changes: tuple[str, ...] = ()
    if draw(st.booleans()):
        settings = json.dumps(draw(SETTINGS))
        names = draw(st.lists(st.sampled_from(sorted(CHANGES)), max_size=2, unique=True))
        changes = tuple(json.dumps({"extends": name, **draw(st.sampled_from(CHANGES[name]))}) for name in names)
    policy = policy_of(settings, changes)
    if policy is None:
        settings, changes = "{}", ()
        policy = policy_of(settings, changes)
    assert policy is not None
    return Configured(settings, changes, policy)


DEFAULTS = {
    "vgpu-webhook.io/default-memory": st.one_of(
        st.sampled_from(["all", "all", "4Gi", "5000Mi", "5001Ki", "0", "4096", "8Ti", "x"]),
        st.integers(1, 100_000).map("{}Mi".format),
    ),
    "vgpu-webhook.io/default-cores": st.one_of(
        st.sampled_from(["100", "30", "33", "0", "30.5", "120"]), st.integers(1, 100).map(str)
    ),
    "vgpu-webhook.io/default-devices": st.one_of(st.integers(1, 8).map(str), st.sampled_from(["1", "2", "0", "4097"])),
}
"""Annotations of a namespace that fill in what is not specified: of every kind, and some that cannot be read."""


def defaults() -> st.SearchStrategy[dict[str, str]]:
    """One or more of them."""
    return st.fixed_dictionaries({}, optional=DEFAULTS).filter(bool)


@st.composite
def contexts(draw: st.DrawFn) -> Context:
    """A namespace that has opted in and enforces, with orders of its own; half of them without any."""
    labels = {"vgpu-webhook.io/inject": "enabled", "vgpu-webhook.io/opt-out": "forbidden"}
    annotations: dict[str, str] = {}
    if draw(st.booleans()):
        annotations = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    **DEFAULTS,
                    "vgpu-webhook.io/target": st.sampled_from(["nvidia", "aliyun", "vcuda", "nobody"]),
                    "vgpu-webhook.io/shim": st.sampled_from(["none", "hostPath", "csi"]),
                },
            )
        )
    level = draw(st.sampled_from(["privileged", "privileged", "baseline", None]))
    if level is not None:
        labels["pod-security.kubernetes.io/enforce"] = level
    return Context(Namespace("team", labels, annotations))
