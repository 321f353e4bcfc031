"""What each built-in mapping was read from, and what it guards."""

from tests.cli.conftest import Run
from webhook.mapping.load import load_policy

POLICY = load_policy()


def test_each_mapping_names_its_sources(run: Run) -> None:
    """Each document that describes another system names the source that it was checked against, and shows it."""
    assert {name for name, vendor in POLICY.vendors.items() if not vendor.sources} == {"neutral"}
    source, *_ = POLICY.vendors["volcano"].sources
    assert source.version is not None
    assert source.version in run("vendors", "volcano").stdout


def test_each_mapping_says_what_is_guarded() -> None:
    """Or why nothing is; and of each entry what reads it."""
    for name, vendor in POLICY.vendors.items():
        assert vendor.guarded or vendor.unguarded, name
        assert all(guard.named or guard.read_by for guard in vendor.guarded), name
