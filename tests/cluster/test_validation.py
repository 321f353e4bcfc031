"""The validating webhook configuration: made, read and compared by the functions of the mutating one."""

import asyncio
import datetime as dt
from dataclasses import replace
from itertools import combinations
from typing import Any, cast

import pytest
import structlog

from tests.cluster.fake_api import FakeApi
from webhook.cluster.registration.desired import (
    CONFIG_MAPS,
    HIDE,
    KINDS,
    MUTATING,
    PODS,
    VALIDATING,
    WORKLOADS,
    Desired,
    ServiceReference,
    Site,
    desired_from,
    registration,
)
from webhook.cluster.registration.observed import Version, read_observed
from webhook.cluster.registration.reconciler import SETTLE, Watched, settled, watch_registration
from webhook.cluster.registration.update import Severity, Writer, differences, fails_open, keeps_out, update_for
from webhook.mapping.document.settings import SUBJECTS
from webhook.mapping.load import load_policy

SITE = Site(ServiceReference("gpu", "webhook"), b"", "gpu")
WANT = replace(desired_from(load_policy(), VALIDATING), subjects=frozenset({"pods", "workloads", "configMaps"}))
ALL = [frozenset(some) for number in range(len(SUBJECTS) + 1) for some in combinations(SUBJECTS, number)]
NOW = dt.datetime(2026, 5, 4, 12, tzinfo=dt.UTC)


def made(desired: Desired = WANT, **changes: Any) -> dict[str, Any]:
    """The configuration, with changes in each webhook."""
    found = registration(desired, SITE, version="1.2.0")
    return found | {"webhooks": [webhook | changes for webhook in found["webhooks"]]}


def test_what_is_on_by_default() -> None:
    """What can deny no pod: updates need the users of schedulers in mappings, and `pods` replicas that agree."""
    default = desired_from(load_policy(), VALIDATING)
    webhooks = made(default)["webhooks"]
    assert [webhook["name"] for webhook in webhooks] == [WORKLOADS, CONFIG_MAPS]
    assert [webhook["failurePolicy"] for webhook in webhooks] == ["Ignore", "Ignore"]
    assert set(SUBJECTS) - default.subjects == {"pods", "updates"}
    assert [webhook["failurePolicy"] for webhook in made()["webhooks"]] == ["Fail", "Ignore", "Ignore"]


def test_no_other_fields_than_the_kind_has() -> None:
    """The API server rejects a validating webhook that is to be called again."""
    assert all("reinvocationPolicy" not in webhook for webhook in made()["webhooks"])
    assert {webhook["clientConfig"]["service"]["path"] for webhook in made()["webhooks"]} == {"/validate"}


@pytest.mark.parametrize("subjects", ALL, ids=lambda subjects: ",".join(sorted(subjects)) or "none")
def test_it_is_read_as_it_was_made(subjects: frozenset[str]) -> None:
    """Whichever are on: nothing differs, and nothing is written."""
    desired = replace(WANT, subjects=subjects)
    found = made(desired)
    read = read_observed(found, kind=VALIDATING)
    assert read.desired is not None
    assert (read.desired.subjects, read.desired.matched_names) == (subjects, desired.matched_names)
    assert differences(found, desired, SITE, []) == []
    assert update_for(found, read, Writer(Version("1.2.0"), desired, SITE, announced=True), quiet=True) is None
    assert fails_open(found, desired) is False
    if not subjects:
        del found["webhooks"]  # as an API server returns it
        assert update_for(found, read, Writer(Version("1.2.0"), desired, SITE, announced=True), quiet=True) is None


def test_hidden_devices() -> None:
    """Every other pod is sent, by a webhook of its own that holds up none; off by default."""
    off = desired_from(load_policy())
    assert HIDE not in {each["name"] for each in registration(off, SITE)["webhooks"]}
    desired = replace(off, subjects=frozenset({"hide"}))
    found = registration(desired, SITE, version="1.2.0")
    hide = next(each for each in found["webhooks"] if each["name"] == HIDE)
    assert (hide["failurePolicy"], hide["reinvocationPolicy"]) == ("Ignore", "IfNeeded")
    enforce = found["webhooks"][0]
    assert hide["namespaceSelector"] == enforce["namespaceSelector"]
    read = read_observed(found, kind=MUTATING)
    assert read.desired == desired
    assert differences(found, desired, SITE, []) == []
    assert [each.webhook for each in differences(registration(off, SITE), desired, SITE, [])] == [HIDE]


