"""How a release is made, without making one: tests/node/test_release.py makes two."""

import hashlib
import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from deploy.generate import versions
from deploy.release import ReleaseError, archives, chart, documents, image, krew, source
from deploy.release.__main__ import INSIGHTS, main
from webhook import __version__

from .charts import ROOT

CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- B.\n\n## [0.2.0] - 2026-01-02\n\n- A.\n\n## [0.1.0]\n"


def test_section_of_a_version() -> None:
    """Without its heading and its neighbors; a version without entries has an empty one, another none."""
    assert documents.section_of(CHANGELOG, "0.2.0") == "- A."
    assert documents.section_of(CHANGELOG, "Unreleased") == "### Added\n\n- B."
    assert documents.section_of(CHANGELOG, "0.1.0") == ""
    assert documents.section_of(CHANGELOG, "0.3.0") is None
    assert documents.section_of((ROOT / "CHANGELOG.md").read_text(), __version__)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project of three files, committed."""
    folder = tmp_path / "checkout"
    (folder / "webhook").mkdir(parents=True)
    (folder / "webhook" / "__init__.py").write_text('__version__ = "0.2.0"\n')
    (folder / "CHANGELOG.md").write_text(CHANGELOG)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example", "-c", "init.defaultBranch=main"]
    date = {"GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000", "PATH": "/usr/bin:/bin"}
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "a"]):
        subprocess.run([*git, *command], check=True, env=date)
    return folder


def test_commit_is_released_and_not_the_folder(checkout: Path, tmp_path: Path) -> None:
    """What is not committed is left out, and reported."""
    before = source.export(tmp_path / "before", checkout)
    assert (before.version, before.time, before.dirty) == ("0.2.0", 1700000000, False)
    (checkout / "webhook" / "__init__.py").write_text('__version__ = "0.3.0"\n')
    (checkout / "new").touch()
    after = source.export(tmp_path / "after", checkout)
    assert (after.version, after.revision, after.dirty) == ("0.2.0", before.revision, True)
    assert sorted(path.name for path in after.folder.iterdir()) == ["CHANGELOG.md", "webhook"]


def test_no_checkout_no_release(tmp_path: Path) -> None:
    """An unpacked sdist has no commit."""
    with pytest.raises(ReleaseError, match="a release is built from a git checkout"):
        source.export(tmp_path / "to", tmp_path)


def test_tag_is_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tag of another version builds nothing, and leaves what is there; nor is one without its letter taken."""
    (tmp_path / "SHA256SUMS").touch()
    monkeypatch.setattr("deploy.release.__main__.export", lambda *_, **__: PLUGIN)
    for tag in ("v0.0.9", "0.2.0"):
        with pytest.raises(ReleaseError, match=f"the tag is {tag}, and webhook/__init__.py has version 0.2.0"):
            main(["parts", "--dist", str(tmp_path), "--tag", tag])
    assert (tmp_path / "SHA256SUMS").exists()


