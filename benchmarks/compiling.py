"""How long reviews wait while mappings are compiled: ``python -m benchmarks.compiling``. Half a minute.

The server process compiles and probes fifty documents that it has never seen, again and again, as after a chart upgrade that
touches every ConfigMap; the client sends reviews meanwhile, one at a time, so that nothing but the compiling is in their way.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.client import Client
from benchmarks.processes import CLIENT_CORE, started, webhook
from benchmarks.streams import different
from certs.rotation import Rules
from certs.store import Directory, Serving
from webhook import labels
from webhook.admission import decide
from webhook.cluster.policy.choose import policy_of
from webhook.cluster.policy.documents import MAPPING_KEY, ConfigMap, DocumentCache
from webhook.mapping.load import load_policy
from webhook.replica.run import SWITCH_INTERVAL, Certificates, Options, Service, logger, running
from webhook.replica.run import started as begun
from webhook.server.http import Endpoint
from webhook.server.metrics import settle_memory
from webhook.server.reviews import Current, Described, Knowledge

TEMPLATE: Final = """\
extends: nvidia
vendor: {name}
family: {name}
keys:
  gpu: {{resource: {name}.example.com/gpu}}
  gpumem: {{resource: {name}.example.com/gpumem}}
  gpumem-percentage: {{resource: {name}.example.com/gpumem-percentage}}
  gpucores: {{resource: {name}.example.com/gpucores}}
  priority: {{resource: {name}.example.com/priority}}
"""

DOCUMENTS: Final = 50
SECONDS: Final = 10.0
LOCAL: Final = Endpoint("127.0.0.1", 0)


def unseen(generation: int) -> list[ConfigMap]:
    """Fifty ConfigMaps whose documents no one has compiled before."""
    return [
        ConfigMap(
            f"vendor-{number:02}",
            {MAPPING_KEY: TEMPLATE.format(name=f"vendor-{number:02}") + f"about: generation {generation}\n"},
            {labels.MAPPING: "true"},
            f"uid-{number}",
            f"2026-01-01T00:00:{number:02}Z",
            str(generation),
        )
        for number in range(DOCUMENTS)
    ]


async def serve(state: Path) -> None:
    """Serve until the process is ended, compiling all the time, and print the port."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    policy = load_policy()
    log = logger("error")
    certificates = Certificates(Serving(), log)
    certificates.keep(Directory(state), Rules("benchmark", ("localhost", "127.0.0.1")))
    await begun(certificates)
    known = Knowledge(Current(policy), Described({}, policy.settings.opt_in_label), "privileged")
    service = Service(decide, known, certificates, log)
    async with running(service, Options(LOCAL, LOCAL)) as addresses:
        settle_memory()
        print(addresses.mutate.port, flush=True)
        generation = 0
        while True:
            generation += 1
            await asyncio.to_thread(policy_of, unseen(generation), {}, DocumentCache())


def main() -> None:
    """Measure with and without compiling, and print."""
    os.sched_setaffinity(0, {CLIENT_CORE})
    with tempfile.TemporaryDirectory() as temporary:
        state = Path(temporary) / "state"
        with (
            webhook("at rest", state) as resting,
            started("compiling", "benchmarks.compiling", str(state)) as compiling,
        ):
            for server in (resting, compiling):
                sent = different().bodies
                with contextlib.closing(Client(server, state / "ca.crt", sent, connections=1)) as client:
                    client.run(seconds=1)
                    sample = client.run(seconds=SECONDS)
                print(
                    f"{server.name:<10} {sample.rate:>8,.0f} reviews/s, p50 {sample.percentile(0.5) * 1e3:.2f} ms, "
                    f"p99 {sample.percentile(0.99) * 1e3:.2f} ms, slowest {max(sample.latencies) * 1e3:.2f} ms"
                )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(serve(Path(sys.argv[1])))
    else:
        main()
