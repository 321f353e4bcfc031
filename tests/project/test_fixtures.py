"""The watchdogs of conftest.py bite."""

from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


@pytest.fixture
def watched(pytester: pytest.Pytester) -> pytest.Pytester:
    """Give a scratch project with our conftest.py."""
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makeini("[pytest]\nstrict = true\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


def test_leaked_task_fails(watched: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that leaves a task behind fails, and the task is named; what a fixture starts and stops itself is no leak.

    Settings of whoever runs the tests don't reach them.
    """
    monkeypatch.setenv("VGPU_WEBHOOK_TARGET", "theirs")
    watched.makepyfile("""
        import asyncio
        import os
        import pytest

        async def forgotten():
            await asyncio.sleep(60)

        async def test_leaks():
            test_leaks.task = asyncio.create_task(forgotten())

        async def test_cancels():
            asyncio.create_task(forgotten()).cancel()

        async def test_waits():
            await asyncio.create_task(asyncio.sleep(0))

        @pytest.fixture
        async def ticking():
            task = asyncio.create_task(asyncio.sleep(60))
            yield task
            task.cancel()

        async def test_uses(ticking):
            assert not ticking.done()

        def test_clean():
            assert not [name for name in os.environ if name.startswith("VGPU_WEBHOOK_")]
    """)
    result = watched.runpytest()
    result.assert_outcomes(passed=5, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_leaks*", "*tasks left behind: *forgotten*"])


def test_blocking_call_fails(watched: pytest.Pytester) -> None:
    """Our code may block in a thread or without a loop, never on the loop."""
    watched.makepyfile("""
        import asyncio
        import time
        import webhook

        ours = {"time": time}
        exec(compile("def nap(): time.sleep(0)", webhook.__path__[0] + "/nap.py", "exec"), ours)

        async def test_on_the_loop():
            ours["nap"]()

        async def test_in_a_thread():
            await asyncio.to_thread(ours["nap"])

        async def test_not_ours():
            time.sleep(0)

        def test_without_a_loop():
            ours["nap"]()
    """)
    result = watched.runpytest()
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*_ test_on_the_loop _*", "E *BlockingError: Blocking call to time.sleep"])
