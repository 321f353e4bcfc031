"""What holds for every test: nothing is left running, nothing blocks the event loop, the environment is clean."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import hypothesis
import pytest
from blockbuster import blockbuster_ctx

from tests.sharing import ByCluster, in_order
from tests.waiting import turns

pytest_plugins = ["tests.controlplane.fixtures", "tests.remembering", "tests.second_try"]

# Not a slow machine's business: a generator that is too slow shows in the duration of the run.
hypothesis.settings.register_profile(
    "fast",
    max_examples=20,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("deep", hypothesis.settings.get_profile("fast"), max_examples=100)
hypothesis.settings.register_profile(
    "nightly", hypothesis.settings.get_profile("fast"), max_examples=3000, derandomize=False
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that rewrites golden files."""
    parser.addoption("--update-golden", action="store_true", help="write what the code does now as what is expected")


def pytest_configure() -> None:
    """Take away the settings of whoever runs the tests; search all objects for garbage rarely: tests leave it young."""
    for name in list(os.environ):
        if name.startswith("VGPU_WEBHOOK_"):
            del os.environ[name]
    gc.set_threshold(20_000, 10, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs programs that Go builds, and begin with what takes longest."""
    for item in items:
        elsewhere = item.get_closest_marker("node") or item.get_closest_marker("systems")
        if "built" in getattr(item, "fixturenames", ()) and not elsewhere:
            item.add_marker("controlplane")
    items[:] = in_order(items)


def pytest_collection_finish() -> None:
    """Spare the garbage collector what lives until the end of the run."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """One process more than there are cores: in some tests most is waiting."""
    return (yield) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCluster | None:
    """Keep together, where several processes share the tests, what shares a cluster."""
    return ByCluster(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.fixture(scope="session")
def update_golden(pytestconfig: pytest.Config) -> bool:
    """Whether golden files are to be rewritten instead of compared."""
    return bool(pytestconfig.getoption("--update-golden"))


@pytest.fixture(autouse=True)
def _well_behaved_loop(request: pytest.FixtureRequest) -> None:
    """Watch the event loop of asynchronous tests; the others have none, and pay for none."""
    if request.node.get_closest_marker("asyncio"):
        request.getfixturevalue("_no_leaked_tasks")
        request.getfixturevalue("_no_blocking_calls")


@pytest.fixture
async def _no_leaked_tasks() -> AsyncIterator[None]:
    """Fail a test that leaves a task behind, once its other fixtures have cleaned up."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        # A cancelled task needs a turn of the loop to end.
        await turns()
        left = {task for task in left if not task.done()}
    if left:
        pytest.fail("tasks left behind: " + ", ".join(sorted(str(task.get_coro()) for task in left)))


@pytest.fixture
def _no_blocking_calls() -> Iterator[None]:
    """Fail a test in which our own code makes a blocking call on the loop; a test's own file access is its business."""
    with blockbuster_ctx(["webhook", "certs"]) as blockbuster:
        # `make coverage` counts in threads, too, and takes its own lock for that.
        blockbuster.functions["threading.Lock.acquire"].can_block_in("coverage/collector.py", "lock_data")
        yield
