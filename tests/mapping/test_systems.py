"""What built-in mappings say of their system: how messages name it, what its nodes report, and how large slices are."""

import json
import re
from typing import Any, Final

from tests.cluster.config_maps import vendor
from tests.mapping.vendors import LARGEST, policy
from tests.naming import each_of
from webhook.mapping.document import parse
from webhook.mapping.load import build_policy, builtin, load_policy
from webhook.mapping.model.vendor import Vendor, system_names
from webhook.mapping.writing import write
from webhook.request import Percent, Request, Size

BUILT_IN = load_policy()


def made(text: str, name: str) -> Vendor:
    """The vendor of a document."""
    return build_policy(parse(text, "test")).vendors[name]


def test_built_in_vendors_have_one() -> None:
    """It is a system and not a page; vendors of one scheduler have that of the scheduler."""
    vendors = BUILT_IN.vendors
    assert {name for name, each in vendors.items() if each.system == name} == {"neutral", "vgpu-manager"}
    assert not [name for name, each in vendors.items() if "website" in each.system]
    assert {each.system for each in vendors.values() if each.place.scheduler == "hami-scheduler"} == {"HAMi"}


def test_where_it_comes_from() -> None:
    """The document, else its first source, else the vendor; one that extends another has that of the other."""
    assert made(vendor("acme"), "acme").system == "acme"
    assert made(vendor("acme", system="Acme Share"), "acme").system == "Acme Share"
    sources = "[{system: Acme Share, date: 2026-01-01, at: 'https://acme.example', opened: [a]}]"
    assert made(vendor("acme", sources=sources), "acme").system == "Acme Share"
    assert made("extends: nvidia\ndefaults: {memory: 1Gi}\n", "nvidia").system == "HAMi"
    assert made("extends: nvidia\nsystem: Our HAMi\n", "nvidia").system == "Our HAMi"


def test_two_vendors_of_one_system() -> None:
    """They are told apart by their own names."""
    vendors = BUILT_IN.vendors
    assert system_names(vendors["nvidia"], vendors["volcano"]) == ("HAMi", "Volcano")
    assert system_names(vendors["nvidia"], vendors["iluvatar"]) == ("nvidia", "iluvatar")


COMMIT: Final = r"[0-9a-f]{7,8}"
RELEASE: Final = re.compile(
    rf"(later than )?\d+(\.\d+)+(-[a-z]+\.\d+)?( and later)?( \({COMMIT}\))?(, and (later \({COMMIT}\)|(before )?{COMMIT}))?"
    rf"|no release( known)?( \({COMMIT}\))?"
)


def test_sources_name_a_release() -> None:
    """A commit alone does not say whether a release serves what was read; pages have a day only, and no repository."""
    for name, each in BUILT_IN.vendors.items():
        for source in each.sources:
            if source.version is None:
                assert "://github.com/" not in source.at, f"{name}: {source.at} has commits"
            else:
                assert RELEASE.fullmatch(source.version), f"{name}: {source.version}"
                assert bool(source.adds) == source.version.startswith("later than "), f"{name}: {source.version}"


def test_what_no_release_serves_is_not_written_by_default() -> None:
    """It is a variable; or no pod is given it; or what nodes report says what it needs, for who makes the vendor a target."""
    for name, each in BUILT_IN.vendors.items():
        for added in (added for source in each.sources for added in source.adds):
            if added in each.variables:
                continue
            key = each.keys[added]
            if key.claim is not None:  # nobody writes claims but for who makes the vendor a target
                continue
            gated = each.reports and not any(isinstance(entry, str) for entry in each.reports)
            assert key.kind != "amount" or key.unreported is not None or gated, f"{name}: {added}"


def test_each_says_what_its_nodes_report() -> None:
    """What was found in public: names as keys spell them, without resources others; else a source says what is missing."""
    unknown = set()
    for name, each in BUILT_IN.vendors.items():
        if each.reports is None:
            assert any("which resources its nodes have" in (source.missing or "") for source in each.sources), name
            unknown.add(name)
            continue
        names = {entry if isinstance(entry, str) else entry.resource for entry in each.reports}
        resources = [key for key in each.keys.values() if key.place == "resource"]
        assert names or not resources, name
        if resources:
            assert names <= {template.text for key in resources for template in key.spellings}, name
            assert all(key.unreported is None for key in resources if names & {each.text for each in key.spellings}), (
                name
            )
    assert unknown == {"baidu", "cce", "metax", "qgpu"}


MIB = 1024**2
MODELS = {
    model: None for row in builtin()["mig"].data["variables"]["profile"]["rows"].values() for model in row["memory"]
}


def configured(vendor: str, **variable: Any) -> Vendor:
    """A built-in vendor of slices in a cluster that says this of its profiles."""
    return policy(json.dumps({"extends": vendor, "variables": {"profile": variable}})).vendors[vendor]


@each_of("model", MODELS)
def test_models_of_slices(model: str) -> None:
    """Every model of devices is cut in sevenths or in fourths, and more memory never comes with a smaller profile of it."""
    rows = configured("mig", model=model).variables["profile"].rows
    parts = {name: int(name[0]) for name in rows}
    whole = 4 if max(parts.values()) == 4 and model in {"A30", "RTX-PRO-6000"} else 7
    for name, row in rows.items():
        assert row.cores == row.least_cores == Percent(parts[name] * 100 // whole), name
        assert isinstance(row.memory, Size)
        assert isinstance(row.least, Size)
        nominal = int(name.partition(".")[2].partition("gb")[0]) * 1024 * MIB
        assert 0.8 * nominal < row.least.bytes <= row.memory.bytes < nominal, name
        assert row.memory.bytes % (128 * MIB) in {0, 64 * MIB}, name


def test_every_profile_of_a_model_may_be_written() -> None:
    """And each is the least that holds what it holds."""
    for model in MODELS:
        names = list(configured("mig", model=model).variables["profile"].rows)
        plain = [name for name in names if not name.endswith(("me", "gfx", "all"))]
        vendor = configured("mig", model=model, write=plain)
        for name in plain:
            row = vendor.variables["profile"].rows[name]
            assert isinstance(row.least, Size)
            found = write(vendor, Request(1, row.least, row.cores), {}, LARGEST, "main")
            assert [key.key for key in found.keys.values()] == [f"nvidia.com/mig-{name}"]
