"""The page of guards is that of the built-in mappings, and the terminal shows the same; sources, and pairs of vendors."""

import json
from pathlib import Path

import webhook
from tests.cli.conftest import Run
from webhook.mapping.load import load_policy

DOCS = Path(webhook.__file__).parent.parent / "docs"
POLICY = load_policy()


def test_each_mapping_names_its_sources(run: Run) -> None:
    """Each document that describes another system names the source that it was checked against."""
    sources = json.loads(run("vendors", "--sources", "-o", "json").stdout)
    assert POLICY.vendors.keys() - {each["vendor"] for each in sources} == {"neutral"}


def test_the_page_of_guards_is_generated(run: Run) -> None:
    """It is what the documents say: of each mapping what is guarded or why nothing is, and of each entry what reads it."""
    page = (DOCS / "guards.md").read_text()
    assert page == run("vendors", "--guards", "--markdown").stdout
    rows = [line.removeprefix("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    for name, vendor in POLICY.vendors.items():
        document = vendor.document
        assert document.guard or document.unguarded, name
        assert all(guard.named or guard.read_by for guard in document.guard), name
        for guard in document.guard:
            shown = [row for row in rows if row[0] == (guard.named or f"`{name}`")]
            assert shown, name
            users = {f"`{name}`", f"all of the family `{vendor.family}`"}
            assert guard.named is None or any(user in row[1] for row in shown for user in users), name
        if document.unguarded:
            assert f"\n| `{name}` | {' '.join(document.unguarded.split())} |\n" in page
    assert all(row[-1].removesuffix(" |") for row in rows)
    readers = {guard.read_by for vendor in POLICY.vendors.values() for guard in vendor.document.guard if guard.read_by}
    assert all(f" | {reader.partition(': ')[0]} |" in page for reader in readers)


def test_guards_for_a_terminal(run: Run) -> None:
    """A line for each entry; of one vendor they stand in its document."""
    printed = [line.split() for line in run("vendors", "--guards").stdout.splitlines()]
    assert ["vgpu-manager", "annotation", "nvidia.com/vgpu-compute-policy", "none", "denied", "shares"] in printed
    assert ["vastai", "VASTAI_VISIBLE_DEVICES"] in [line[:2] for line in printed]
    assert run("vendors", "vastai", "--guards").exit_code != 0
    assert run("vendors", "--matrix", "--guards").exit_code != 0


def test_sources_for_whoever_looks_for_newer_versions(run: Run) -> None:
    """A line for each source, with its version and day; of one vendor they stand in its document."""
    printed = run("vendors", "--sources").stdout.splitlines()
    line = next(line for line in printed if line.startswith("volcano ") and "volcano-sh/volcano" in line)
    source, *_ = POLICY.vendors["volcano"].document.sources
    assert source.version is not None
    assert source.version in line
    assert source.date in line
    assert source.version in run("vendors", "volcano").stdout
    assert run("vendors", "volcano", "--sources").exit_code != 0


def test_what_translates_into_what(run: Run) -> None:
    """For a vendor, or each: the targets that all of its probes are written for, some, or none, as a table and as data."""
    lines = run("vendors", "vcuda", "--matrix").stdout.splitlines()
    rows = {line.removeprefix("vcuda ").split("  ")[0].strip(): line for line in lines if line.startswith("vcuda ")}
    assert " nvidia," in rows["written"]
    assert " aliyun," in rows["depends on the amount"]
    assert " kai," in rows["denied"]
    data = json.loads(run("vendors", "vcuda", "--matrix", "-o", "json").stdout)
    assert {"source": "vcuda", "outcome": "written", "target": "nvidia"} in data
    assert {each["target"] for each in data} == {
        name for name, vendor in POLICY.vendors.items() if vendor.target and name != "vcuda"
    }
    shared = run("vendors", "gpushare", "--matrix").stdout
    assert "gpushare  only one is active  aliyun\n" in shared.replace("  " * 6, "  ")
    assert run("vendors", "vcuad", "--matrix").exit_code == 1
