"""The system of a vendor, as messages about schedulers, plugins and webhooks name it."""

import re
from typing import Final

from tests.cluster.config_maps import vendor
from webhook.mapping.document import parse
from webhook.mapping.load import build_policy, load_policy
from webhook.mapping.model.vendor import Vendor, system_names

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
