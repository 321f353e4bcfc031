"""The system of a vendor, as messages about schedulers, plugins and webhooks name it."""

from tests.cluster.config_maps import vendor
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy, load_policy
from webhook.mapping.model.vendor import Vendor, system_names


def made(text: str, name: str) -> Vendor:
    """The vendor of a document."""
    return build_policy(parse(text, "test")).vendors[name]


def test_built_in_vendors_have_one() -> None:
    """It is a system and not a page; vendors of one scheduler have that of the scheduler."""
    vendors = load_policy().vendors
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
    vendors = load_policy().vendors
    assert system_names(vendors["nvidia"], vendors["volcano"]) == ("HAMi", "Volcano")
    assert system_names(vendors["nvidia"], vendors["iluvatar"]) == ("nvidia", "iluvatar")
