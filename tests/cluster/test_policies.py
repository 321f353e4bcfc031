"""ConfigMaps → policy: what is in force when documents are good, bad, gone, or at odds with each other."""

from collections.abc import Iterator, Mapping
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.calls import count_calls
from tests.cluster.config_maps import LABELS, WITHOUT_SETTINGS, abouts, mapping, outcome, rejections, settings, vendor
from tests.depth import costly
from webhook.cluster.policy import documents
from webhook.cluster.policy.choose import PolicyOutcome, judge_document
from webhook.cluster.policy.documents import LAST_GOOD_NAME, MAPPING_KEY, SETTINGS_NAME, ConfigMap, DocumentCache
from webhook.mapping import load
from webhook.mapping.document.problem import Problem, nearest_known
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy, builtin, load_policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests import probes

BUILT_IN = load_policy()

NVIDIA = "extends: nvidia\nabout: ours\ndefaults: {memory: 8000Mi}\n"
BAD = {
    "no key": None,
    "nothing": "",
    "yaml": "vendor: [",
    "schema": vendor("acme", kesy="{}"),
    "rule": vendor("acme", drop="[devices]"),
    "two documents": vendor("acme") + "---\n" + vendor("acme2"),
    "probe": vendor("acme", defaults="{cores: 50}"),
    "shim without a limit": vendor("acme", shim="{mode: inject}"),
    "chain": vendor("acme", translateTo="nobody"),
    "a name of the built-in": vendor("acme", domain="aliyun.com").replace("aliyun.com/mem", "aliyun.com/gpu-mem"),
    "a name of another's": vendor("acme", domain="other.example"),
    "another's keys": "extends: vcuda\nvendor: acme\n",
    "extends nothing": "extends: acme\n",
}


@pytest.fixture(scope="module", autouse=True)
def _probed_once() -> Iterator[None]:
    """Probes are what takes time here; what they find depends on nothing but the document."""
    found: dict[tuple[str, bool, int], list[Problem]] = {}

    def probe(vendor: Vendor, largest: int) -> list[Problem]:
        key = (repr(vendor.model_copy(update={"about": None})), vendor.inactive, largest)
        if key not in found:
            found[key] = probes.probe(vendor, largest)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "probe", probe)
        yield


def test_without_config_maps() -> None:
    """The built-in mappings, and whole devices by a count alone; ConfigMaps that are not ours do not count."""
    strangers = [
        ConfigMap("plain", {MAPPING_KEY: vendor("acme")}, {}),
        ConfigMap("off", {MAPPING_KEY: vendor("acme")}, {"vgpu-webhook.io/mapping": "false"}),
        ConfigMap(LAST_GOOD_NAME, {MAPPING_KEY: vendor("acme")}, LABELS),
    ]
    found = outcome(
        *strangers, last_good={"gone": vendor("acme"), SETTINGS_NAME: "bareDevices: share\ntarget: nvidia\n"}
    )
    assert found.policy.digest == WITHOUT_SETTINGS.digest
    assert (found.has_settings, found.policy.settings.bare_devices, found.policy.settings.target) == (
        False,
        "whole",
        None,
    )
    assert (found.verdicts, found.accepted) == ((), {})


def test_the_same_policy_as_offline() -> None:
    """Same documents, same digest, wherever they come from."""
    texts = [vendor("acme"), NVIDIA]
    offline = build_policy([each for text in texts for each in parse(text, "file")], parse("target: acme", "file")[0])
    found = outcome(*(mapping(f"m{number}", text) for number, text in enumerate(texts)), settings("target: acme"))
    assert found.policy.digest == offline.digest
    assert not rejections(found)
    assert found.accepted == {"m0": texts[0], "m1": texts[1], SETTINGS_NAME: "target: acme"}


def test_a_built_in_is_replaced_and_comes_back() -> None:
    """With the ConfigMap its document goes, good or not, remembered or not."""
    config_maps = outcome(mapping("ours", NVIDIA))
    assert abouts(config_maps)["nvidia"] == "ours"
    assert config_maps.policy.vendors["nvidia"].source == "configmap/ours/mapping.yaml"
    gone = outcome(last_good=config_maps.accepted)
    assert gone.policy.digest == WITHOUT_SETTINGS.digest
    assert gone.accepted == {}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_a_bad_document_changes_nothing(text: str | None) -> None:
    """Whatever is wrong: what was in force is in force, of this vendor and of the others; a new replica agrees."""
    others = [mapping("other", vendor("other", about="other"), 2), mapping("ours", NVIDIA, 3), settings("target: acme")]
    before = outcome(mapping("acme", vendor("acme", about="good"), 1), *others)
    assert not rejections(before)
    after = outcome(mapping("acme", text, 1, version=2), *others, last_good=before.accepted)
    assert after.policy.digest == before.policy.digest
    assert after.accepted == before.accepted
    (name, why), *more = rejections(after).items()
    assert (name, more) == ("acme", [])
    assert why.startswith("configmap/acme")
    assert why.endswith("→ its last good version")
    assert after.policy.vendors["acme"].source == "configmap/acme/mapping.yaml (last good)"


def test_problems_have_line_path_and_hint() -> None:
    """The same messages as offline; the lines are those of the document."""
    found = outcome(mapping("acme", vendor("acme", kesy="{}")))
    assert rejections(found) == {
        "acme": "configmap/acme/mapping.yaml:8: kesy: unknown key 'kesy' (did you mean `keys`?) → nothing"
    }
    found = outcome(mapping("ours", "extends: nvidia\nplaec: {}\n"))
    assert rejections(found)["ours"].endswith("→ the built-in mapping of nvidia")


def test_the_older_of_two_wins() -> None:
    """By creation, then by name; when it is gone or of another vendor, the younger one is in force."""
    older, younger = mapping("z", vendor("acme", about="older"), 1), mapping("a", vendor("acme", about="younger"), 2)
    found = outcome(younger, older)
    assert abouts(found)["acme"] == "older"
    assert rejections(found) == {
        "a": "configmap/a/mapping.yaml:1: vendor: the vendor acme is described by configmap/z/mapping.yaml, whose "
        "ConfigMap is older (delete one of the two) → configmap/z/mapping.yaml"
    }
    assert set(found.accepted) == {"z"}
    assert abouts(outcome(younger, last_good=found.accepted))["acme"] == "younger"
    moved = outcome(younger, mapping("z", vendor("zenith", about="moved"), 1), last_good=found.accepted)
    assert (abouts(moved)["acme"], abouts(moved)["zenith"]) == ("younger", "moved")
    same_second = outcome(mapping("z", vendor("acme", about="z"), 1), mapping("a", vendor("acme", about="a"), 1))
    assert abouts(same_second)["acme"] == "a"


def test_a_bad_older_one_does_not_stand_in_the_way() -> None:
    """It has never described the vendor."""
    found = outcome(mapping("z", vendor("acme", kesy="{}"), 1), mapping("a", vendor("acme", about="a"), 2))
    assert abouts(found)["acme"] == "a"
    assert rejections(found)["z"].endswith("→ configmap/a/mapping.yaml")


def test_who_takes_a_name_is_to_blame() -> None:
    """What is in force comes before what is new, even of an older ConfigMap; without that, the older one comes first."""
    first, second = (
        mapping("a", vendor("one", domain="x.example"), 1),
        mapping("b", vendor("two", domain="x.example"), 2),
    )
    assert set(rejections(outcome(first, second))) == {"b"}
    before = outcome(second)
    found = outcome(first, second, last_good=before.accepted)
    assert set(rejections(found)) == {"a"}
    assert "x.example/gpu is owned by more than one vendor: one, two" in rejections(found)["a"]


def test_changes_that_need_each_other() -> None:
    """One gives a name up and another takes it, in either order of age; a setting makes room for a vendor."""
    for first, second in ((1, 2), (2, 1)):
        before = outcome(mapping("a", vendor("one", domain="x.example"), first), mapping("b", vendor("two"), second))
        changed = [
            mapping("a", vendor("one", domain="new.example"), first),
            mapping("b", vendor("two", domain="x.example"), second),
            mapping("c", vendor("three", domain="nvidia.com"), 3),
        ]
        found = outcome(*changed, last_good=before.accepted)
        assert set(rejections(found)) == {"c"}
        assert found.policy.vendors["two"].keys["gpu"].spellings[0].text == "x.example/gpu"
    needed = mapping("c", vendor("three", domain="nvidia.com", inactive="true"), 3)
    found = outcome(needed, settings("owners: {nvidia.com/gpu: three}"))
    assert not rejections(found)
    assert found.policy.vendors["nvidia"].inactive


