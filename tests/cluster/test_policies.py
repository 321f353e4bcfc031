"""ConfigMaps → policy: what is in force when documents are good, bad, gone, or at odds with each other."""

import json
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.calls import count_calls
from tests.cluster.config_maps import LABELS, WITHOUT_SETTINGS, abouts, mapping, outcome, rejections, settings, vendor
from tests.depth import costly
from tests.mapping.test_mistakes import KNOWN
from tests.yaml_text import hold
from webhook.cluster.policy import documents
from webhook.cluster.policy.choose import PolicyOutcome, judge_document
from webhook.cluster.policy.documents import LAST_GOOD_NAME, MAPPING_KEY, SETTINGS_NAME, ConfigMap, DocumentCache
from webhook.mapping import load
from webhook.mapping.document import Problem, parse
from webhook.mapping.load import build_policy, builtin, load_policy
from webhook.mapping.model.vendor import Vendor

BUILT_IN = load_policy()
ACTIVE = {each.name for each in BUILT_IN.in_force}
TABLE = Path(__file__).with_name("policies.yaml")

NVIDIA = "extends: nvidia\nabout: ours\ndefaults: {memory: 8000Mi}\n"


@pytest.fixture(scope="module", autouse=True)
def _probed_once() -> Iterator[None]:
    """Probes are what takes time here; what they find depends on nothing but the document."""
    genuine, found = load.probe, dict[tuple[str, bool, int], list[Problem]]()

    def probe(vendor: Vendor, largest: int) -> list[Problem]:
        key = (repr(vendor.model_copy(update={"about": None})), vendor.inactive, largest)
        if key not in found:
            found[key] = genuine(vendor, largest)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "probe", probe)
        yield


def told_of(found: PolicyOutcome, before: PolicyOutcome | None) -> str:
    """What is in force beside the built-in vendors, under which settings; and what is rejected, why."""
    policy = found.policy
    chosen = policy.settings.model_dump(by_alias=True, exclude_defaults=True, exclude={"api_version", "kind"})
    ours = [each for each in policy.vendors.values() if each.source != "built-in"]
    lines = [f"{each.name}: {each.about or 'in force'} of {each.source}" for each in ours]
    without = [each.name for each in policy.vendors.values() if each.inactive and each.name in ACTIVE]
    lines += [f"inactive: {', '.join(without)}"] * bool(without)
    lines += [f"settings: {json.dumps(chosen)}"] * bool(chosen)
    if policy.digest in {WITHOUT_SETTINGS.digest, before and before.policy.digest}:
        lines.append("as before" if before and policy.digest == before.policy.digest else "as without any")
    for verdict in found.verdicts:
        lines += [f"rejected: {each} → {verdict.instead}" for each in verdict.problems]
    return "\n".join([*lines, f"accepted: {', '.join(sorted(found.accepted)) or 'nothing'}"])


def config_map(name: str, created: int = 0, text: str | None = None, **parts: str) -> ConfigMap:
    """A mapping in short: its text, or what is given of a small vendor; without either it has no document."""
    return mapping(name, vendor(parts.pop("vendor"), **parts) if "vendor" in parts else text, created)


def test_what_is_in_force(*, update_golden: bool) -> None:
    """Step by step, as `policies.yaml` has it; each step begins with the last good documents of the one before."""
    last: dict[str, PolicyOutcome] = {}

    def told(step: dict[str, Any]) -> str:
        before = None if step.get("first") else last.get(step["rule"])
        given = {**step.get("beside", {}), **step.get("maps", {})}
        maps = [config_map(name, **parts) for name, parts in given.items()]
        if "settings" in step:
            text = step["settings"]
            maps.append(ConfigMap(SETTINGS_NAME, {"x": ""}, {}) if text is None else settings(text))
        found = last[step["rule"]] = outcome(*maps, last_good=before.accepted if before else None)
        return KNOWN.sub("known are …)", told_of(found, before))

    hold(TABLE, "steps", told, update=update_golden)


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
