"""What the page says of the systems is what the last run stated, of the versions that are pinned."""

from .page import EXPECTED, FIRST, PAGE, page
from .programs import SYSTEMS, Built, Installed


def test_page_is_up_to_date() -> None:
    """`make docs` would not change it."""
    assert PAGE.read_text() == page()


def test_outcomes_are_of_the_pinned_versions() -> None:
    """Whoever raises a version runs the system anew."""
    assert {file.stem for file in EXPECTED.glob("*.txt")} == SYSTEMS.keys()
    for name, programs in SYSTEMS.items():
        first = FIRST.match((EXPECTED / f"{name}.txt").read_text())
        assert first is not None
        assert not isinstance(programs, Built) or first["programs"] == programs.version()


def test_page_says_which_programs_are_taken_from_an_installation() -> None:
    """Their paths below the folder."""
    text = PAGE.read_text()
    assert not [each for each in SYSTEMS.values() if isinstance(each, Installed) and f"`{each.paths()}`" not in text]