def test_bad_settings() -> None:
    """They change nothing where there are last good ones."""
    before = outcome(settings("target: aliyun\nneverTouched: [a]\n"))
    for text in (
        "target: [",
        "targt: aliyun\n",
        "target: nobody\nneverTouched: [b]\n",
        "largestDevice: 1Zi\n",
        "a: 1\n---\nb: 2\n",
    ):
        found = outcome(settings(text), last_good=before.accepted)
        assert found.policy.digest == before.policy.digest, text
        assert found.accepted == before.accepted
        assert rejections(found)[SETTINGS_NAME].endswith("→ their last good version")
    assert rejections(outcome(ConfigMap(SETTINGS_NAME, {"x": ""}, {})))[SETTINGS_NAME] == (
        "configmap/vgpu-webhook-settings: the data has no key settings.yaml (its keys: x) → the default settings"
    )


@pytest.mark.parametrize(
    "text, problem",
    [
        (
            "target: nobody\n",
            f":1: target: no vendor is called 'nobody' ({nearest_known('nobody', BUILT_IN.vendors)})",
        ),
        ("traget: nvidia\n", ":1: traget: unknown key 'traget' (did you mean `target`?)"),
        ("nodeName: x\n", ":1: nodeName: 'x' is not one of 'deny' or 'affinity'"),
        ("largestDevice: 1Zi\n", ":1: largestDevice: "),
        ("served: [nvidia, 1]\n", ":1: served[1]: 1 is not text"),
        ("timeoutSeconds: 0\n", ":1: timeoutSeconds: "),
    ],
)
def test_bad_settings_without_good_ones(text: str, problem: str) -> None:
    """Each valid one is in force, each invalid one has its default and is reported; nothing of it counts as accepted."""
    valid = "neverTouched: [b]\nbareDevices: whole\n"
    found = outcome(settings(text + valid))
    assert found.policy.digest == outcome(settings(valid)).policy.digest
    assert rejections(found)[SETTINGS_NAME].startswith(f"configmap/vgpu-webhook-settings/settings.yaml{problem}")
    assert rejections(found)[SETTINGS_NAME].endswith("→ the keys that apply")
    assert SETTINGS_NAME not in found.accepted
    assert rejections(outcome(settings(text)))[SETTINGS_NAME].endswith("→ the default settings")


def test_every_bad_setting_is_reported() -> None:
    """Also those that only contradict the mappings."""
    found = outcome(settings("nodeName: x\ntarget: nobody\nserved: [volcano]\n"))
    (verdict,) = found.verdicts
    assert [problem.path for problem in verdict.problems] == [("nodeName",), ("target",)]
    assert (found.policy.settings.target, found.policy.settings.served) == (None, ["volcano"])


@pytest.mark.parametrize(
    "text, bare",
    [
        ("", None),
        ("bareDevices: share\n", "share"),
        ("bareDevices: share\nnodeName: x\n", "share"),
        ("bareDevices: hole\n", "whole"),
        ("neverTouched: [b]\nnodeName: x\n", "whole"),
        ("bareDevices: share\ntarget: [", "whole"),
        ("bareDevices: share\ntarget: nobody\n", "share"),
    ],
)
def test_what_a_count_alone_requests(text: str, bare: str | None) -> None:
    """Whole devices, unless the settings in force say something else, or are valid and say nothing."""
    found = outcome(settings(text))
    assert found.has_settings
    assert found.policy.settings.bare_devices == bare


@pytest.mark.parametrize(
    "text",
    [
        "neverTouched: [b]\ntarget: [",
        "neverTouched: [b]\nneverTouched: [c]\n",
        "neverTouched: [b]\n---\ntarget: nvidia\n",
        "apiVersion: vgpu-webhook.io/v9\nneverTouched: [b]\n",
        "kind: Mapping\nneverTouched: [b]\n",
        "- neverTouched\n",
    ],
)
def test_settings_of_which_nothing_is_certain(text: str) -> None:
    """A text that is not one document of this version sets nothing."""
    found = outcome(settings(text))
    assert found.policy.digest == WITHOUT_SETTINGS.digest
    assert rejections(found)[SETTINGS_NAME].endswith("→ the default settings")


def test_the_valid_part_puts_no_mapping_out_of_force() -> None:
    """It yields to a mapping that was accepted before, and both problems are reported."""
    accepted = {"m": "extends: aliyun\ntranslateTo: volcano\n"}
    found = outcome(
        mapping("m", accepted["m"]), settings("target: nvidia\nnodeName: x\nneverTouched: [b]\n"), last_good=accepted
    )
    assert (found.policy.settings.target, found.policy.settings.never_touched) == (None, [])
    assert set(rejections(found)) == {SETTINGS_NAME}
    assert [problem.path for problem in found.verdicts[0].problems] == [("nodeName",), ()]
    assert "configmap/m is invalid under these settings" in str(found.verdicts[0].problems[1])


