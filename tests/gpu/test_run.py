"""The run on a real GPU, as far as none is needed: what it takes for promised is written, and the page shows the last."""

import json
from pathlib import Path

from tests.decisions.test_cases import CASES, decided_in, pod_in
from tests.ways_out import UNSEEN, WAYS_OUT

from .page import SEEN, page
from .pods import containers
from .ways import ways

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_what_was_promised_is_what_is_stored() -> None:
    """Counted by hand, and written by the webhook: the same amounts, for ten pods of eight vendors or more."""
    assert len({each.case for each in containers()}) == 10
    assert len({each.vendor for each in containers()}) >= 8
    for each in containers():
        assert each.environment["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{each.memory}m", each.title
        cores = None if each.cores is None else str(each.cores)
        assert each.environment.get("CUDA_DEVICE_SM_LIMIT_0") == cores, each.title
        assert {path for path, name in each.mounts.items() if name is None} == {"/usr/local/vgpu-shim"}


def test_the_page_is_what_was_seen() -> None:
    """docs/gpu.md is made of the last run on a GPU: of these containers and ways, with nothing that was not as promised."""
    seen = json.loads(SEEN.read_text())
    assert (ROOT / "docs/gpu.md").read_text() == page(seen), "run `make docs`"
    rows = seen["rows"]
    assert [each for each in rows if each["failures"] or each["ok"] is False] == []
    promised = {(each.title, f"{each.memory} MiB") for each in containers()}
    for kind in ("memory", "torch"):
        held = {(each["name"], each["promised"]) for each in rows if each["kind"] == kind and each["ok"]}
        assert held - {("without the library", "the whole device")} == promised
    cores = {(f"{each.title}, alone", f"{each.cores} %") for each in containers() if each.cores is not None}
    assert cores <= {(each["name"], each["promised"]) for each in rows if each["kind"] == "cores" and each["ok"]}
    lifting = {each.variable for each in ways(Path("/"), "") if not each.why}
    closed = {each["name"] for each in rows if each["kind"] == "way" and each["promised"] == "closed"}
    assert closed <= {each.variable for each in ways(Path("/"), "")}
    assert lifting <= closed == {each["name"] for each in rows if each["kind"] == "way" and each["ok"]}


def test_ways_are_closed() -> None:
    """In `env` each is denied, or stays behind the shim's own; from `envFrom` it gives way if the row says so."""
    container = containers()[0]
    folder = CASES / container.case
    tried = ways(Path("/opt/own"), "/usr/lib/libcuda.so.1")
    for way in tried:
        pod = json.loads(pod_in(folder))
        pod["spec"]["containers"][0]["env"] = [{"name": way.variable, "value": way.value}]
        decision = decided_in(folder, pod)
        assert (decision.denial is None) == (way.variable == "LD_PRELOAD"), way.variable
        assert way.under == (way.variable in container.environment), way.variable
        assert way.closed(container.environment).items() >= container.environment.items()
    names = {name for _, each in WAYS_OUT for name in (one["name"] for one in each.container.get("env", []))}
    assert names - {each.variable for each in tried} == {"NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"}
    assert UNSEEN.keys() - {each.variable for each in tried} == {"LD_LIBRARY_PATH"}
