"""``vendors --sources`` and ``--matrix``: what was read of each vendor, and what translates into what."""

import json
from pathlib import Path

from tests.cli.conftest import Run
from webhook.mapping.load import load_policy

POLICY = load_policy()


def test_each_mapping_names_its_sources(run: Run) -> None:
    """Each document that describes another system names the source that it was checked against."""
    sources = json.loads(run("vendors", "--sources", "-o", "json").stdout)
    assert POLICY.vendors.keys() - {each["vendor"] for each in sources} == {"neutral"}


def test_each_mapping_says_what_is_guarded() -> None:
    """Or why nothing is; and of each entry what reads it."""
    for name, vendor in POLICY.vendors.items():
        document = vendor.document
        assert document.guard or document.unguarded, name
        assert all(guard.named or guard.read_by for guard in document.guard), name


def test_sources_for_whoever_looks_for_newer_versions(run: Run) -> None:
    """Each source with its version and day; of one vendor they stand in its document."""
    printed = run("vendors", "--sources").stdout.split("\nvolcano\n")[1]
    line = printed.partition("volcano-sh/volcano")[0]
    source, *_ = POLICY.vendors["volcano"].document.sources
    assert source.version is not None
    assert source.version in line
    assert source.date in line
    assert source.version in run("vendors", "volcano").stdout
    assert run("vendors", "volcano", "--sources").exit_code != 0


def test_what_translates_into_what(run: Run) -> None:
    """For a vendor, or each: the targets that all of its probes are written for, some, or none, as a table and as data."""
    text = " ".join(run("vendors", "vcuda", "--matrix").stdout.split())
    rows = {row.partition("  ")[0]: row for row in text.replace(" vcuda ", "\n").splitlines()}
    for target, outcome in (("nvidia", "written"), ("aliyun", "depends on the amount"), ("kai", "denied")):
        assert [f" {target}," in row for row in rows if row.startswith(outcome)] == [True], outcome
    data = json.loads(run("vendors", "vcuda", "--matrix", "-o", "json").stdout)
    assert {"source": "vcuda", "outcome": "written", "target": "nvidia"} in data
    assert {each["target"] for each in data} == {
        name for name, vendor in POLICY.vendors.items() if vendor.target and name != "vcuda"
    }
    shared = run("vendors", "gpushare", "--matrix").stdout
    assert "gpushare  only one is active  aliyun\n" in shared.replace("  " * 6, "  ")
    assert run("vendors", "vcuad", "--matrix").exit_code == 1


def test_what_a_mapping_permits_to_drop_is_written(run: Run, tmp_path: Path) -> None:
    """As the webhook does it: without cores vcuda's sizes can be written for gpushare, and its whole devices still not."""
    (tmp_path / "own.yaml").write_text("extends: gpushare\ndrop: [cores]\n")
    for options, outcome in (([], "denied"), (["--mappings", str(tmp_path)], "depends on the amount")):
        data = json.loads(run("vendors", "vcuda", "--matrix", "-o", "json", *options).stdout)
        assert {"source": "vcuda", "outcome": outcome, "target": "gpushare"} in data
