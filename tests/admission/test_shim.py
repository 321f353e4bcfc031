"""The shim: how it is delivered, second passes, and what holds for any search path; single rules are in `told/shim.yaml`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.admission.scene import (
    MIB,
    SHIM,
    Held,
    Outcome,
    Scene,
    elsewhere,
    env,
    pod,
    run,
    run_once,
    vendor,
)
from tests.naming import each_of
from webhook.admission.decision import Namespace, PodSecurityLevel
from webhook.admission.shim import inject_shim
from webhook.mapping.model.shim import has_empty_element, preload_list, search_path
from webhook.reasons import Denied, Reason
from webhook.request import ALL, UNLIMITED, Percent, Request, Size

ACME = vendor(shim=SHIM)
VOLUMES = [
    {"name": "lib", "hostPath": {"path": "/opt/host-lib", "type": "Directory"}},
    {"name": "state", "emptyDir": {"sizeLimit": "64Mi"}},
]
MOUNTS = [
    {"name": "lib", "mountPath": "/opt/lib", "readOnly": True},
    {"name": "state", "mountPath": "/tmp/lock", "subPath": "lock"},
    {"name": "state", "mountPath": "/tmp/cache", "subPath": "cache"},
]
ENV = {
    "LD_LIBRARY_PATH": "/opt/lib:/usr/lib/a:/usr/lib/b",
    "LD_PRELOAD": "/opt/lib/limit.so",
    "ACME_MEMORY": "3000m",
    "ACME_LIBRARY": "/opt/lib/limit.so",
    "ACME_CACHE": "/tmp/cache/main.cache",
}
NAMESPACE = Namespace("team")


def injected(
    sent: dict[str, Any] | None = None,
    held: Held | None = None,
    *,
    namespace: Namespace = NAMESPACE,
    security: PodSecurityLevel = "privileged",
    **settings: Any,
) -> Outcome:
    """What injecting makes of a pod with one container that holds a share."""
    return run(inject_shim, sent or pod(), Scene([held or Held(ACME)], namespace, security, settings=settings))


def with_env(*entries: tuple[str, str] | dict[str, Any], held: Held | None = None, **rest: Any) -> Outcome:
    """What injecting makes of a container with these variables."""
    return injected(pod({"name": "main", "env": env(*entries), **rest}), held)


def refusal(sent: dict[str, Any], held: Held | None = None) -> Denied:
    """Why injecting refuses a pod."""
    with pytest.raises(Denied) as caught:
        injected(sent, held)
    assert len(caught.value.finding.message) <= 200
    return caught.value


def assert_untouched(outcome: Outcome) -> None:
    """Nothing of a shim was written."""
    assert outcome.patch == ()


# Limits


def test_delivery_of_the_namespace_without_effect_is_reported_once() -> None:
    """Its author wrote something that does not happen: one warning, however many containers it concerns."""
    held = Held(ACME, Request(1, Percent(50), UNLIMITED))
    ordered = Namespace("team", {}, {"vgpu-webhook.io/shim": "hostPath"})
    outcome = run(inject_shim, pod({"name": "a"}, {"name": "b"}), Scene((held, held), namespace=ordered))
    assert outcome.reasons == [Reason.LEFT_TO_PLUGIN, Reason.DELIVERY_UNUSED, Reason.LEFT_TO_PLUGIN]
    assert outcome.findings[1].container is None


@each_of(
    "memory, cores, serves",
    [
        (Size(MIB), Percent(30), True),
        (UNLIMITED, Percent(30), True),
        (ALL, Percent(30), True),
        (Percent(50), Percent(30), False),
        (Size(MIB), UNLIMITED, False),
    ],
)
def test_limit_of_what_is_not_needed(memory: Any, cores: Any, *, serves: bool) -> None:
    """A shim that needs cores only serves without a limit of memory, but not beside one that the shim cannot express."""
    outcome = injected(held=Held(vendor(shim={**SHIM, "needs": ["cores"]}), Request(1, memory, cores)))
    assert outcome.deliveries == {"main": "hostPath" if serves else "plugin"}
    assert ("ACME_MEMORY" in outcome.env()) == (serves and isinstance(memory, Size))


# Delivery

HOST, NONE = SHIM["delivery"]


@each_of(
    "deliveries, label, annotation, setting, default, kind",
    [
        ([HOST, NONE], None, None, None, "privileged", "hostPath"),
        ([HOST, NONE], None, None, None, "baseline", "none"),
        ([HOST, NONE], None, None, "privileged", "baseline", "hostPath"),
        ([HOST, NONE], None, None, "restricted", "privileged", "none"),
        ([HOST, NONE], "privileged", None, "restricted", "baseline", "hostPath"),
        ([HOST, NONE], "baseline", None, "privileged", "privileged", "none"),
        ([HOST, NONE], "", None, None, "privileged", "none"),
        ([HOST, NONE], "Privileged", None, None, "privileged", "none"),
        ([HOST, NONE], "baseline", "hostPath", None, "baseline", "hostPath"),
        ([HOST, NONE], "privileged", "none", None, "privileged", "none"),
        ([HOST], "privileged", "none", None, "privileged", "none"),
        ([HOST], "baseline", None, None, "baseline", "hostPath"),
        ([NONE, HOST], "privileged", None, None, "privileged", "none"),
        ([NONE], "privileged", "hostPath", None, "privileged", "none"),
    ],
)
def test_delivery_is_chosen(  # noqa: PLR0917  (the columns of the table)
    deliveries: list[Any],
    label: str | None,
    annotation: str | None,
    setting: str | None,
    default: PodSecurityLevel,
    kind: str,
) -> None:
    """The namespace's annotation, else the only delivery, else the first that its Pod Security level permits."""
    namespace = Namespace(
        "team",
        {} if label is None else {"pod-security.kubernetes.io/enforce": label},
        {} if annotation is None else {"vgpu-webhook.io/shim": annotation},
    )
    held = Held(vendor(shim={**SHIM, "delivery": deliveries}))
    outcome = injected(held=held, namespace=namespace, security=default, podSecurityDefault=setting)
    assert outcome.deliveries == {"main": kind}
    if kind == "none":
        assert_untouched(outcome)
        unused = [Reason.DELIVERY_UNUSED] if annotation == "hostPath" else []
        assert outcome.reasons == [Reason.LEFT_TO_PLUGIN, *unused]
    else:
        assert outcome.env() == ENV
    if kind == "none" and annotation is None and len(deliveries) == 2 and deliveries[0] is HOST:
        assert "Pod Security" in outcome.findings[0].message


