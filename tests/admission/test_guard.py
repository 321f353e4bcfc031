"""The guard: what would lift a limit, and what only a scheduler may write."""

from typing import Any

import pytest

from tests.admission.scene import SHIM, WHOLE, Held, Outcome, Scene, elsewhere, env, pod, run, vendor
from tests.naming import each_of
from webhook.admission.decision import Namespace
from webhook.admission.guard import MAX_MOUNTS, guard_pod
from webhook.reasons import Denied, Reason

GUARD: list[dict[str, Any]] = [
    {"env": "ACME_OFF", "lifts": "truthy"},
    {"env": "ACME_POLICY", "lifts": ["disable"]},
    {"env": "ACME_VISIBLE_DEVICES", "unless": ["void", "none", ""]},
    {"env": ["ACME_MEMORY*", "ACME_CORES*"], "unless": []},
]
GUARDED = vendor(guard=GUARD, shim=SHIM)


def guarded(*entries: tuple[str, str] | dict[str, Any], held: Held | None = None) -> Outcome:
    """What the guard makes of a container with these variables."""
    sent = pod({"name": "main", "env": env(*entries)})
    return run(guard_pod, sent, Scene([held or Held(GUARDED)]))


def refusal(*entries: tuple[str, str] | dict[str, Any], held: Held | None = None) -> Denied:
    """Why the guard refuses a container with these variables."""
    with pytest.raises(Denied) as caught:
        guarded(*entries, held=held)
    assert len(caught.value.finding.message) <= 200
    return caught.value


@each_of(
    "name, value",
    [
        *(("ACME_OFF", value) for value in ("1", "t", "T", "true", "TRUE", "True", "yes", "Yes", "ON", "on")),
        *(("ACME_POLICY", value) for value in ("disable", "DISABLE")),
        *(("ACME_VISIBLE_DEVICES", value) for value in ("all", "0", "GPU-1", "void ", "VOID")),
        *(("ACME_MEMORY", value) for value in ("9g", "", "3001m")),
        ("ACME_MEMORY_LIMIT_0", "1g"),
        ("ACME_CORES_0", "100"),
    ],
)
def test_value_that_lifts_is_refused(name: str, value: str) -> None:
    """The refusal names container and variable, and keeps the value out of the sentence, which ends up in logs."""
    refused = refusal((name, value))
    assert refused.finding.reason is Reason.GUARDED
    assert refused.finding.container == "main"
    assert name in refused.finding.message
    assert refused.finding.value == value


@each_of(
    "name, value",
    [
        *(("ACME_OFF", value) for value in ("0", "false", "no", "off", "", "2", "truth", " true", "tRUE")),
        *(("ACME_POLICY", value) for value in ("force", "default", "", "disabled")),
        *(("ACME_VISIBLE_DEVICES", value) for value in ("void", "none", "")),
        ("ACME_OFFICE", "true"),
        ("MY_ACME_OFF", "true"),
        ("ACME", "1"),
        ("ACME_MEM", "9g"),
    ],
)
def test_value_that_does_not_lift_is_let_be(name: str, value: str) -> None:
    """Other values are documented use, and other names are nobody's business."""
    outcome = guarded((name, value))
    assert outcome.patch == ()
    assert outcome.findings == ()


@each_of("name", ["ACME_OFF", "ACME_POLICY", "ACME_VISIBLE_DEVICES", "ACME_MEMORY"])
@each_of("how", ["elsewhere", "reference"])
def test_value_that_is_not_known_is_taken_to_lift(name: str, how: str) -> None:
    """A ConfigMap, or a reference that the kubelet expands, could say anything."""
    entry = elsewhere(name) if how == "elsewhere" else {"name": name, "value": "$(OTHER)"}
    refused = refusal(("OTHER", "1"), entry)
    assert refused.finding.reason is Reason.GUARDED
    assert "only when the container starts" in refused.finding.message


def test_value_of_the_shim_is_ours() -> None:
    """What the shim writes for this request never lifts; for another request it does."""
    assert guarded(("ACME_MEMORY", "3000m")).patch == ()
    assert "3000m" in refusal(("ACME_MEMORY", "3000")).finding.message