def test_a_default_beyond_the_largest_device_is_a_problem_of_the_setting() -> None:
    """Whoever leaves memory out would be denied; the other settings are in force."""
    found = outcome(
        mapping("m", vendor("acme", defaults="{memory: 100Gi}")), settings("largestDevice: 50Gi\nneverTouched: [b]\n")
    )
    assert (found.policy.settings.largest_device, found.policy.settings.never_touched) == (None, ["b"])
    assert "the default of acme is 100 GiB, more than 50 GiB" in rejections(found)[SETTINGS_NAME]


def test_settings_do_not_put_mappings_out_of_force() -> None:
    """Settings under which an accepted mapping is wrong are the wrong ones."""
    mappings = [mapping("a", vendor("one", domain="x.example"), 1), mapping("b", vendor("two", domain="x.example"), 2)]
    before = outcome(*mappings, settings("owners: {x.example/gpu: two, x.example/mem: two}"))
    assert not rejections(before)
    found = outcome(*mappings, settings("nodeName: affinity"), last_good=before.accepted)
    assert found.policy.digest == before.policy.digest
    assert set(rejections(found)) == {SETTINGS_NAME}
    assert "configmap/b is invalid under these settings: " in rejections(found)[SETTINGS_NAME]


def test_a_vendor_that_settings_name_is_deleted() -> None:
    """The settings are reported as invalid; what else they say stays in force."""
    text = "target: acme\nneverTouched: [a]\n"
    before = outcome(mapping("acme", vendor("acme")), settings(text))
    found = outcome(settings(text), last_good=before.accepted)
    assert (found.policy.settings.target, found.policy.settings.never_touched) == (None, ["a"])
    assert set(rejections(found)) == {SETTINGS_NAME}
    again = outcome(mapping("acme", vendor("acme")), settings(text), last_good=found.accepted)
    assert again.policy.digest == before.policy.digest


def test_vendors_that_a_list_names_are_gone() -> None:
    """The other entries of the list stay, and so does the policy."""
    text = "served: [acme, volcano, acme2, aliyun]\n"
    mappings = [mapping(name, vendor(name, domain=f"{name}.example")) for name in ("acme", "acme2")]
    before = outcome(*mappings, settings(text))
    assert not rejections(before)
    found = outcome(settings(text), last_good=before.accepted)
    assert found.policy.settings.served == ["volcano", "aliyun"]
    assert set(rejections(found)) == {SETTINGS_NAME}
    read_only = outcome(
        *mappings, mapping("ours", "extends: aliyun\ntarget: false\n"), settings(text), last_good=before.accepted
    )
    assert not {"acme", "acme2"} & set(rejections(read_only))


def test_a_bug_that_one_document_brings_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the document that is rejected."""

    def prepare(document: object) -> object:
        raise RecursionError

    good = outcome(mapping("acme", vendor("acme")))
    monkeypatch.setattr(documents, "prepare", prepare)
    found = outcome(mapping("acme", vendor("acme", about="x")), last_good=good.accepted)
    assert "causes an internal error of the webhook: RecursionError" in rejections(found)["acme"]


def test_probes_run_once_for_each_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again when another document changes, nor when one comes back from the record."""
    probed: list[str] = []

    def probe(vendor: Vendor, largest: int) -> list[Problem]:
        probed.append(vendor.name)
        return []

    monkeypatch.setattr(load, "probe", probe)
    memo = DocumentCache()
    unchanged, original = mapping("one", vendor("one"), 1), mapping("two", vendor("two"), 2)
    first = outcome(unchanged, original, memo=memo)
    assert sorted(probed) == ["one", "two"]
    changed = outcome(unchanged, mapping("two", vendor("two", about="x"), 2), last_good=first.accepted, memo=memo)
    assert sorted(probed) == ["one", "two", "two"]
    outcome(unchanged, mapping("two", "[", 2), last_good=changed.accepted, memo=memo)
    assert sorted(probed) == ["one", "two", "two"]


@pytest.mark.parametrize("domain", ["v7.example", "bad.example"])
def test_one_among_hundreds(monkeypatch: pytest.MonkeyPatch, domain: str) -> None:
    """It is found without trying each of them, whether it takes a name or a vendor."""
    monkeypatch.setattr(load, "probe", lambda vendor, largest: [])
    many = [mapping(f"m{number}", vendor(f"v{number}"), number % 60) for number in range(200)]
    bad = mapping("n", vendor("bad" if domain == "v7.example" else "v7", domain=domain), 59)
    found: list[PolicyOutcome] = []
    assert count_calls(lambda: found.append(outcome(*many, bad))) < 3 * count_calls(lambda: outcome(*many))
    assert set(rejections(found[0])) == {"n"}
    assert len(found[0].policy.vendors) == len(builtin()) + 200