def test_release_says_whose_it_is(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tools read about the project's security has no placeholder for its owner, once there is a tag."""
    (checkout / "CHANGELOG.md").write_text("## [0.2.0]\n")
    (checkout / ".github").mkdir()
    shutil.copy(ROOT / INSIGHTS, checkout / INSIGHTS)
    released = source.Source(checkout, "0.2.0", "0" * 40, 1700000000, dirty=False)
    monkeypatch.setattr("deploy.release.__main__.export", lambda *_, **__: released)
    with pytest.raises(ReleaseError, match=f"{INSIGHTS} does not say who publishes"):
        main(["parts", "--dist", str(tmp_path / "dist"), "--tag", "v0.2.0"])


def test_security_insights_are_complete() -> None:
    """Everything that version 2.0 of the specification requires; what links to a file of the project names one that exists."""
    text = (ROOT / INSIGHTS).read_text()
    found = yaml.safe_load(text)
    assert found["header"].keys() >= {"schema-version", "last-updated", "last-reviewed", "url"}
    assert found["project"].keys() >= {"name", "administrators", "repositories", "vulnerability-reporting"}
    required = {
        "status",
        "url",
        "accepts-change-request",
        "accepts-automated-change-request",
        "core-team",
        "license",
        "security",
    }
    assert found["repository"].keys() >= required
    linked = re.findall(r"/blob/main/(\S+)", text)
    assert len(linked) > 5
    assert all((ROOT / path).is_file() for path in linked)


def test_only_a_release_is_replaced(tmp_path: Path) -> None:
    """A folder that was named by mistake is left alone."""
    (tmp_path / "photo").touch()
    with pytest.raises(ReleaseError, match="has files that are no release"):
        main(["parts", "--dist", str(tmp_path)])
    assert (tmp_path / "photo").exists()


def test_without_buildah_there_is_no_release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says so at once, with what to do, and touches nothing."""
    (tmp_path / "kept").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReleaseError, match=r"buildah is not installed.* run `make release-parts` for everything else"):
        main(["--dist", str(tmp_path)])
    assert (tmp_path / "kept").exists()


def packed(path: Path, names: list[str], time: int, owner: str) -> Path:
    """A tar file with some files, of some time and owner."""
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname = len(name), time, owner
            archive.addfile(member, io.BytesIO(name.encode()))
    return path


@pytest.mark.parametrize("suffix", [".tgz", ".tar"])
def test_archives_do_not_say_who_packed_them(tmp_path: Path, suffix: str) -> None:
    """Times and owners are gone, contents and order are there."""
    first = packed(tmp_path / f"a{suffix}", ["b", "a"], 1, "me")
    second = packed(tmp_path / f"b{suffix}", ["b", "a"], 2, "you")
    for path in (first, second):
        archives.pack_again(path, 1700000000)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as archive:
        assert [(member.name, member.mtime, member.uname) for member in archive] == [
            ("b", 1700000000, ""),
            ("a", 1700000000, ""),
        ]


def test_whoever_releases_can_say_how_images_are_built() -> None:
    """A base image, another platform, more options of buildah's."""
    assert image.options_of({}) == []
    more = {"PYTHON_IMAGE": "a@sha256:1", "PLATFORM": "linux/arm64", "BUILD_FLAGS": "--network host --volume 'a b:/c'"}
    assert image.options_of(more) == [
        *("--network", "host", "--volume", "a b:/c"),
        *("--build-arg", "PYTHON=a@sha256:1"),
        *("--platform", "linux/arm64"),
    ]
    assert image.platform_of(more) == "linux-arm64"


def test_versions_are_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one place is webhook/__init__.py: `make docs` would change nothing, and a new version would be written."""
    for path, text in versions.versioned().items():
        assert path.read_text() == text, "run make docs"
    monkeypatch.setattr(versions, "__version__", "7.8.9")
    counts = {path.name: text.count("7.8.9") for path, text in versions.versioned().items()}
    assert counts == {"Chart.yaml": 2, "Dockerfile": 1, "kustomization.yaml": 1, "install.md": 4}


def test_chart_has_one_place_for_the_repository() -> None:
    """The one that `IMAGE_REPOSITORY` replaces."""
    assert (ROOT / "deploy/chart/values.yaml").read_text().count(chart.UNSET) == 1


def test_chart_is_described(checkout: Path, tmp_path: Path) -> None:
    """What is known only at a release is in its chart: changes by kind, where the image is, where to ask."""
    (checkout / "CHANGELOG.md").write_text(
        "## [0.2.0]\n\nNew.\n\n### Added\n\n- A [page](a.md)\n  of b.\n\n### Fixed\n\n- C.\n"
    )
    of = source.Source(checkout, "0.2.0", "0" * 40, 1700000000, dirty=False)
    about = yaml.safe_load((ROOT / "deploy/chart/Chart.yaml").read_text())
    found = chart.described(about, of, "registry.example/a", "https://code.example/a")
    lists = {key.partition("/")[2]: yaml.safe_load(text) for key, text in found["annotations"].items()}
    assert lists["changes"] == [
        {"kind": "added", "description": "A page of b."},
        {"kind": "fixed", "description": "C."},
    ]
    assert lists["images"] == [{"name": "vgpu-webhook", "image": "registry.example/a:0.2.0"}]
    assert [each["name"] for each in lists["links"]] == ["support", "Documentation"]
    assert found["home"] == "https://code.example/a"
    # A release that nobody publishes names no place.
    local = chart.described(about, of, "", "")
    assert local.keys() == about.keys()
    assert local["annotations"].keys() == about["annotations"].keys() | {"artifacthub.io/changes"}


PLUGIN = source.Source(ROOT, "0.2.0", "0" * 40, 1700000000, dirty=False)


def test_plugin_is_that_of_the_commit(tmp_path: Path) -> None:
    """The same bytes again; the manifest names where the archive is published, and its hash."""
    archives_made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        krew.build(PLUGIN, tmp_path / name, "https://downloads.example/v0.2.0/")
        archives_made.append((tmp_path / name / "kubectl-vgpu-0.2.0.zip").read_bytes())
    assert archives_made[0] == archives_made[1]
    manifest = yaml.safe_load((tmp_path / "first" / "vgpu.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    assert manifest["spec"]["version"] == "v0.2.0"
    assert len(manifest["spec"]["shortDescription"]) <= 50
    assert platform["uri"] == "https://downloads.example/v0.2.0/kubectl-vgpu-0.2.0.zip"
    assert platform["sha256"] == hashlib.sha256(archives_made[0]).hexdigest()
