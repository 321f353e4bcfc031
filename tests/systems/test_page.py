"""What the page says of the systems is what the last run stated, at the commits of the table of sources."""

from .page import EXPECTED, FIRST, PAGE, page
from .sources import sources


def test_page_is_up_to_date() -> None:
    """`make docs` would not change it."""
    assert PAGE.read_text() == page()


def test_outcomes_are_of_the_pinned_commits() -> None:
    """Whoever raises a commit runs the system anew."""
    rows = sources()
    files = sorted(EXPECTED.glob("*.txt"))
    assert files
    for file in files:
        first = FIRST.match(file.read_text())
        source = rows[file.stem.partition("-with-")[0]]
        assert first is not None
        assert (first["repository"], first["commit"]) == (source.repository, source.commit[:8])
