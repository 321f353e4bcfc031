"""What ten thousand namespaces cost: ``python -m benchmarks.namespaces [COUNT]`` measures it on a real API server.

One process holds them all; how long until it does, how much memory that takes, how long its loop was held up meanwhile,
and how long the news of one namespace is under way. Needs what the tests on the control plane need; about a minute.
"""

import asyncio
import gc
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import structlog

from tests.controlplane.build import find
from tests.controlplane.plane import ControlPlane
from webhook.cluster.client import Api
from webhook.cluster.connection import connect
from webhook.cluster.namespaces import PATH, Namespaces

COUNT: Final = 10_000
WRITERS: Final = 24
NEWS: Final = 50
INJECT: Final = "vgpu-webhook.io/inject"


def name_of(count: int, number: int) -> str:
    """The name of a namespace; other counts have other names, so that one API server can be filled several times."""
    return f"namespace-{count}-{number:05}"


async def fill(api: Api, count: int) -> None:
    """Create namespaces as platforms make them: some labels, one annotation of ours, a long one of others."""
    numbers = iter(range(count))

    async def write() -> None:
        for number in numbers:
            labels = {
                INJECT: "enabled",
                "pod-security.kubernetes.io/enforce": "baseline",
                "team.example.com/name": f"team-{number % 200}",
                "team.example.com/cost-centre": f"{number % 50}",
            }
            annotations = {"vgpu-webhook.io/default-memory": "4Gi", "example.com/applied": "x" * 600}
            metadata = {"name": name_of(count, number), "labels": labels, "annotations": annotations}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            (await api.request("POST", PATH, body=body, seconds=30)).accepted()

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(write())


async def follow(kubeconfig: Path, count: int) -> None:
    """Hold them all, and print what that took."""
    api = await connect(kubeconfig)
    # The first request imports and opens what every process has, with namespaces or without.
    await api.request("GET", "/version")
    namespaces = Namespaces(api, structlog.get_logger())
    gc.collect()
    before, stalls = memory(), [0.0]
    async with asyncio.TaskGroup() as group:
        stalled = group.create_task(watch_the_loop(stalls))
        begun, used = time.perf_counter(), time.process_time()
        running = group.create_task(namespaces.reflector.run())
        await namespaces.reflector.synced.wait()
        took, cpu = time.perf_counter() - begun, time.process_time() - used
        held = len(namespaces.reflector.objects)
        assert held >= count
        gc.collect()
        more = memory() - before
        print(
            f"{held} namespaces: synced in {took:.2f} s ({cpu:.2f} s of CPU), loop held up {max(stalls) * 1000:.0f} ms"
        )
        print(f"memory: {before:.1f} MiB before, {more:.1f} MiB more: {more * 1024 * 1024 / held:.0f} bytes each")
        delays = [await news(api, namespaces, name_of(count, number)) for number in range(NEWS)]
        low, middle, high = min(delays) * 1000, statistics.median(delays) * 1000, max(delays) * 1000
        print(
            f"news of one: {middle:.1f} ms from the API server's answer to the change (median; {low:.1f} to {high:.1f})"
        )
        fetched = []
        for number in range(NEWS):
            name = f"fetched-{count}-{number}"
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            (await api.request("POST", PATH, body=body)).accepted()
            begun = time.perf_counter()
            await namespaces.request(name)
            fetched.append(time.perf_counter() - begun)
        print(f"fetching one: {statistics.median(fetched) * 1000:.1f} ms (median), {max(fetched) * 1000:.1f} at most")
        running.cancel()
        stalled.cancel()
    await api.close()


async def news(api: Api, namespaces: Namespaces, name: str) -> float:
    """Seconds from the answer to a change until the change is known; 0 if it was known before."""
    value = "changed"
    body = {"metadata": {"labels": {INJECT: value}}}
    (await api.request("PATCH", f"{PATH}/{name}", body=body, content_type="application/merge-patch+json")).accepted()
    begun = time.perf_counter()
    while (view := namespaces.lookup(name)) is None or view.labels[INJECT] != value:  # noqa: ASYNC110  # to the turn of the loop
        await asyncio.sleep(0)
    return time.perf_counter() - begun


async def watch_the_loop(stalls: list[float]) -> None:
    """Note how late the loop is for what should be done every millisecond."""
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(0.001)
        stalls.append(time.perf_counter() - begun - 0.001)


def memory() -> float:
    """Resident MiB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1024 / 1024


async def prepare(kubeconfig: Path, count: int) -> None:
    """Fill the API server."""
    api = await connect(kubeconfig)
    begun = time.perf_counter()
    await fill(api, count)
    print(f"{count} namespaces created in {time.perf_counter() - begun:.0f} s", flush=True)
    await api.close()


def main() -> None:
    """Start a control plane, fill it, and follow it from another process."""
    if len(sys.argv) == 3:
        asyncio.run(follow(Path(sys.argv[1]), int(sys.argv[2])))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    with tempfile.TemporaryDirectory() as folder, ControlPlane(find(), Path(folder)) as plane:
        asyncio.run(prepare(plane.kubeconfig, count))
        subprocess.run([sys.executable, "-m", "benchmarks.namespaces", str(plane.kubeconfig), str(count)], check=True)


if __name__ == "__main__":
    main()
