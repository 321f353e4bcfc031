"""Where programs of other systems are taken from, and what is said where they are not there."""

from pathlib import Path

import pytest

from tests.go_program import BinariesMissingError

from . import programs
from .__main__ import main

NOT_BUILT = ["hami", "kai", "vgpu-manager", "gpushare"]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests has set none."""
    for variable in ("SYSTEMS", "SYSTEMS_BIN"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with the programs of KAI."""
    (tmp_path / "kai").mkdir()
    for name in programs.KAI.names:
        (tmp_path / "kai" / name).touch(0o755)
    monkeypatch.setenv("SYSTEMS_BIN", str(tmp_path))
    return tmp_path


def test_without_a_folder_what_is_not_built_is_left_out() -> None:
    """All others run."""
    assert programs.chosen() == [name for name in programs.SYSTEMS if name not in NOT_BUILT]


def test_what_the_folder_has_runs(installed: Path) -> None:
    """Its programs are those in there; the rest is left out."""
    assert programs.chosen(NOT_BUILT) == ["kai"]
    assert programs.KAI.folder() == installed / "kai"


def test_what_is_chosen_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its test fails instead, and says what to set."""
    monkeypatch.setenv("SYSTEMS", "hami,kueue")
    assert programs.chosen() == ["hami", "kueue"]
    with pytest.raises(BinariesMissingError, match=r"set SYSTEMS_BIN to a folder with hami/scheduler"):
        programs.HAMI.folder()


def test_says_what_is_missing(installed: Path) -> None:
    """A program that cannot be run, or is not there; a folder that is not there."""
    binder = installed / "kai/binder"
    binder.chmod(0o644)
    with pytest.raises(BinariesMissingError, match="kai lacks the program binder"):
        programs.KAI.folder()
    binder.unlink()
    with pytest.raises(BinariesMissingError, match="kai lacks the program binder"):
        programs.KAI.folder()
    binder.parent.rename(installed / "other")
    with pytest.raises(BinariesMissingError, match="SYSTEMS_BIN has no folder"):
        programs.KAI.folder()


def test_outcomes_are_recorded_with_the_version_beside_the_programs(installed: Path) -> None:
    """Whoever records says which it was."""
    with pytest.raises(BinariesMissingError, match="write the version of kai into"):
        programs.first_line(programs.KAI)
    (installed / "kai/version").write_text("0.17.0\n")
    assert programs.first_line(programs.KAI).startswith("kai 0.17.0, run on 20")


@pytest.mark.parametrize("listed, said", [("hami", "set SYSTEMS_BIN"), ("hammy", "there is no hammy")])
def test_a_run_fails_where_a_chosen_one_is_missing(monkeypatch: pytest.MonkeyPatch, listed: str, said: str) -> None:
    """Or unknown."""
    monkeypatch.setenv("SYSTEMS", listed)
    with pytest.raises(SystemExit, match=said):
        main()


def test_a_run_says_what_it_leaves_out(
    installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with what it lacks."""
    monkeypatch.setattr("tests.systems.__main__.SYSTEMS", {name: programs.SYSTEMS[name] for name in NOT_BUILT})
    monkeypatch.setattr("tests.systems.__main__.chosen", lambda: ["kai"])
    main()
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[:2] for line in said] == [["left out", f" {name}"] for name in NOT_BUILT if name != "kai"]
