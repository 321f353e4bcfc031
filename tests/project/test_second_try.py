"""Who gets a second try, and that it is told."""

import pytest

CONFTEST = """
import pytest
from tests.sharing import ByCluster

pytest_plugins = ["tests.second_try"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByCluster(config, log)
"""
INI = """
[pytest]
strict = true
addopts = -ra --import-mode=importlib
asyncio_default_fixture_loop_scope = function
filterwarnings = error
markers =
    controlplane
    node
    browser
    faults
    once
"""
TESTS = '''
"""Each test fails at its first try; a file remembers it."""

from pathlib import Path

import pytest

BEFORE = Path(__file__).parent


@pytest.fixture
def tried(request):
    """How often it was tried before, told anew to each try."""
    record = BEFORE / f"{request.node.name}.tried"
    before = len(record.read_text()) if record.exists() else 0
    record.write_text("x" * (before + 1))
    return [before]


def fails_first(tried):
    assert tried.pop() > 0, "the machine was busy"


@pytest.mark.browser
class TestBrowser:
    def test_page(self, tried):
        fails_first(tried)


@pytest.mark.controlplane
def test_always(tried):
    assert tried == []


@pytest.mark.controlplane
def test_well(tried):
    assert tried == [0]


@pytest.fixture
def broken(tried):
    fails_first(tried)


@pytest.fixture
def lingers(tried):
    yield
    fails_first(tried)
'''
MORE = {
    "plane(tried)": ["controlplane"],
    "node(tried)": ["node"],
    "pure(tried)": [],
    "once(tried)": ["node", "once"],
    "fault(tried)": ["controlplane", "faults"],
    "fixture(broken)": ["controlplane"],
    "end(lingers)": ["controlplane"],
}
"""More of these, by their marks."""
TWICE = {"plane", "node", "page", "always", "fixture", "end"}
ONCE = {"well", "pure", "once", "fault"}


@pytest.mark.parametrize("shared", [[], ["-n", "2", "--dist", "loadgroup"]], ids=["alone", "shared"])
def test_who_is_tried_again(pytester: pytest.Pytester, shared: list[str]) -> None:
    """On a control plane, a node or in a browser, with fixtures of its own, once more, and told; nothing else."""
    pytester.makeconftest(CONFTEST)
    pytester.makeini(INI)
    folder = pytester.mkdir("tests") / "controlplane"
    folder.mkdir()
    text = TESTS
    for name, marks in MORE.items():
        body = "fails_first(tried)" if "tried" in name else "pass"
        text += "".join(f"@pytest.mark.{mark}\n" for mark in marks) + f"def test_{name}:\n    {body}\n"
    (folder / "test_tries.py").write_text(text)
    result = pytester.runpytest_subprocess(*shared)
    assert {path.stem.removeprefix("test_"): len(path.read_text()) for path in folder.glob("*.tried")} == {
        **dict.fromkeys(TWICE, 2),
        **dict.fromkeys(ONCE, 1),
    }
    outcomes = result.parseoutcomes()
    assert (outcomes["failed"], outcomes["rerun"]) == (4, 6), outcomes
    file = "tests/controlplane/test_tries.py"
    [told] = [line for line in result.outlines if "on the second try" in line]
    count, _, names = told.partition(" passed on the second try: ")
    passed = ["test_plane", "test_node", "TestBrowser::test_page", "test_fixture", "test_end"]
    assert (count, sorted(names.split(", "))) == ("5", sorted(f"{file}::{name}" for name in passed))
    result.stdout.fnmatch_lines([f"  {file}::test_plane: AssertionError: the machine was busy"])


def test_it_is_in_use(pytestconfig: pytest.Config) -> None:
    """In this very run."""
    assert pytestconfig.pluginmanager.has_plugin("tests.second_try")


def test_nothing_is_told_of_a_good_run(pytester: pytest.Pytester) -> None:
    """Nor is anything tried again for somebody who debugs, which the plugin would refuse."""
    pytester.makeconftest(CONFTEST)
    pytester.makeini(INI)
    pytester.makepyfile("import pytest\n\n@pytest.mark.node\ndef test_well():\n    pass\n")
    result = pytester.runpytest_subprocess("--pdb")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*second try*")