def test_every_entry_of_a_name_is_looked_at() -> None:
    """A name may stand twice in a list: the last wins, and any of them may be the last after another webhook."""
    for entries in ([("ACME_OFF", "0"), ("ACME_OFF", "1")], [("ACME_OFF", "1"), ("ACME_OFF", "0")]):
        assert refusal(*entries).finding.reason is Reason.GUARDED


def test_first_rule_that_catches_decides() -> None:
    """An exception stands before what it is an exception from."""
    exception = {"env": "ACME_MEMORY_NOTE", "unless": [], "action": "allow"}
    held = Held(vendor(guard=[exception, *GUARD]))
    assert guarded(("ACME_MEMORY_NOTE", "x"), held=held).patch == ()
    held = Held(vendor(guard=[*GUARD, exception]))
    assert refusal(("ACME_MEMORY_NOTE", "x"), held=held).finding.reason is Reason.GUARDED


@each_of("action", ["allow", "warn"])
@each_of("place", ["env", "mount", "annotation", "label"])
def test_what_is_let_be_hides_nothing_behind_it(place: str, action: str) -> None:
    """Every entry is looked at, whatever the rule for the one before it does."""
    names = ("/etc/a", "/etc/b") if place == "mount" else ("A", "B")
    rules = [{place: names[0], "unless": [], "action": action}, {place: names[1], "unless": []}]
    container: dict[str, Any] = {"name": "main"}
    if place == "env":
        container["env"] = env(*((name, "1") for name in names))
    if place == "mount":
        container["volumeMounts"] = [{"name": "data", "mountPath": path} for path in names]
    sent = pod(container)
    if place in {"annotation", "label"}:
        sent["metadata"][f"{place}s"] = dict.fromkeys(names, "1")
    with pytest.raises(Denied) as caught:
        run(guard_pod, sent, Scene([Held(vendor(guard=rules))]))
    assert caught.value.finding.field is not None
    assert f"[{names[1]}]" in caught.value.finding.field


def test_value_that_is_excepted_hides_no_other_annotation() -> None:
    """The settings except a value of one key."""
    rules: list[dict[str, Any]] = [{"annotation": name, "unless": []} for name in ("A", "B")]
    sent = pod() | {"metadata": {"name": "p", "annotations": {"A": "1", "B": "1"}}}
    with pytest.raises(Denied) as caught:
        run(guard_pod, sent, Scene([Held(vendor(guard=rules))], settings={"guardExceptions": {"A": ["1"]}}))
    assert caught.value.finding.field == "metadata.annotations[B]"


def test_variable_anywhere_is_seen_behind_a_container_with_a_share() -> None:
    """Containers without one are looked at wherever they stand."""
    held = Held(vendor(guard=[{"env": "A", "unless": [], "anywhere": True}]))
    main: dict[str, Any] = {"name": "a"}
    others: list[dict[str, Any]] = [{"name": "b", "env": env(("A", "1"))}, {"name": "c"}]
    for containers, scene in (
        ([main, *others], [held, None, None]),
        ([*others, main], [None, None, held]),
    ):
        with pytest.raises(Denied) as caught:
            run(guard_pod, pod(*containers), Scene(scene))
        assert caught.value.finding.container == "b"


def test_a_path_of_the_node_behind_another_volume_is_seen() -> None:
    """Volumes of one name are no valid pod yet, and which of them is stored is not known."""
    rules = [{"hostPath": "/dev", "unless": []}]
    sent = pod({"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/x"}]})
    sent["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}, {"name": "data", "hostPath": {"path": "/dev"}}]
    with pytest.raises(Denied):
        run(guard_pod, sent, Scene([Held(vendor(guard=rules))]))


def test_init_containers_are_guarded() -> None:
    """An init container with a share can lift a limit as well."""
    sent = pod(initContainers=[{"name": "init", "env": env(("ACME_OFF", "1"))}])
    with pytest.raises(Denied) as caught:
        run(guard_pod, sent, Scene([Held(GUARDED), None]))
    assert caught.value.finding.container == "init"


SOURCED = vendor(
    guard=[
        {"env": "ACME_VISIBLE_DEVICES", "from": {"configMapKeyRef": "*-acme-*"}, "action": "allow"},
        *GUARD,
    ],
    shim=SHIM,
)
FROM: dict[str, Any] = {"configMapKeyRef": {"name": "p-acme-0", "key": "k"}}


@each_of(
    "entry, allowed",
    [
        ({"valueFrom": FROM}, True),
        ({"value": "", "valueFrom": FROM}, True),
        ({"valueFrom": {"configMapKeyRef": {"name": "p-acme-0", "key": "k", "optional": True}}}, True),
        ({"valueFrom": {**FROM, "secretKeyRef": None}}, True),
        ({"value": "all", "valueFrom": FROM}, False),
        ({"valueFrom": {**FROM, "secretKeyRef": {"name": "p-acme-0", "key": "k"}}}, False),
        ({"valueFrom": {"configMapKeyRef": {"name": "acme", "key": "-acme-"}}}, False),
        ({"valueFrom": {"configMapKeyRef": {"key": "k"}}}, False),
        ({"valueFrom": {"configMapKeyRef": {"name": 1, "key": "k"}}}, False),
        ({"valueFrom": {"configMapKeyRef": []}}, False),
        ({"valueFrom": {"secretKeyRef": {"name": "p-acme-0", "key": "k"}}}, False),
        ({"valueFrom": {"fieldRef": {"fieldPath": "p-acme-0"}}}, False),
        ({"valueFrom": {}}, False),
    ],
)
def test_value_from_a_source_that_is_named(entry: dict[str, Any], *, allowed: bool) -> None:
    """Only as the API server takes it: one kind of source, and no value beside it. If it is missing, so is the variable."""
    held = Held(SOURCED)
    if allowed:
        assert guarded({"name": "ACME_VISIBLE_DEVICES", **entry}, held=held).patch == ()
    else:
        assert (
            "only when the container starts"
            in refusal({"name": "ACME_VISIBLE_DEVICES", **entry}, held=held).finding.message
        )
    # The exception is for that variable alone, and for one entry of its name: another decides for itself.
    refusal({"name": "ACME_VISIBLE_DEVICES", **entry}, ("ACME_VISIBLE_DEVICES", "all"), held=held)
    refusal(("ACME_VISIBLE_DEVICES", "all"), {"name": "ACME_VISIBLE_DEVICES", **entry}, held=held)
    refusal({"name": "ACME_MEMORY", **entry}, held=held)


KEYS: list[dict[str, Any]] = [
    {"annotation": "acme.io/policy", "lifts": ["none"]},
    {"label": "acme.io/off*", "unless": ["", "part"]},
    {"annotation": "acme.io/note", "unless": [], "action": "strip"},
]
BY_KEYS = vendor(guard=KEYS)


def keyed(scene: Scene, annotations: dict[str, str], labels: dict[str, str]) -> Outcome:
    """What the guard makes of a pod with these keys."""
    sent = pod()
    sent["metadata"] |= {"annotations": annotations, "labels": labels}
    return run(guard_pod, sent, scene)


@each_of(
    "annotations, labels, denied",
    [
        ({"acme.io/policy": "None"}, {}, "annotations[acme.io/policy]"),
        ({"acme.io/policy": "fixed"}, {}, None),
        ({"acme.io/other": "x", "acme.io/policy": "none"}, {}, "annotations[acme.io/policy]"),
        ({"acme.io/off": "all"}, {"acme.io/policy": "none"}, None),
        ({}, {"acme.io/offline": "all"}, "labels[acme.io/offline]"),
        ({}, {"acme.io/off": "part"}, None),
        ({}, {"acme.io/off": ""}, None),
    ],
)
def test_annotation_or_label_that_lifts_is_refused(
    annotations: dict[str, str], labels: dict[str, str], denied: str | None
) -> None:
    """It is the pod's; the refusal names it, and keeps the value out of the sentence."""
    if denied is None:
        assert keyed(Scene([Held(BY_KEYS)]), annotations, labels).patch == ()
        return
    with pytest.raises(Denied) as caught:
        keyed(Scene([Held(BY_KEYS)]), annotations, labels)
    finding = caught.value.finding
    assert (finding.reason, finding.container, finding.field) == (Reason.GUARDED, None, f"metadata.{denied}")
    for scene in (Scene([Held(BY_KEYS, WHOLE)]), Scene([Held(vendor("other"), source=BY_KEYS)]), Scene([None])):
        assert keyed(scene, annotations, labels).patch == ()
    for key in (*annotations, *labels):
        allowed = {"guardExceptions": {key: ["None", "all"]}}
        if "/" not in key:
            assert keyed(Scene([Held(BY_KEYS)], settings=allowed), annotations, labels).patch == ()


def test_annotation_is_stripped_where_the_mapping_or_the_namespace_says_so() -> None:
    """Once, however many containers there are; the namespace's key beats the mapping's."""
    outcome = keyed(Scene([Held(BY_KEYS)]), {"acme.io/note": "x", "mine": "y"}, {})
    assert outcome.pod["metadata"]["annotations"] == {"mine": "y"}
    assert outcome.reasons == [Reason.GUARD_STRIPPED]
    for action, left in (("strip", {}), ("allow", {"acme.io/policy": "none"})):
        namespace = Namespace("team", {}, {"vgpu-webhook.io/guard": action})
        outcome = keyed(Scene([Held(BY_KEYS)], namespace=namespace), {"acme.io/policy": "none"}, {})
        assert outcome.pod["metadata"]["annotations"] == left


def test_annotations_that_are_stripped_have_a_bound() -> None:
    """An honest pod has a handful."""
    many = vendor(guard=[{"annotation": "acme.io/*", "unless": [], "action": "strip"}])
    with pytest.raises(Denied) as caught:
        keyed(Scene([Held(many)]), {f"acme.io/a{i}": "x" for i in range(257)}, {})
    finding = caught.value.finding
    assert (finding.reason, finding.field) == (Reason.TOO_MANY, None)
    assert (
        finding.message == "more than 256 variables, keys and mounts have to be removed: remove them from the manifest"
    )


OWNED = vendor(
    variables={"chip": {"values": "[A-Z][0-9]"}},
    owned=[
        "acme.io/node",
        "acme.io/*-allocated",
        "acme.io/{chip}-ids",
        {"label": "acme.io/bound"},
        {"label": "acme.io/{chip}"},
    ],
    ownedBy=["system:acme"],
    shim=SHIM,
)
MARKS: dict[str, Any] = {
    "annotations": {
        "acme.io/node": "n1",
        "acme.io/a-b-allocated": "x",
        "acme.io/A1-ids": "0",
        "acme.io/wish": "y",
        "mine": "z",
    },
    "labels": {"acme.io/bound": "1", "acme.io/A1": "1", "acme.io/node": "kept", "app": "a"},
}


def marked(*held: Held, user: str = "") -> Outcome:
    """What the guard makes of a pod with a scheduler's marks."""
    sent = pod({"name": "a"}, {"name": "b"})
    sent["metadata"] |= MARKS
    return run(guard_pod, sent, Scene([*held, *[None] * (2 - len(held))], user=user))


def test_scheduler_may_write_its_own_marks() -> None:
    """A user listed under `ownedBy` of an owner of the key may write it."""
    assert marked(Held(OWNED), user="system:acme").patch == ()
    shared = vendor("other", owned=["acme.io/node"])
    outcome = marked(Held(OWNED), Held(shared), user="system:acme")
    assert outcome.patch == ()
    assert marked(Held(OWNED), user="somebody").patch != ()


FIELDS: list[dict[str, Any]] = [
    {"field": "hostPID", "lifts": ["true"]},
    {"field": "hostIPC", "lifts": ["true"], "action": "warn"},
    {"field": "capabilities", "lifts": ["ALL", "SYS_ADMIN"]},
    {"field": "procMount", "lifts": ["unmasked"]},
    {"field": "runtimeClassName", "lifts": ["kata*"]},
    {"hostPath": ["/", "/proc", "/proc/*"], "unless": []},
]


@each_of(
    "container, spec, found",
    [
        ({}, {"hostPID": True}, "deny"),
        ({}, {"hostPID": False, "runtimeClassName": "nvidia"}, None),
        ({}, {"hostIPC": True}, "warn"),
        ({}, {"runtimeClassName": "kata-qemu"}, "deny"),
        ({"securityContext": {"capabilities": {"add": ["NET_ADMIN", "cap_sys_admin"]}}}, {}, "deny"),
        ({"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}, {}, None),
        ({"securityContext": {"procMount": "Unmasked"}}, {}, "deny"),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/x"}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/proc"}}]},
            "deny",
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "data"}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
            None,
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/x", "subPathExpr": "$(A)"}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
            "deny",
        ),
    ],
)
@each_of("action", [None, "audit", "strip", "allow"])
def test_fields_and_paths_of_the_node(
    container: dict[str, Any], spec: dict[str, Any], found: str | None, action: str | None
) -> None:
    """Beside a share by each rule's action; never removed; a namespace can have it reported, or allow it."""
    annotations = {} if action is None else {"vgpu-webhook.io/guard": action}
    scene = Scene([Held(vendor(guard=FIELDS))], namespace=Namespace("team", annotations=annotations))
    sent = pod({"name": "main", **container}, **spec)
    if found == "deny" and action in {None, "strip"}:
        with pytest.raises(Denied) as caught:
            run(guard_pod, sent, scene)
        assert caught.value.finding.reason is Reason.GUARDED
        return
    outcome = run(guard_pod, sent, scene)
    assert outcome.patch == ()
    assert outcome.reasons == ([Reason.GUARD_KEPT] if found and action != "allow" else [])
    assert run(guard_pod, sent, Scene([Held(vendor(guard=FIELDS), WHOLE)])).reasons == []


MOUNTS: list[dict[str, Any]] = [
    {"mount": "/acme/lib", "from": {"hostPath": "/opt/acme/lib*"}, "action": "allow"},
    {"mount": ["/acme/lib", "/acme/lib/*"], "unless": []},
    {"mount": "/acme/shown*", "unless": [], "whole": True},
]


def mounting(
    mount: dict[str, Any], *volumes: dict[str, Any], action: str = "deny", held: Held | None = None
) -> Outcome:
    """What the guard makes of a container with this mount between others."""
    listed = [{"name": "a", "mountPath": "/a"}, {"name": "v", **mount}, {"name": "b", "mountPath": "/acme"}]
    sent = pod({"name": "main", "volumeMounts": listed}, volumes=list(volumes))
    rules = [{"action": action, **rule} for rule in MOUNTS]
    return run(guard_pod, sent, Scene([held or Held(vendor(guard=rules))]))


@each_of(
    "mount, volumes, allowed",
    [
        ({"mountPath": "/acme/lib"}, [], False),
        ({"mountPath": "/acme/lib"}, [{"name": "v", "emptyDir": {}}], False),
        ({"mountPath": "/acme/lib"}, [{"name": "v", "hostPath": {"path": "/opt/acme/lib"}}], True),
        ({"mountPath": "/acme/lib/"}, [{"name": "v", "hostPath": {"path": "/opt//acme/lib64/"}}], True),
        ({"mountPath": "/acme/lib", "subPath": "lib"}, [{"name": "v", "hostPath": {"path": "/opt/acme"}}], True),
        ({"mountPath": "/acme/lib", "subPath": "x"}, [{"name": "v", "hostPath": {"path": "/opt/acme"}}], False),
        ({"mountPath": "/acme/lib", "subPath": "../x"}, [{"name": "v", "hostPath": {"path": "/opt/acme/lib"}}], False),
        ({"mountPath": "/acme/lib", "subPathExpr": "lib"}, [{"name": "v", "hostPath": {"path": "/opt/acme"}}], False),
        ({"mountPath": "/acme/lib"}, [{"name": "w", "hostPath": {"path": "/opt/acme/lib"}}], False),
        ({"mountPath": "/acme/lib"}, [{"name": "v", "hostPath": {"path": "/opt/acme/lib"}}, {"name": "v"}], False),
        ({"mountPath": "/acme/lib/a.so"}, [{"name": "v", "hostPath": {"path": "/opt/acme/lib"}}], False),
        ({"mountPath": "/../acme/./lib"}, [], False),
        ({"mountPath": "/acme/library"}, [], True),
        ({"mountPath": "/acme/lib/.."}, [], True),
    ],
)
def test_mount(mount: dict[str, Any], volumes: list[dict[str, Any]], *, allowed: bool) -> None:
    """By the path as container runtimes clean it; what comes from a permitted path of the node is an exception."""
    if allowed:
        assert mounting(mount, *volumes).patch == ()
        return
    with pytest.raises(Denied) as caught:
        mounting(mount, *volumes)
    finding = caught.value.finding
    assert (finding.reason, finding.container) == (Reason.GUARDED, "main")
    assert "mount the volume elsewhere" in finding.message
    assert len(finding.message) <= 200


def test_mount_is_stripped() -> None:
    """The others stay in their order, and a block device at a guarded path goes, too."""
    outcome = mounting({"mountPath": "/acme/lib"}, action="strip")
    assert [entry["name"] for entry in outcome.container()["volumeMounts"]] == ["a", "b"]
    assert outcome.reasons == [Reason.GUARD_STRIPPED]
    devices = [{"name": name, "devicePath": path} for name, path in [("a", "/dev/a"), ("v", "/acme//lib"), ("b", "/x")]]
    held = Held(vendor(guard=[{"mount": "/acme/lib", "unless": [], "action": "strip"}]))
    outcome = run(guard_pod, pod({"name": "main", "volumeDevices": devices}), Scene([held]))
    assert [entry["name"] for entry in outcome.container()["volumeDevices"]] == ["a", "b"]
    assert outcome.reasons == [Reason.GUARD_STRIPPED]


def test_mount_beside_whole_devices() -> None:
    """There is no limit to lift, but devices of others can be shown."""
    held = Held(vendor(guard=MOUNTS), WHOLE)
    assert mounting({"mountPath": "/acme/lib"}, held=held).patch == ()
    with pytest.raises(Denied) as caught:
        mounting({"mountPath": "/acme/shown/all"}, held=held)
    assert "shows devices" in caught.value.finding.message


