"""The shim: present in every container with a share, first for its loader, and never twice."""

from posixpath import normpath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.admission.scene import (
    MIB,
    PLUGIN_SHIM,
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
PLUGIN = vendor(shim=PLUGIN_SHIM)
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


# LD_LIBRARY_PATH


@each_of(
    "present, after, cleaned",
    [
        ("", "/opt/lib", False),
        ("/a", "/opt/lib:/a", False),
        ("/a:", "/opt/lib:/a", True),
        (":/a", "/opt/lib:/a", True),
        ("/a::/b", "/opt/lib:/a:/b", True),
        (":", "/opt/lib", True),
        ("/a;/b", "/opt/lib:/a;/b", False),
        ("/a;;/b;", "/opt/lib:/a;/b", True),
        ("/opt/lib", "/opt/lib", False),
        ("/opt/lib:/a", "/opt/lib:/a", False),
        ("/opt/lib;/a", "/opt/lib;/a", False),
        ("/opt/lib:", "/opt/lib", True),
        ("/a:/opt/lib:/b", "/opt/lib:/a:/b", False),
        ("/opt/library:/a", "/opt/lib:/opt/library:/a", False),
        ("$(BASE)/x:$ORIGIN", "/opt/lib:/$(BASE)/x:$ORIGIN", False),
    ],
)
def test_search_path_of_the_user_is_kept_after_ours(present: str, after: str, *, cleaned: bool) -> None:
    """Our directories first, once, and no empty element, which would be the current directory."""
    outcome = with_env(("LD_LIBRARY_PATH", present))
    assert outcome.env()["LD_LIBRARY_PATH"] == after
    assert outcome.reasons == [Reason.PATH_CLEANED] * cleaned


def test_a_search_path_in_a_variable_of_its_own_for_a_library_of_the_plugin() -> None:
    """It is written although nothing is delivered, and the pod's own search path stays as it is."""
    path = {"variable": "ACME_PATH", "prefix": ["/opt/x", "/opt/y"]}
    held = Held(vendor(shim={"limit": "plugin", "delivery": ["none"], "libraryPath": path}))
    outcome = with_env(("LD_LIBRARY_PATH", "/mine"), held=held)
    assert outcome.env() == {"LD_LIBRARY_PATH": "/mine", "ACME_PATH": "/opt/x:/opt/y"}
    with pytest.raises(Denied) as caught:
        with_env(("ACME_PATH", "/mine"), held=held)
    assert caught.value.finding.reason is Reason.COLLISION


def test_several_directories_go_before_a_search_path_from_elsewhere() -> None:
    """Every directory of the mapping, and the user's after them."""
    found = with_env(elsewhere("LD_LIBRARY_PATH"), held=Held(PLUGIN)).env()["LD_LIBRARY_PATH"]
    assert found == "/opt/x:/opt/y:/$(VGPU_WEBHOOK_LD_LIBRARY_PATH)/."


def test_name_for_a_renamed_entry_is_a_free_one() -> None:
    """A user's variable of that name is not overwritten."""
    outcome = with_env(("VGPU_WEBHOOK_LD_LIBRARY_PATH", "/mine"), elsewhere("LD_LIBRARY_PATH"))
    assert outcome.env()["VGPU_WEBHOOK_LD_LIBRARY_PATH"] == "/mine"
    assert outcome.env()["LD_LIBRARY_PATH"] == "/opt/lib:/$(VGPU_WEBHOOK_LD_LIBRARY_PATH_2)/."


def test_explicit_search_path_counts_more_than_env_from() -> None:
    """An entry of the list beats a source's, as it does for the kubelet."""
    outcome = with_env(("LD_LIBRARY_PATH", "/a"), envFrom=[{"configMapRef": {"name": "c"}}])
    assert outcome.env()["LD_LIBRARY_PATH"] == "/opt/lib:/a"


def test_every_search_path_of_a_list_is_led_by_ours() -> None:
    """A name may stand twice: the last wins and may refer to the one before."""
    outcome = with_env(("LD_LIBRARY_PATH", "/a"), ("LD_LIBRARY_PATH", "/b:$(LD_LIBRARY_PATH)"))
    paths = [entry["value"] for entry in outcome.container()["env"] if entry["name"] == "LD_LIBRARY_PATH"]
    assert paths == ["/opt/lib:/a", "/opt/lib:/b:$(LD_LIBRARY_PATH)"]


def test_only_the_last_search_path_from_elsewhere_is_renamed() -> None:
    """An earlier one is hidden by the last, which may refer to it."""
    outcome = with_env(elsewhere("LD_LIBRARY_PATH"), ("LD_LIBRARY_PATH", "/b:$(LD_LIBRARY_PATH)"))
    names = [entry["name"] for entry in outcome.container()["env"]]
    assert names[:2] == ["LD_LIBRARY_PATH", "LD_LIBRARY_PATH"]
    assert outcome.env()["LD_LIBRARY_PATH"] == "/opt/lib:/b:/$(LD_LIBRARY_PATH)/."


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


# LD_PRELOAD


@each_of(
    "present, after",
    [
        ("", "/opt/lib/limit.so"),
        ("/a.so", "/opt/lib/limit.so:/a.so"),
        ("/a.so /b.so", "/opt/lib/limit.so:/a.so /b.so"),
        ("/a.so:/b.so:", "/opt/lib/limit.so:/a.so:/b.so"),
        ("/opt/lib/limit.so", "/opt/lib/limit.so"),
        ("/opt/lib/limit.so /a.so", "/opt/lib/limit.so /a.so"),
        (" /opt/lib/limit.so:/a.so", " /opt/lib/limit.so:/a.so"),
        ("/a.so:/opt/lib/limit.so", "/opt/lib/limit.so:/a.so"),
        ("/opt/lib/limit.so.1", "/opt/lib/limit.so:/opt/lib/limit.so.1"),
    ],
)
def test_preload_of_the_user_is_kept_after_ours(present: str, after: str) -> None:
    """Blanks and colons separate; ours comes first, once."""
    assert with_env(("LD_PRELOAD", present)).env()["LD_PRELOAD"] == after


def test_preload_is_nobodys_business_without_a_shim() -> None:
    """Where only the search path is set, a preload may come from anywhere."""
    outcome = with_env(elsewhere("LD_PRELOAD"), held=Held(PLUGIN))
    assert outcome.env()["LD_PRELOAD"] is None


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


@each_of(
    "volume",
    [
        {"name": "lib", "emptyDir": {}},
        {"name": "lib", "hostPath": {"path": "/elsewhere", "type": "Directory"}},
        {"name": "lib", "hostPath": {"path": "/opt/host-lib"}},
        {"name": "lib", "configMap": {"name": "c"}},
        {"name": "state", "emptyDir": {}},
        {"name": "state", "emptyDir": None},
        {"name": "state", "emptyDir": {"sizeLimit": "65Mi"}},
        {"name": "state", "emptyDir": {"sizeLimit": "64Mi", "medium": "Memory"}},
        {"name": "state", "persistentVolumeClaim": {"claimName": "c"}},
    ],
)
def test_volume_of_our_name_with_other_content_is_refused(volume: dict[str, Any]) -> None:
    """The refusal names the volume, and what the shim's is."""
    refused = refusal(pod(volumes=[volume]))
    assert refused.finding.reason is Reason.COLLISION
    assert volume["name"] in refused.finding.message


def test_size_that_the_api_server_rewrote_is_the_same() -> None:
    """Sizes are compared as quantities; what is empty says nothing."""
    volume = {"name": "state", "emptyDir": {"sizeLimit": "65536Ki", "medium": ""}}
    assert injected(pod(volumes=[volume])).spec["volumes"] == [volume, VOLUMES[0]]


@each_of(
    "mount",
    [
        {"name": "data", "mountPath": "/opt/lib"},
        {"name": "data", "mountPath": "/opt/lib/"},
        {"name": "data", "mountPath": "/opt//./lib"},
        {"name": "data", "mountPath": "/opt/lib/limit.so", "subPath": "mine.so"},
        {"name": "lib", "mountPath": "/opt/lib", "readOnly": False},
        {"name": "lib", "mountPath": "/opt/lib", "readOnly": True, "subPath": "x"},
        {"name": "lib", "mountPath": "/writable"},
        {"name": "data", "mountPath": "/tmp/lock"},
        {"name": "state", "mountPath": "/tmp/cache"},
        {"name": "state", "mountPath": "/tmp/cache", "subPath": "lock"},
    ],
)
def test_mount_in_the_way_is_refused(mount: dict[str, Any]) -> None:
    """Another volume at our path, one inside the library's folder, or a way to write to the node's folder."""
    refused = refusal(pod({"name": "main", "volumeMounts": [mount]})).finding
    assert (refused.reason, refused.container) == (Reason.COLLISION, "main")
    assert refused.field in {f"volumeMounts[{each}]" for each in (mount["name"], normpath(mount["mountPath"]))}
    assert mount["name"] in refused.message


@each_of(
    "mount",
    [
        {"name": "data", "mountPath": "/opt"},
        {"name": "data", "mountPath": "/opt/library"},
        {"name": "data", "mountPath": "/tmp"},
        {"name": "data", "mountPath": "/tmp/cache/mine"},
        {"name": "lib", "mountPath": "/also", "readOnly": True},
        {"name": "state", "mountPath": "/also"},
    ],
)
def test_mount_that_is_not_in_the_way_is_let_be(mount: dict[str, Any]) -> None:
    """Folders above and beside ours are the user's."""
    assert injected(pod({"name": "main", "volumeMounts": [mount]})).container()["volumeMounts"] == [mount, *MOUNTS]


def test_no_other_container_can_write_to_the_library() -> None:
    """The volume that we add must not become a way to the node's folder for a container beside."""
    sent = pod({"name": "main"}, {"name": "side", "volumeMounts": [{"name": "lib", "mountPath": "/x"}]})
    with pytest.raises(Denied) as caught:
        run(inject_shim, sent, Scene([Held(ACME), None]))
    assert (caught.value.finding.container, caught.value.finding.field) == ("side", "volumeMounts[lib]")


@pytest.mark.parametrize(
    "entry, problem",
    [
        ({"name": "ACME_LIBRARY", "value": "/mine.so"}, "has another value"),
        ({"name": "ACME_LIBRARY"}, "has another value"),
        (elsewhere("ACME_LIBRARY"), "is set by valueFrom"),
    ],
)
def test_variable_of_our_name_with_another_value_is_refused(entry: dict[str, Any], problem: str) -> None:
    """The refusal says what the shim needs; the user's value stays out of the sentence."""
    refused = refusal(pod({"name": "main", "env": [entry]}))
    assert refused.finding.reason is Reason.COLLISION
    assert f"env ACME_LIBRARY of the pod {problem}, but" in refused.finding.message
    assert "ACME_LIBRARY=/opt/lib/limit.so" in refused.finding.message
    assert "/mine.so" not in refused.finding.message


def test_every_variable_of_our_name_must_say_the_same() -> None:
    """A name may stand twice in a list."""
    right, wrong = {"name": "ACME_LIBRARY", "value": "/opt/lib/limit.so"}, {"name": "ACME_LIBRARY", "value": "x"}
    assert refusal(pod({"name": "main", "env": [right, wrong]})).finding.reason is Reason.COLLISION
    assert refusal(pod({"name": "main", "env": [wrong, right]})).finding.reason is Reason.COLLISION
    assert with_env(right, right).env() == ENV


def test_a_variable_of_ones_own_stays_where_the_shim_permits_it() -> None:
    """Without one, the shim's value keeps out what `envFrom` and the image set; from wherever the pod's own comes."""
    lenient = vendor(shim={**SHIM, "envIfUnset": {"ACME_POLICY": "default", "LD_AUDIT": ""}})
    ours = {"ACME_POLICY": "default", "LD_AUDIT": None}  # as the API server stores an empty value
    assert injected(pod({"name": "main"}), Held(lenient)).env() == {**ENV, **ours}
    own = env(("ACME_POLICY", "force"), ("LD_AUDIT", "/own.so"))
    kept = injected(pod({"name": "main", "env": own}), Held(lenient))
    assert kept.env() == {**ENV, "ACME_POLICY": "force", "LD_AUDIT": "/own.so"}
    entries = injected(pod({"name": "main", "env": [elsewhere("ACME_POLICY")]}), Held(lenient)).container()["env"]
    assert [each for each in entries if each["name"] == "ACME_POLICY"] == [elsewhere("ACME_POLICY")]


def test_an_audit_of_the_shims_own_comes_before_none() -> None:
    """A mapping that extends another keeps what that keeps out."""
    shim = {**SHIM, "envIfUnset": {"LD_AUDIT": ""}, "audit": {"files": ["/opt/lib/audit.so"]}}
    assert injected(pod({"name": "main"}), Held(vendor(shim=shim))).env()["LD_AUDIT"] == "/opt/lib/audit.so"


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
