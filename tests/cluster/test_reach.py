"""Which pods are let through, all that we would do or say something about (ordinary ones: test_sent.py), or left to others."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cluster.gpu_pods import Pod, keys_of, many_vendors, requesting_pods, resources_of
from tests.decided import view
from tests.decisions.test_cases import CASES, decided_in, policy_in
from tests.mapping.vendors import ACME, policy
from tests.yaml_text import load_yaml
from webhook.cluster.registration.names import MatchedNames, carries_name, matched_names_of, names_set, sent_names
from webhook.cluster.registration.stored import Stored, known_to_peers, read_stored
from webhook.cluster.registration.wanted import Site, registration, wanted_by
from webhook.mapping.load import load_policy
from webhook.reasons import Reason

MANY = many_vendors()
REACH = matched_names_of(MANY)


OFFLINE_ONLY = {
    "misspelled-domain",
    "own-key-without-a-request",
    "older-names-of-nobody",
    "unread-resource-of-a-known-system",
    "unread-resource-of-another-domain",
}
"""Cases of names that nothing reads, in domains that are nobody's or shared with ordinary pods: told by commands only.

To let their pods through, match conditions would need room that the API server bounds, and hold back ordinary pods in an
outage. What is not read is not sent: nothing would be changed, and a misspelled domain alone is a denial.
"""


def let_through(let: MatchedNames, pod: Pod) -> bool:
    """Whether a pod is let through by its names."""
    return let.has_pod(resources_of(pod), keys_of(pod))


def test_every_key_in_every_spelling_comes() -> None:
    """Whatever a vendor in force reads, wherever it reads it, lets a pod through."""
    pods = list(requesting_pods(MANY))
    assert len(pods) > 300
    assert [each.title for each in pods if not let_through(REACH, each.pod)] == []


@pytest.mark.parametrize("folder", sorted(CASES.iterdir()), ids=lambda folder: folder.name)
def test_whatever_is_decided_comes(folder: Path) -> None:
    """A pod that is changed, denied or warned about comes through, the policies and pods of all golden cases taken."""
    pod = load_yaml((folder / "pod.yaml").read_text())
    decision = decided_in(folder, pod)
    if folder.name in OFFLINE_ONLY:
        assert not let_through(REACH, pod)
        assert decision.patch == ()
        return
    if decision.patch or decision.denial is not None or decision.warnings or decision.reason is Reason.ALREADY_RIGHT:
        let = sent_names(policy_in(folder))
        assert let is None or carries_name(view(pod), let)


def test_misspelled_keys_come() -> None:
    """Under the domains of keys, or where a mapping says."""
    for name in ("nvidia.com/gpumemm", "koordinator.sh/gpu-memmory", "tke.cloud.tencent.com/qgpu-kore"):
        assert REACH.has_resource(name)
        assert not REACH.has_key(name)


def test_request_keys_come_in_any_place() -> None:
    """A resource name as an annotation, an annotation as a resource: it has no effect there, and somebody has to say so."""
    assert REACH.has_key("nvidia.com/gpumem")
    assert REACH.has_key("koordinator.sh/gpu")
    assert REACH.has_resource("tensor-fusion.ai/vram-limit")


def test_keys_of_a_vendor_on_standby_come() -> None:
    """They are refused with the setting that would put the vendor in force."""
    text = "extends: nvidia\nvendor: spare\ninactive: true\nkeys:\n" + "".join(
        f"  {name}: {{resource: spare.example/{name}}}\n"
        for name in ("gpu", "gpumem", "gpumem-percentage", "gpucores", "priority")
    )
    let = matched_names_of(policy(text))
    assert let.has_resource("spare.example/gpumem")
    assert not let.has_key("spare.example/gpumem")


def test_marks_of_schedulers_come_unless_they_are_a_whole_domain() -> None:
    """A domain of annotations would hold back pods that need nothing; beside a key its marks come anyway."""
    assert REACH.has_key("hami.io/vgpu-node")
    assert REACH.has_key("hami.io/mlu-devices-to-allocate")
    assert REACH.has_key("ALIYUN_COM_GPU_MEM_IDX")
    assert not REACH.has_key("gpushare.alibabacloud.com/assigned")
    assert not REACH.has_key("hami.io/vgpu-nodes")
    assert not any(key.endswith("/*") for key in REACH.keys)


def test_match_of_a_mapping() -> None:
    """`match` stands in place of the domains and of the marks; keys come whatever it says."""
    text = (
        ACME
        + "owned: [acme.com/mark]\nmatch: {resources: [acme.com/g], keys: [acme.com/own-*, acme.com/x, 'other.com/*']}\n"
    )
    let = matched_names_of(policy(text))
    assert [let.has_resource(name) for name in ("acme.com/gpus", "acme.com/mem", "acme.com/mems")] == [
        True,
        True,
        False,
    ]
    keys = ("acme.com/own-1", "acme.com/x", "acme.com/mem", "acme.com/mark", "other.com/y")
    assert [let.has_key(key) for key in keys] == [True, True, True, False, False]


def test_a_variable_domain_is_a_pattern() -> None:
    """Where the domain varies there is no prefix."""
    text = ACME.replace("acme.com/mem", "'{zone}.acme.com/mem'") + "variables: {zone: {values: '[a-z]+'}}\n"
    let = matched_names_of(policy(text))
    assert "*.acme.com/mem" in let.names
    assert let.has_resource("north.acme.com/mem")
    assert not let.has_resource("north.acme.com/memo")


def test_names_that_no_pod_can_have_are_left_out() -> None:
    """They could only break the expression that they would stand in."""
    assert names_set(prefixes=["a'b/", "", "a*/"], names=["a b", "/"], keys=["*", "x'", "a\n"]) == MatchedNames()


def test_nothing_stands_twice() -> None:
    """A name under a prefix and a prefix under a domain are left out, so that equal sets are equal."""
    let = names_set(
        prefixes=["a.com/", "a.com/gpu", "b.com/g", "b.com/gpu-"], names=["a.com/x", "b.com/gpu", "b.com/x"]
    )
    assert let == MatchedNames(frozenset({"a.com/", "b.com/g"}), frozenset({"b.com/x"}))


def test_union_and_what_lacks() -> None:
    """A union lets through what either does; what one lacks is reported as people write it."""
    small = names_set(prefixes=["a.com/gpu"], names=["b.com/x"], keys=["k"])
    two = names_set(prefixes=["a.com/", "b.com/g"], keys=["k", "m-*"])
    both = small | two
    assert not both.lacks(small)
    assert not both.lacks(two)
    assert small.lacks(two)
    assert small.lacks(two) == ["a.com/", "b.com/g*", "m-*"]
    assert two.lacks(small) == ["b.com/x"]
    assert both == two | small
    assert small.lacks(small) == []


def test_what_of_names_is_within_others() -> None:
    """Those of which the others let every pod through; a pattern is within another one that matches its text."""
    small = names_set(prefixes=["a.com/gpu"], names=["b.com/x", "c.com/y", "d.com/x-*"], keys=["k", "l", "m-1", "n-*"])
    large = names_set(prefixes=["a.com/", "b.com/"], names=["d.com/*"], keys=["k", "m-*", "n-*"])
    within = names_set(prefixes=["a.com/gpu"], names=["b.com/x", "d.com/x-*"], keys=["k", "m-1", "n-*"])
    assert small.within(large) == within
    assert large.within(small) == names_set(keys=["k", "n-*"])


def test_the_domains_are_those_of_the_keys() -> None:
    """Nothing else is a domain: not that of a mark, a hint or a label, nor one that is shared with CPU pods."""
    let = matched_names_of(load_policy())
    vendors = load_policy().vendors.values()
    prefixes = {prefix for vendor in vendors for prefix in vendor.match.resources or ()}
    assert let.prefixes - prefixes == {
        f"{template.text.partition('/')[0]}/"
        for vendor in vendors
        if not vendor.match.resources
        for name in vendor.keys.values()
        if name.place == "resource"
        for template in name.spellings
    }
    assert prefixes < let.prefixes


BEHIND = load_policy()
AHEAD = policy(
    ACME + "known: [acme.com/other]\n", "extends: nvidia\nkeys: {more: {resource: nvidia.com/gpumore, is: other}}\n"
)
SITE = Site("https://gpu.example/mutate")
OBSERVED = read_stored(registration(wanted_by(AHEAD), SITE, version="0.1.0"))


def elsewhere(*resources: str, keys: tuple[str, ...] = (), observed: Stored | None = OBSERVED) -> bool:
    """Whether a replica behind has to leave such a pod to another one, with keys as labels and as annotations alike."""
    spec = {"containers": [{"name": "main", "resources": {"limits": dict.fromkeys(resources, "1")}}]}
    named = ({place: dict.fromkeys(keys, "1")} for place in ("labels", "annotations"))
    pods = [view({"metadata": metadata, "spec": spec}) for metadata in named]
    (found,) = {known_to_peers(pod, BEHIND, matched_names_of(BEHIND), observed) for pod in pods}
    return found


@pytest.mark.parametrize(
    "resources, keys, expected",
    [
        (("cpu", "acme.com/gpu"), (), True),
        ((), ("acme.com/gpu",), True),
        (("nvidia.com/gpumore",), (), True),
        (("nvidia.com/gpu", "nvidia.com/gpumem"), (), False),
        (("nvidia.com/gpu", "nvidia.com/pgpu"), (), False),
        (("cpu", "rdma/hca"), ("team.example/a",), False),
        (("nvidia.com/gpu", "acme.com/mem"), (), True),
        ((), ("nvidia.com/gpu",), False),
    ],
)
def test_unknown_keys_are_left_to_others(resources: tuple[str, ...], keys: tuple[str, ...], *, expected: bool) -> None:
    """Names that are let through and that mean nothing here; not those that mean something, nor anybody's."""
    assert elsewhere(*resources, keys=keys) is expected


def test_not_under_the_own_digest() -> None:
    """A webhook configuration with the digest of this replica is not that of a newer replica."""
    assert not elsewhere("acme.com/gpu", observed=replace(OBSERVED, digest=BEHIND.digest))


def test_not_without_a_digest() -> None:
    """Before the first read, and with a static webhook configuration, no other replica is assumed."""
    assert not elsewhere("acme.com/gpu", observed=None)
    assert not elsewhere("acme.com/gpu", observed=Stored())


def test_where_the_registration_cannot_be_read() -> None:
    """Another version wrote it: it may know the key of a pod that our own match conditions would not send."""
    observed = Stored(None, "9", "f" * 12)
    assert elsewhere("acme.com/gpu", observed=observed)
    assert not elsewhere("nvidia.com/gpu", "acme.com/gpu", observed=observed)
