"""What single pages promise: a README that can be read in two minutes, a complete index, versions that were tested."""

import re
from typing import Final

import pytest
import yaml

from tests.project.test_docs import BLOCKS, CHINESE, COMMUNITY, ROOT, TEXTS
from webhook.reasons import Reason, explanation_of

MODULES: Final = {
    "k8s.io/kubernetes": "controlplane/go.mod",
    "helm.sh/helm/v3": "deploy/helm/v3/go.mod",
    "helm.sh/helm/v4": "deploy/helm/v4/go.mod",
}
"""What the tests run, and the file of ``tests/`` that says in which version."""


@pytest.mark.parametrize("page", ["README.md", "README_cn.md"])
def test_commands_of_the_readme_can_be_pasted(page: str) -> None:
    """No prompt stands before a command, and no output among commands; what is run leaves no file behind."""
    blocks = [block for block in BLOCKS if block.page == page]
    assert "console" not in {block.language for block in blocks}
    assert not [block for block in blocks if block.language == "sh" and re.search(r"^[$>] ", block.text, re.MULTILINE)]
    assert not [block for block in blocks if block.run and re.search(r"> *\w|\btee\b", block.text)]


def test_pages_are_short() -> None:
    """Less to read is better: lower these numbers, and do not raise them."""
    words = {page: len(text.split()) for page, text in TEXTS.items() if page not in {*COMMUNITY, *CHINESE}}
    # Claims have a page of their own: the move to them is the largest change that a cluster makes.
    assert words["docs/dra.md"] <= 700
    assert words["CONTRIBUTING.md"] <= 900
    assert words["docs/start.md"] <= 1050
    assert sum(count for page, count in words.items() if page.startswith("docs/")) <= 25_000


def test_mappings_begin_with_ten_lines() -> None:
    """The first thing on the page makes a vendor, in a document that `tests/project/test_docs.py` runs."""
    first = next(block for block in BLOCKS if block.page == "docs/mapping.md")
    assert (first.language, first.file) == ("yaml", "mappings/nimbus.yaml")
    assert len(first.text.splitlines()[1:]) <= 10
    assert first.line <= 10


def test_the_runbook_begins_with_what_a_person_sees() -> None:
    """A table of symptoms stands before every heading but the first; each row leads on."""
    head = TEXTS["docs/runbook.md"].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| .+ \| (.+) \|$", head, re.MULTILINE)
    assert {"`failed calling webhook …`", "`denied the request: VGW…`", "pods Pending", "nothing changes"} <= {
        seen for seen, _ in rows
    }
    assert all("](" in leads or "`vgpu-webhook" in leads for _, leads in rows[1:])


def test_readme_is_short() -> None:
    """It is for somebody with two minutes."""
    assert len(TEXTS["README.md"].split()) <= 900


@pytest.mark.parametrize("page, most", {"README_cn.md": 1500, "docs/start_cn.md": 1400}.items())
def test_pages_in_chinese_are_short(page: str, most: int) -> None:
    """Each Chinese character counts, and each run of others."""
    assert page in CHINESE
    assert len(re.findall(r"[\u4e00-\u9fff]|[^\s\u4e00-\u9fff]+", TEXTS[page])) <= most


@pytest.mark.parametrize("page", TEXTS)
def test_one_place_names_what_is_not_published(page: str) -> None:
    """There is no release yet: only the page on installing says what the first one will have."""
    ours = re.findall(
        r"krew|pipx? install vgpu-webhook|(?:ghcr\.io|quay\.io|oci:/)/(?:\S*/)?vgpu-webhook\S*", TEXTS[page]
    )
    assert set(ours) == ({"krew"} if page == "docs/install.md" else set())


def test_examples_of_codes_are_messages() -> None:
    """What explains a code is what a pod of `tests/cases/` is really told, by that code."""
    told = "".join(report.read_text() for report in (ROOT / "tests/cases").glob("*/report.txt"))
    examples = {reason.code: explanation_of(reason).example for reason in Reason if explanation_of(reason).example}
    assert not [code for code, text in examples.items() if not re.search(rf"{code}: .*{re.escape(text)}", told)]


def test_index_lists_every_page() -> None:
    """Whoever reads the index of the documentation finds each of its pages, once."""
    listed = re.findall(r"^\| \[[^\]]+\]\(([\w-]+\.md)\)", TEXTS["docs/README.md"], re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("module", MODULES)
def test_support_names_the_versions_of_the_tests(module: str) -> None:
    """The page on support names the version that the tests run."""
    text = (ROOT / "tests" / MODULES[module]).read_text()
    (version,) = re.findall(rf"^\s{re.escape(module)} v([\d.]+)(?: // indirect)?$", text, re.MULTILINE)
    assert re.search(rf"(?<![\d.]){re.escape(version)}(?!\.?\d)", TEXTS["docs/support.md"])


def test_support_names_the_oldest_kubernetes_of_the_chart() -> None:
    """The page on support names the oldest version that the chart lets through."""
    oldest = yaml.safe_load((ROOT / "deploy/chart/Chart.yaml").read_text())["kubeVersion"]
    found = re.search(r"^\| Kubernetes \| ([\d.]+) or newer \|", TEXTS["docs/support.md"], re.MULTILINE)
    assert found is not None
    assert oldest == f">={found[1]}.0-0"