CHANGES = {
    "a": [vendor("acme", about="ABOUT"), vendor("acme", about="ABOUT", defaults="{memory: 1Gi}")],
    "b": [vendor("beta", about="ABOUT", translateTo="nvidia")],
    "n": ["extends: nvidia\nabout: ABOUT\ndefaults: {memory: 8000Mi}\n", "extends: nvidia\nabout: ABOUT\n"],
}
VENDOR = {"a": "acme", "b": "beta", "n": "nvidia"}
WRONG = [
    None,
    "vendor: [",
    "vendor: {0}\nkeys: x\n",
    "extends: {0}x\n",
    vendor("zeta", domain="vcuda").replace("vcuda/gpu", "tencent.com/vcuda-core"),
    vendor("zeta", defaults="{cores: 50}"),
    vendor("zeta", translateTo="nobody"),
    vendor("zeta", shim="{mode: inject}"),
]
STEPS = st.lists(
    st.tuples(st.sampled_from("abn"), st.sampled_from(["good", "good", "bad", "bad", "gone"]), st.integers(0, 20)),
    max_size=12,
)


@costly
@given(STEPS, st.permutations([1, 2, 3]))
def test_newest_good_or_last_good(steps: list[tuple[str, str, int]], ages: list[int]) -> None:
    """Whatever happens in whatever order: each vendor is its newest good document, or its last good one; or built in."""
    created = dict(zip("abn", ages, strict=True))
    number = count()
    built_in = BUILT_IN.vendors
    config_maps: dict[str, ConfigMap] = {}
    expected: dict[str, str] = {}
    last_good: Mapping[str, str] = {}
    memo = DocumentCache()
    for name, what, pick in steps:
        if what == "gone":
            config_maps.pop(name, None)
            expected.pop(name, None)
        elif what == "good":
            about = f"version {next(number)}"
            text = CHANGES[name][pick % len(CHANGES[name])].replace("ABOUT", about)
            config_maps[name], expected[name] = mapping(name, text, created[name]), about
        else:
            wrong = WRONG[pick % len(WRONG)]
            config_maps[name] = mapping(name, wrong and wrong.replace("{0}", VENDOR[name]), created[name])
        found = outcome(*config_maps.values(), last_good=last_good, memo=memo)
        last_good = found.accepted
        in_force = {name: abouts(found).get(VENDOR[name]) for name in expected}
        assert in_force == expected
        assert set(last_good) == set(expected)
        fresh = outcome(*config_maps.values(), last_good=last_good)
        assert fresh.policy.digest == found.policy.digest
        others = [VENDOR[each] for each in set("abn") - set(expected)]
        assert [found.policy.vendors.get(other) for other in others] == [built_in.get(other) for other in others]


def test_documents_that_are_about_to_be_stored() -> None:
    """Wrong in themselves, wrong beside the others, or right; the current version of the ConfigMap does not count."""
    memo = DocumentCache()
    label = {"vgpu-webhook.io/mapping": "true"}
    header = "apiVersion: vgpu-webhook.io/v1alpha1\n"

    def judged(name: str, key: str, text: str, *others: ConfigMap) -> tuple[list[str], list[str]]:
        candidate = ConfigMap(name, {key: text}, label if key == "mapping.yaml" else {}, created="2026-01-02T00:00:00Z")
        invalid, unused = judge_document(candidate, others, {}, memo)
        return [str(each) for each in invalid], [str(each) for each in unused]

    acme = ConfigMap("acme", {"mapping.yaml": "extends: nvidia\nnothing: 1\n"}, label, created="2026-01-01T00:00:00Z")
    assert judged("acme", "mapping.yaml", "extends: nvidia\n", acme) == ([], [])
    (problem,), unused = judged("acme", "mapping.yaml", "extends: nvidia\ndeflauts: {}\n", acme)
    assert problem.startswith("configmap/acme/mapping.yaml:2: deflauts: unknown key")
    assert unused == []
    invalid, (problem,) = judged("vgpu-webhook-settings", "settings.yaml", f"{header}target: acme\n")
    assert invalid == []
    assert problem.startswith("configmap/vgpu-webhook-settings/settings.yaml:2: target: ")
    (problem,), unused = judged("vgpu-webhook-settings", "settings.yaml", f"{header}tagret: acme\n")
    assert "did you mean `target`?" in problem
    assert unused == []
