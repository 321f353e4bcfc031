"""What the doctor reads, it reads by several threads at once."""

import subprocess
import sys

AT_ONCE = """
import asyncio, sys
import msgspec
from webhook.cluster.client.api import Answer
from webhook.cluster.client.api import list_objects

PAGE = b'{"metadata": {}, "items": [{"inner": {"text0": "x"}, "more1": [{"text3": "y"}]}]}'

class Pages:
    async def request(self, *_, **__):
        await asyncio.sleep(0)
        return Answer(200, PAGE)

async def main():
    for number in range(1000):
        texts = [(f"text{each}", str, "") for each in range(20)]
        inner = msgspec.defstruct(f"Inner{number}", texts)
        lists = [(f"more{each}", list[inner], msgspec.field(default_factory=list)) for each in range(20)]
        kind = msgspec.defstruct(f"Outer{number}", [("inner", inner), *lists])
        found = await asyncio.gather(*(list_objects(Pages(), "/things", kind) for _ in range(4)))
        assert all(one.inner.text0 == "x" for (one,) in found)

sys.setswitchinterval(1e-6)
asyncio.run(main())
"""
"""In a process of its own: the library ends one in which two threads meet a type for the first time at once."""


def test_types_that_are_met_for_the_first_time_at_once() -> None:
    """`check` reads pods, nodes and ConfigMaps side by side."""
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}"
