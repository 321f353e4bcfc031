"""The pages of guards and of pairs are those of the built-in mappings, and the terminal shows the same."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import webhook
from tests.cli.conftest import Run
from webhook.cli.matrix_pages import matrix_page, page_row
from webhook.mapping.load import load_policy
from webhook.mapping.matrix import Matrix

pytestmark = pytest.mark.slow

DOCS = Path(webhook.__file__).parent.parent / "docs"
GOLDEN = Path(__file__).parent / "golden"
POLICY = load_policy()
ALL = 100
"""Requests per pair from which on nothing is left out."""


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


@pytest.fixture(scope="module")
def matrix() -> Iterator[Matrix]:
    """One for all tests, and for the commands that they run: what it learns of each target takes long."""
    made = Matrix(POLICY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("webhook.cli.matrix_pages.Matrix", lambda _: made)
        yield made


def test_page_of_pairs_is_up_to_date(matrix: Matrix, requests_per_pair: int) -> None:
    """`make docs` was run after the mappings were changed: some rows, and in `make check-translations` all of the page."""
    page = (GOLDEN / "matrix.md").read_text()
    for source in ("gpushare", "whole"):
        assert page_row(matrix, source) in page.splitlines()
    rows = [
        line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.count("|") > len(matrix.targets)
    ]
    assert set(rows[1:]) - {"---"} >= set(matrix.sources)
    assert requests_per_pair < ALL or page == matrix_page(POLICY)


def test_one_row_says_how_far_and_why_not_further(run: Run, matrix: Matrix) -> None:
    """With a vendor's name: the limits within which its requests are written, and why the others are not."""
    lines = run("vendors", "vcuda", "--matrix").stdout.splitlines()
    cells = {line.split()[0]: line for line in lines if line}
    assert cells["aliyun"].split(maxsplit=3)[1:3] == ["~", "shares"]
    assert cells["aliyun"].endswith("no key of aliyun can express memory 100 %")
    assert cells["nvidia"].split() == ["nvidia", "="]
    assert "~ ≤ 48 GiB" in cells["mthreads"]
    assert set(POLICY.vendors) - {"vcuda", "neutral"} <= cells.keys()
    pairs = json.loads(run("vendors", "vcuda", "--matrix", "-o", "json").stdout)
    assert {each["source"] for each in pairs} == {"vcuda"}
    assert {"exact", "denied"} <= {each["outcome"] for each in pairs}


def test_one_cell_lists_its_intervals(run: Run, matrix: Matrix) -> None:
    """With a target, too: from where to where requests have which outcome, and why."""
    lines = run("vendors", "vcuda", "--matrix", "--to", "mthreads").stdout.splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["whole", "devices", "1", "to", "4096", "100", "%", "100", "%", "exact"],
        ["share", "1", "256", "MiB", "to", "48", "GiB", "1", "%", "to", "99", "%", "rounds"],
    ]
    assert lines[3].split()[:8] == ["share", "1", "49408", "MiB", "to", "1", "TiB", "1"]
    assert "denied" in lines[3]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("vcuda", "--to", "nvidia"), "--to needs NAME and --matrix"),
        (("vcuda", "--matrix", "--to", "neutral"), "'neutral' is not another vendor that can be a target"),
        (("vcuda", "--matrix", "--to", "vcuda"), "'vcuda' is not another vendor that can be a target"),
        (("vcuda", "--matrix", "--to", "kunlin"), "kunlun"),
    ],
)
def test_a_target_has_to_be_one(run: Run, arguments: tuple[str, ...], message: str) -> None:
    """A mistake is reported with the valid values."""
    result = run("vendors", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr
