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


@pytest.mark.controlplane
def test_plane(tried):
    fails_first(tried)


@pytest.mark.node
def test_node(tried):
    fails_first(tried)


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


def test_pure(tried):
    fails_first(tried)


@pytest.mark.node
@pytest.mark.once
def test_once(tried):
    fails_first(tried)


@pytest.mark.controlplane
@pytest.mark.faults
def test_fault(tried):
    fails_first(tried)


@pytest.fixture
def broken(tried):
    fails_first(tried)


@pytest.mark.controlplane
def test_fixture(broken):
    pass


@pytest.fixture
def lingers(tried):
    yield
    fails_first(tried)


@pytest.mark.controlplane
def test_end(lingers):
    pass
'''
TRIED = {
    "plane": 2,
    "node": 2,
    "page": 2,
    "always": 2,
    "well": 1,
    "pure": 1,
    "once": 1,
    "fault": 1,
    "fixture": 2,
    "end": 2,
}


@pytest.mark.parametrize("shared", [[], ["-n", "2", "--dist", "loadgroup"]], ids=["alone", "shared"])
def test_who_is_tried_again(pytester: pytest.Pytester, shared: list[str]) -> None:
    """On a control plane, a node or in a browser, with fixtures of its own, once more, and told; nothing else."""
    pytester.makeconftest(CONFTEST)
    pytester.makeini(INI)
    folder = pytester.mkdir("tests") / "controlplane"
    folder.mkdir()
    (folder / "test_tries.py").write_text(TESTS)
    result = pytester.runpytest_subprocess(*shared)
    assert {path.stem.removeprefix("test_"): len(path.read_text()) for path in folder.glob("*.tried")} == TRIED
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
