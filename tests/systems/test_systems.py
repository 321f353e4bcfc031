"""What the schedulers of real systems do with the pods that the webhook writes for them, and both webhooks in both orders.

``SYSTEMS=volcano,kai`` picks some. ``--update-golden`` writes `expected/` anew: read the difference, for it is a change of the
webhook or of a system.
"""

from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane

from . import programs
from .gpushare import GPUSHARE
from .hami import HAMI
from .kai import KAI
from .koordinator import KOORDINATOR, KOORDINATOR_GATED
from .outcomes import ORDERS, POLICIES, Result, table, tell, tried
from .place import Place, System, make_certificate
from .shapes import shapes
from .vgpu_manager import VGPU_MANAGER
from .volcano import VOLCANO, VOLCANO_WITH_PERCENTAGE

pytestmark = [pytest.mark.systems, pytest.mark.timeout(3600)]

SYSTEMS = {
    system.name: system
    for system in (
        *(HAMI, VOLCANO, VOLCANO_WITH_PERCENTAGE, KAI, KOORDINATOR, KOORDINATOR_GATED),
        *(VGPU_MANAGER, GPUSHARE),
    )
}
CHOSEN = programs.chosen(SYSTEMS)
EXPECTED = Path(__file__).with_name("expected")


@pytest.fixture(scope="module", params=CHOSEN)
def system(request: pytest.FixtureRequest) -> System:
    """Each system that was chosen."""
    return SYSTEMS[request.param]


@pytest.fixture(scope="module")
def result(
    system: System, control_plane: ControlPlane, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Result:
    """What became of every shape."""
    folder = tmp_path_factory.mktemp(system.name)
    found_in = programs.SYSTEMS[system.name].folder()
    place = Place(control_plane, folder, f"systems-{system.name}", make_certificate(folder), found_in, [])
    found = tried(system, place)
    tell(pytestconfig, system.name, found.seconds, found.memory_mib)
    return found


def test_outcomes(system: System, result: Result, *, update_golden: bool) -> None:
    """Each shape has the outcome that was stated."""
    golden = EXPECTED / f"{system.name}.txt"
    text = table(system, result)
    if update_golden:
        golden.write_text(f"{programs.first_line(programs.SYSTEMS[system.name])}\n\n{text}")
    assert text == golden.read_text().partition("\n\n")[2]


def test_promises(system: System, result: Result) -> None:
    """Whatever is placed was given what its user was promised, and what has room is placed or denied with a reason."""
    broken = {}
    for shape in shapes():
        outcome = result.outcomes[shape.name]
        if outcome.given is not None:
            promise = shape.promised(system.target)
            kept = shape.room and outcome.given.keys() == promise.keys()
            if not (kept and all(outcome.given[name].keeps(promise[name]) for name in promise)):
                broken[shape.name] = str(outcome)
        elif outcome.pending and shape.room and not system.lacking:
            broken[shape.name] = str(outcome)
    assert not broken
    assert not system.lacking or all(outcome.given is None for outcome in result.outcomes.values()), (
        "it serves: state nothing lacking"
    )


def test_check_tells_what_the_order_changes(system: System, result: Result) -> None:
    """A webhook before ours that is called once or twice makes different pods only where `check` says so: Volcano's appends.

    After ours, it is called once under either policy.
    """
    if not result.orders:
        pytest.skip("it has no webhook")
    before, after = ([result.orders[order, policy] for policy in POLICIES] for order in ORDERS)
    assert after[0] == after[1]
    once, again = (result.told["theirs first", policy] for policy in POLICIES)
    if before[0] != before[1]:
        assert "not again afterwards" in once
        assert "again afterwards, when it may append twice" in again
    if system.target == VOLCANO.target:
        shape = "volcano-resource-group"
        assert [each[shape] for each in (*before, after[0])] == [f"tolerations: {count} entries" for count in (3, 4, 3)]