def test_mount_follows_the_namespace() -> None:
    """As for variables: the annotation decides instead of the mapping."""
    sent = pod({"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/acme/lib"}]})
    for action, patched in (("allow", False), ("strip", True)):
        namespace = Namespace("team", annotations={"vgpu-webhook.io/guard": action})
        outcome = run(guard_pod, sent, Scene([Held(vendor(guard=MOUNTS))], namespace=namespace))
        assert bool(outcome.patch) is patched


def test_mounts_that_are_compared_are_few() -> None:
    """So that one pod takes no time; without a part of a guarded path in any of them, there may be more."""
    many = [{"name": "v", "mountPath": f"/data/{number}"} for number in range(MAX_MOUNTS + 1)]
    held = Held(vendor(guard=MOUNTS))
    assert run(guard_pod, pod({"name": "main", "volumeMounts": many}), Scene([held])).patch == ()
    of_node = pod({"name": "main", "volumeMounts": many})
    of_node["spec"]["volumes"] = [{"name": "v", "hostPath": {"path": "/data"}}]
    near = [{**many[0], "mountPath": "/acme/lib64"}, *many[1:]]
    for sent, guard, why in (
        (pod({"name": "main", "volumeMounts": near}), MOUNTS, ", some of which may be guarded"),
        (of_node, [{"hostPath": "/dev", "unless": []}], " beside a hostPath"),
    ):
        with pytest.raises(Denied) as caught:
            run(guard_pod, sent, Scene([Held(vendor(guard=guard))]))
        finding = caught.value.finding
        assert (finding.reason, finding.container, finding.field) == (Reason.TOO_MANY, "main", "volumeMounts")
        assert finding.message == f"more than {MAX_MOUNTS} mounts{why}: split the container, or mount fewer"
