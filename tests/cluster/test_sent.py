"""Which pods the cluster sends: the predicate says what the conditions say, in their own language."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.cel import evaluated
from tests.cluster.gpu_pods import Pod, many_vendors, ordinary_pods, pod, requesting_pods
from webhook.cluster.registration.names import (
    MAX_CHARACTERS,
    MAX_KEYS,
    MAX_NAMES,
    MatchedNames,
    conditions,
    matched_names_of,
    names_set,
    sends,
)
from webhook.pod import decode_pod

REACH = matched_names_of(many_vendors())
FEW = names_set(
    prefixes=["a.example/", "b.example/gpu"],
    names=["c.example/x", "*.d.example/y-*"],
    keys=["a.example/mark", "long-key", "e.example/k-*", "*.f.example/z"],
)
NAMES = [
    *("a.example/any", "a.example", "aa.example/x", "b.example/gpu-1", "b.example/cpu", "c.example/x", "c.example/xx"),
    *(
        "n.d.example/y-1",
        "d.example/y-1",
        "n.d.example/y",
        "n.d.example/y-1/z",
        "a.example/mark",
        "long-key",
        "e.example/k-",
    ),
    *(
        "e.example/k-1",
        "e.example/k",
        "x.f.example/z",
        "f.example/z",
        "x.f.example/zz",
        "xe.example/k-1",
        "cpu",
        "memory",
    ),
]
names = st.one_of(st.sampled_from(NAMES), st.from_regex(r"[a-f.]{1,4}\.?(example)?/[a-z-]{1,4}", fullmatch=True))
texts = st.none() | st.dictionaries(names | st.just("kubernetes.io/config.mirror"), st.just("1"), max_size=3)
sides = st.none() | st.dictionaries(names, st.just("1"), max_size=2)
resources = st.none() | st.fixed_dictionaries({}, optional={"limits": sides, "requests": sides})
containers = st.lists(st.fixed_dictionaries({"name": st.just("c")}, optional={"resources": resources}), max_size=2)
systems = st.none() | st.fixed_dictionaries({"name": st.sampled_from(["linux", "windows", ""])})
made = st.none() | st.sampled_from(
    [f"vgpu-{'0f' * 10}", f"vgpu-{'0f' * 10}0", "vgpu-mine", "p-vgpu-c-x7k2p", "p-gpu-x7k2p"]
)
sources = {"resourceClaimTemplateName": made, "resourceClaimName": made}
claims = st.lists(st.fixed_dictionaries({"name": st.just("gpu")}, optional=sources), max_size=2)
pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({}, optional={"labels": texts, "annotations": texts}),
        "spec": st.fixed_dictionaries(
            {"containers": containers},
            optional={"initContainers": st.none() | containers, "os": systems, "resourceClaims": st.none() | claims},
        ),
    }
)


def by_conditions(manifest: Any, let_through: MatchedNames) -> bool:
    """Whether the API server sends a pod: all conditions hold."""
    return all(evaluated(condition["expression"], manifest) for condition in conditions(let_through))


def by_predicate(manifest: Any, let_through: MatchedNames) -> bool:
    """Whether the program says that it does."""
    return sends(decode_pod(json.dumps(manifest).encode()), let_through)


@pytest.mark.parametrize("name", NAMES)
def test_each_name(name: str) -> None:
    """In each place: a pod with this name alone."""
    one = {name: "1"}
    for manifest in (
        pod(labels=one),
        pod(annotations=one),
        pod(limits=one),
        pod(requests=one),
        pod(init={"limits": one}),
    ):
        assert by_predicate(manifest, FEW) is by_conditions(manifest, FEW)


@given(pods)
def test_the_predicate_is_the_conditions(manifest: Pod) -> None:
    """For any pod, whatever it lacks."""
    assert by_predicate(manifest, FEW) is by_conditions(manifest, FEW)


@given(pods, st.lists(names, max_size=3), st.lists(names, max_size=3), st.lists(names, max_size=3))
def test_for_any_names(manifest: Pod, prefixes: list[str], listed: list[str], keys: list[str]) -> None:
    """For any set of names, too."""
    let_through = names_set(prefixes=prefixes, names=listed, keys=keys)
    assert by_predicate(manifest, let_through) is by_conditions(manifest, let_through)


@pytest.mark.parametrize("manifest", ordinary_pods(), ids=lambda each: each["metadata"]["name"])
def test_ordinary_pods(manifest: Pod) -> None:
    """No ordinary pod is sent, not even one that only other conditions keep back."""
    assert by_predicate(manifest, REACH) is by_conditions(manifest, REACH) is False


@pytest.mark.parametrize("over", [0, 1])
def test_sizes(over: int) -> None:
    """Beyond each bound a pod is sent: to look at more of it could cost more than an API server grants."""
    strange = "strange.example/x"
    keys = {f"{strange}{number}": "" for number in range(MAX_KEYS + over)}
    names = [{f"{strange}{number}": "1" for number in range(side)} for side in (MAX_NAMES // 2, MAX_NAMES // 2 + over)]
    many = pod()
    many["spec"]["initContainers"] = [{"name": f"c{number}"} for number in range(MAX_NAMES + over)]
    for manifest in (
        pod(labels=keys),
        pod(annotations=keys),
        pod(limits=names[0], requests=names[1]),
        pod(init={"limits": names[1], "requests": names[0]}),
        many,
    ):
        assert by_predicate(manifest, FEW) is by_conditions(manifest, FEW) is bool(over)
    longest = {
        f"{number:04}".ljust(128, "z") + "z" * (over and not number): "1" for number in range(MAX_CHARACTERS // 128)
    }
    for manifest in (pod(labels=longest), pod(annotations=longest), pod(limits=longest), pod(requests=longest)):
        assert by_predicate(manifest, FEW) is by_conditions(manifest, FEW) is bool(over)


def test_requesting_pods() -> None:
    """Every pod with a key is sent; a mirror of it, and one for Windows, are not."""
    for each in list(requesting_pods(many_vendors()))[::7]:
        assert by_predicate(each.pod, REACH) is by_conditions(each.pod, REACH) is True, each.title
    mirror = pod(limits={"nvidia.com/gpu": "1"}, annotations={"kubernetes.io/config.mirror": "x"})
    windows = pod(limits={"nvidia.com/gpu": "1"})
    windows["spec"]["os"] = {"name": "windows"}
    for manifest in (mirror, windows):
        assert by_predicate(manifest, REACH) is by_conditions(manifest, REACH) is False