def test_further_kinds() -> None:
    """A replica that does not know them yet leaves them; one that knows them adds them at once, with their group."""
    further = replace(WANT, digest="1" * 12, kinds=WANT.kinds | {"example.com/TrainJob"})
    configuration = made(further)
    read = read_observed(configuration, kind=VALIDATING)
    assert read.desired is not None
    assert read.desired.kinds == further.kinds
    behind = Writer(Version("1.2.0"), replace(WANT, digest="0" * 12), SITE, announced=True)
    assert update_for(configuration, read, behind, quiet=False) is None
    update = update_for(made(), read_observed(made(), kind=VALIDATING), replace(behind, desired=further), quiet=False)
    assert update is None  # announced, and not quiet: the other policy may be the newer one
    update = update_for(
        made(), read_observed(made(), kind=VALIDATING), replace(behind, desired=further, announced=False), quiet=False
    )
    assert update is not None
    written = {each["name"]: each for each in update.configuration["webhooks"]}[WORKLOADS]
    assert "example.com" in written["rules"][-1]["apiGroups"]
    assert "'example.com/TrainJob'" in written["matchConditions"][0]["expression"]
    assert [fault.webhook for fault in differences(made(), further, SITE, [])] == [WORKLOADS, WORKLOADS]


def test_switched_on_and_off() -> None:
    """One that is missing is added, also where others maintain the rest; one that is not wanted is removed."""
    none, pods = (
        replace(WANT, digest=digits, subjects=frozenset(some))
        for digits, some in (("0" * 12, ()), ("1" * 12, {"pods"}))
    )
    (missing,) = differences(made(none), pods, SITE, [])
    assert (missing.webhook, missing.severity) == (PODS, Severity.KEEPS_OUT)
    for found, desired, names in ((none, pods, [PODS]), (pods, none, [])):
        configuration = made(found)
        read = read_observed(configuration, kind=VALIDATING)
        update = update_for(configuration, read, Writer(Version("1.2.0"), desired, SITE), quiet=False)
        assert update is not None
        assert [webhook["name"] for webhook in update.configuration["webhooks"]] == names


@pytest.mark.parametrize(
    "changes, faulty",
    [
        ({"rules": []}, {PODS, WORKLOADS, CONFIG_MAPS}),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, {PODS, WORKLOADS, CONFIG_MAPS}),
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, {PODS, WORKLOADS, CONFIG_MAPS}),
        ({"matchConditions": [{"name": "gpu-keys", "expression": "false"}]}, {PODS, WORKLOADS, CONFIG_MAPS}),
    ],
)
def test_what_keeps_something_out(changes: dict[str, Any], faulty: set[str]) -> None:
    """The same comparison as for the mutating configuration finds it in each webhook."""
    found = differences(made(**changes), WANT, SITE, [])
    assert keeps_out(found)
    assert {each.webhook for each in found if each.severity is not Severity.SLIGHT} == faulty


@pytest.mark.parametrize(
    "mutating, validating, expected",
    [
        (None, None, True),
        (dt.timedelta(), None, True),  # both are about to be created
        (dt.timedelta(days=1), None, False),  # an upgrade: only the mutating one is there
        (dt.timedelta(days=1), dt.timedelta(seconds=SETTLE - 1), False),
        (dt.timedelta(days=1), dt.timedelta(seconds=SETTLE + 1), True),
        (dt.timedelta(seconds=40), dt.timedelta(seconds=30), True),
    ],
)
async def test_an_upgrade_fails_open_at_first(
    mutating: dt.timedelta | None, validating: dt.timedelta | None, *, expected: bool
) -> None:
    """Replicas of a version without `/validate` answer 404: until they are gone, no pod waits for an answer."""
    await asyncio.sleep(0)
    reflectors = [watch_registration(FakeApi(), lambda: None, structlog.get_logger(), kind) for kind in KINDS]
    for reflector, age in zip(reflectors, (mutating, validating), strict=True):
        if age is not None:
            created = (NOW - age).isoformat().replace("+00:00", "Z")
            cast("dict[str, Watched]", reflector.objects)["00-vgpu-webhook"] = Watched("1", (), created)
    assert settled(reflectors[0], reflectors[1], NOW) is False  # nothing is known yet
    reflectors[0].synced.set()
    assert settled(reflectors[0], reflectors[1], NOW) is expected


def test_both_are_kinds_of_one_table() -> None:
    """Their resources are named as the API names them."""
    assert [kind.plural for kind in KINDS] == ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    assert MUTATING.collection.endswith("/v1/mutatingwebhookconfigurations")