PATHS = st.text(alphabet=":;/ab$() ", max_size=20) | st.text(max_size=20)


@given(path=PATHS, first=st.lists(st.sampled_from(["/opt/lib", "/a", "/b"]), min_size=1, max_size=3, unique=True))
def test_any_search_path_is_led_by_ours_and_has_no_empty_element(path: str, first: list[str]) -> None:
    """Whatever the user wrote: ours first, nothing empty, nothing lost, and a second time nothing more."""
    ours = tuple(first)
    after = search_path(ours, path)
    elements = after.replace(";", ":").split(":")
    assert tuple(elements[: len(ours)]) == ours
    assert all(elements)
    assert not has_empty_element(after)
    assert set(path.replace(";", ":").split(":")) - {""} <= set(elements)
    assert search_path(ours, after) == after


@given(value=st.text(alphabet=": /ab.so", max_size=20) | st.text(max_size=20))
def test_any_preload_is_led_by_ours(value: str) -> None:
    """Whatever the user wrote: ours first, nothing of the user's lost, and a second time nothing more."""
    ours = ("/opt/lib/limit.so",)
    after = preload_list(ours, value)
    elements = [each for each in after.replace(":", " ").split(" ") if each]
    assert tuple(elements[:1]) == ours
    assert set(value.replace(":", " ").split(" ")) - {""} <= set(elements)
    assert preload_list(ours, after) == after


# Second passes


def test_renamed_entry_survives_another_webhook() -> None:
    """A reference to the renamed entry is an element like any other."""
    once = with_env(elsewhere("LD_LIBRARY_PATH")).pod
    once["spec"]["containers"][0]["env"][1]["value"] = "/otel:/opt/lib:/$(VGPU_WEBHOOK_LD_LIBRARY_PATH)/."
    outcome = injected(once)
    assert outcome.env()["LD_LIBRARY_PATH"] == "/opt/lib:/otel:/$(VGPU_WEBHOOK_LD_LIBRARY_PATH)/."
    assert len(outcome.container()["env"]) == len(once["spec"]["containers"][0]["env"])


def test_what_is_missing_of_earlier_work_is_completed() -> None:
    """A part that somebody took away is written again; the others are left."""
    once = injected().pod
    once["spec"]["containers"][0]["volumeMounts"].pop(1)
    once["spec"]["volumes"].pop()
    once["spec"]["containers"][0]["env"].pop()
    outcome = injected(once)
    assert outcome.env() == ENV
    assert outcome.spec["volumes"] == VOLUMES
    assert len(outcome.container()["volumeMounts"]) == len(MOUNTS)


# Collisions


def test_vendors_whose_shims_collide_are_refused() -> None:
    """Two mappings that use one volume name for different folders cannot share a pod; for the same one they can."""
    host = {"hostPath": {**HOST["hostPath"], "path": "/opt/other"}}
    sent = pod({"name": "a"}, {"name": "b"})
    other = vendor("other", shim={**SHIM, "delivery": [host]})
    with pytest.raises(Denied) as caught:
        run_once(inject_shim, sent, Scene([Held(ACME), Held(other)]))
    assert caught.value.finding.reason is Reason.COLLISION
    same = vendor("other", shim=SHIM)
    assert run(inject_shim, sent, Scene([Held(ACME), Held(same)])).spec["volumes"] == VOLUMES


def test_a_volume_with_members_that_nobody_knows_is_not_the_shims() -> None:
    """It would need a long look."""
    volume = {"name": "state", "emptyDir": {"sizeLimit": "64Mi", **{f"k{n}": "" for n in range(200)}}}
    assert refusal(pod(volumes=[volume])).finding.reason is Reason.COLLISION
