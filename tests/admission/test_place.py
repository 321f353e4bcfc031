"""Placing: where a pod's devices are, without overwriting what its user wrote; single rules are in `told/place.yaml`."""

from typing import Any

import pytest

from tests.admission.scene import WHOLE, Held, Outcome, Scene, pod, run, vendor
from tests.naming import each_of
from webhook.admission.placement import place_pod
from webhook.mapping.model.vendor import Vendor
from webhook.reasons import Denied, Reason


def placed(sent: dict[str, Any], *held: Held, **settings: Any) -> Outcome:
    """What placing makes of a pod."""
    return run(place_pod, sent, Scene(held, settings=settings))


def refusal(sent: dict[str, Any], *held: Held, **settings: Any) -> Denied:
    """Why placing refuses a pod."""
    with pytest.raises(Denied) as caught:
        placed(sent, *held, **settings)
    assert len(caught.value.finding.message) <= 200
    return caught.value


def needing(scheduler: str | None, name: str = "acme", **place: Any) -> Vendor:
    """A vendor whose devices are placed by this scheduler."""
    return vendor(name, place={"scheduler": scheduler, **place})


@each_of(
    "current, source, target, after",
    [
        (None, "one", "one", "one"),
        ("", "one", "one", "one"),
        ("default-scheduler", "one", "one", "one"),
        ("one", "one", "one", "one"),
        (None, "default-scheduler", "default-scheduler", None),
        ("default-scheduler", "default-scheduler", "default-scheduler", "default-scheduler"),
        ("one", "one", "two", "two"),
        ("other-of-one", "one", "two", "two"),
        ("one", "one", "default-scheduler", "default-scheduler"),
        ("one", "one", None, "default-scheduler"),
        ("other-of-one", "one", None, "default-scheduler"),
        ("default-scheduler", "one", None, "default-scheduler"),
        (None, "one", None, None),
        ("mine", "one", None, "mine"),
    ],
)
def test_scheduler_nobody_chose_is_replaced(
    current: str | None, source: str | None, target: str | None, after: str | None
) -> None:
    """An absent, default or source's scheduler becomes the target's; one warning names both where that is another."""
    spec = {} if current is None else {"schedulerName": current}
    source_vendor = needing(source, "source", schedulers=["other-of-one"] if source == "one" else [])
    held = Held(source_vendor) if source == target else Held(needing(target, "target"), source=source_vendor)
    outcome = placed(pod(**spec), held)
    assert outcome.spec.get("schedulerName") == after
    before = current or "default-scheduler"
    if (after or "default-scheduler") == before:
        assert outcome.findings == ()
    else:
        assert outcome.reasons == [Reason.SCHEDULER_SET]
        assert f"set to {after} (was {before})" in outcome.findings[0].message


def test_vendors_that_share_a_scheduler_are_placed_by_it() -> None:
    """Of two vendors' schedulers the one that suits both is taken; a vendor that names none takes any."""
    sent = pod({"name": "a"}, {"name": "b"}, {"name": "c"})
    held = (
        Held(needing("one", "first", schedulers=["both"])),
        Held(needing(None, "second")),
        Held(needing("both", "third")),
    )
    assert placed(sent, *held).spec["schedulerName"] == "both"


def test_vendors_that_want_different_values_are_refused() -> None:
    """A pod has one value of each field: two mappings that need different ones cannot share it."""
    held = [Held(vendor(name, place={"nodeSelector": {"card": name}})) for name in ("first", "second")]
    refused = refusal(pod({"name": "a"}, {"name": "b"}), *held)
    assert refused.finding.reason is Reason.CONTAINERS_DISAGREE
    assert "nodeSelector card" in refused.finding.message


def test_vendors_that_want_different_runtime_classes_are_refused() -> None:
    """The denial names the field, both vendors and what each needs."""
    held = [Held(vendor(name, place={"runtimeClassName": f"of-{name}"})) for name in ("first", "second")]
    refused = refusal(pod({"name": "a"}, {"name": "b"}), *held)
    assert refused.finding.message.startswith("runtimeClassName: first needs of-first and second needs of-second")


@pytest.mark.parametrize(
    "held",
    [Held(vendor(), WHOLE), Held(vendor(privileged="allow")), Held(vendor(privileged="allow"), source=vendor("b"))],
)
def test_privileged_container_is_let_be(held: Held) -> None:
    """Whole devices may be requested by a privileged container, and a share where the target's mapping allows it."""
    sent = pod({"name": "main", "securityContext": {"privileged": True}})
    assert placed(sent, held).patch == ()
