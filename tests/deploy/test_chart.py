"""What the chart renders."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.controlplane.client import Object
from tests.depth import one_in
from tests.naming import each_of
from tests.yaml_text import load_yaml
from webhook.cli import main
from webhook.cluster.policy.documents import LAST_GOOD_NAME, MAPPING_KEY, SETTINGS_KEY, SETTINGS_NAME
from webhook.cluster.registration.wanted import NAME as REGISTRATION
from webhook.labels import MAPPING
from webhook.mapping.document import parse
from webhook.mapping.load import build_policy
from webhook.mapping.strict import API_VERSION

from .charts import CHART, NAMESPACE, PROXY, REQUIRED, VALUES, Chart, one, pod_of
from .helm import HelmError

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]


def args(objects: list[Object]) -> list[str]:
    """Return the arguments of the webhook."""
    found: list[str] = pod_of(one(objects, "Deployment"))["containers"][0]["args"]
    return found


@pytest.mark.parametrize("name", one_in(8, VALUES))
def test_command_renders_the_same(helm: Chart, name: str) -> None:
    """What most tests render in one process is what the command prints; and its linter has nothing to say."""
    text = yaml.safe_dump(VALUES[name])
    helm.run("lint", str(CHART), "--strict", *REQUIRED, "--values", "-", text=text)
    assert replace(helm, renderer=None).template(*REQUIRED, text=text) == helm.template(*REQUIRED, text=text)


def test_command_refuses_the_same(helm: Chart) -> None:
    """By its schema, and in a template."""
    for values in ({"replicaCount": "two", "replicas": 1}, {"nameOverride": "A"}):
        printed = []
        for chart in (helm, replace(helm, renderer=None)):
            with pytest.raises(HelmError) as refused:
                chart.render(values)
            printed.append(str(refused.value).partition("\nUse --debug")[0].strip())
        assert printed[0] == printed[1]


@pytest.mark.parametrize("name", one_in(4, VALUES))
def test_oldest_kubernetes_gets_the_same(helm: Chart, name: str) -> None:
    """Nothing depends on the version, from 1.30 on; an older one is refused."""
    assert replace(helm, kubernetes="1.30.0").render(VALUES[name]) == helm.render(VALUES[name])


def test_older_kubernetes_is_refused(helm: Chart) -> None:
    """The message names the version."""
    with pytest.raises(HelmError, match=r"1\.30"):
        replace(helm, kubernetes="1.29.9").render({})


@pytest.mark.long
@pytest.mark.parametrize("name", VALUES)
def test_helm_4_renders_the_same(helm: Chart, helm4: Chart, name: str) -> None:
    """Both versions of Helm that are in use."""
    assert helm4.render(VALUES[name]) == helm.render(VALUES[name])


@pytest.mark.parametrize("name", VALUES)
def test_nothing_is_rendered_for_the_removal(helm: Chart, name: str) -> None:
    """What is rendered without a cluster has no empty objects of the removal: only Helm itself may apply those."""
    hooks = [
        (each["metadata"].get("annotations") or {}).get("helm.sh/hook", "test") for each in helm.render(VALUES[name])
    ]
    assert set(hooks) == {"test"}


@each_of("bad", load_yaml((Path(__file__).parent / "bad_values.yaml").read_text()))
def test_bad_values_are_refused(helm: Chart, bad: Object) -> None:
    """The message says where, and what was wanted."""
    with pytest.raises(HelmError) as refused:
        helm.render(bad["values"])
    assert re.search(bad["message"], str(refused.value)), refused.value


def documents(objects: list[Object]) -> dict[str, str]:
    """Return the mapping documents, by the name of their ConfigMap."""
    maps = [each for each in objects if each["metadata"]["labels"].get(MAPPING) == "true"]
    return {each["metadata"]["name"]: each["data"][MAPPING_KEY] for each in maps}


def settings(objects: list[Object]) -> Any:
    """Return what the settings say."""
    return yaml.safe_load(one(objects, "ConfigMap", SETTINGS_NAME)["data"][SETTINGS_KEY])


@pytest.mark.parametrize("name", VALUES)
def test_policy_is_in_order(helm: Chart, name: str) -> None:
    """The webhook makes a policy of what is rendered."""
    objects = helm.render(VALUES[name])
    mappings = [document for key, text in documents(objects).items() for document in parse(text, key)]
    [chosen] = parse(one(objects, "ConfigMap", SETTINGS_NAME)["data"][SETTINGS_KEY], SETTINGS_NAME)
    build_policy(mappings, chosen)


MAPPING_HEADER = {"apiVersion": API_VERSION, "kind": "Mapping"}
SETTINGS_HEADER = {"apiVersion": API_VERSION, "kind": "Settings"}


def test_values_become_mappings_and_settings(helm: Chart) -> None:
    """A value extends a built-in vendor by what differs, null removes, and a whole document stays as it is."""
    objects = helm.render(VALUES["mappings"])
    texts = {name: yaml.safe_load(text) for name, text in documents(objects).items()}
    values = VALUES["mappings"]["mappings"]
    assert texts == {
        "vgpu-webhook-mapping-nvidia": {**MAPPING_HEADER, "extends": "nvidia", **values["nvidia"]},
        "vgpu-webhook-mapping-vcuda": {**MAPPING_HEADER, "extends": "vcuda", "shim": None},
        "vgpu-webhook-mapping-acme": {**MAPPING_HEADER, **values["acme"]},
    }
    assert settings(objects) == {**SETTINGS_HEADER, "bareDevices": "share", **VALUES["mappings"]["settings"]}


def test_shim_modes(helm: Chart) -> None:
    """`inject` comes with the installer and with Pod Security as the API server applies it; `plugin` with neither."""
    injecting = helm.render({})
    assert settings(injecting) == {**SETTINGS_HEADER, "bareDevices": "share", "podSecurityDefault": "privileged"}
    assert documents(injecting) == {}
    environment = {each["name"]: each["value"] for each in pod_of(one(injecting, "DaemonSet"))["containers"][0]["env"]}
    assert environment["SOURCE"].endswith("libvgpu.so.*")
    assert environment["VERSION"] == "v2.10.0"
    plugin = helm.render(VALUES["plugin-and-mapping"])
    assert settings(plugin) == {**SETTINGS_HEADER, "bareDevices": "share"}
    assert not [each for each in plugin if each["kind"] == "DaemonSet"]
    [text] = documents(plugin).values()
    assert yaml.safe_load(text) == {
        **MAPPING_HEADER,
        "extends": "nvidia",
        "shim": {"mode": "plugin"},
        "place": {"scheduler": "gpu-scheduler"},
    }


def rules(objects: list[Object], names: set[str]) -> set[tuple[str, str, str, str]]:
    """Return each right as role, verb, resource and name (`*`: any)."""
    found = set()
    for role in objects:
        if role["kind"] not in {"Role", "ClusterRole"} or role["metadata"]["name"] not in names:
            continue
        where = role["metadata"].get("namespace", "")
        for rule in role["rules"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", ["*"]):
                    found |= {(where, verb, resource, name) for verb in rule["verbs"]}
    return found


def rights(where: str, verbs: str, resource: str, name: str = "*") -> set[tuple[str, str, str, str]]:
    """Return rights, the verbs separated by spaces."""
    return {(where, verb, resource, name) for verb in verbs.split()}


def test_rights_are_the_least(helm: Chart) -> None:
    """They are those of docs/reference.md, and of the Secret by its name; each mode has only its own."""
    names = {"vgpu-webhook", "vgpu-webhook-events"}
    always = (
        rights("", "get list watch", "namespaces")
        | rights("", "get", "clusterroles", "vgpu-webhook")
        | rights(NAMESPACE, "list watch", "configmaps")
        | rights(NAMESPACE, "get create patch update", "configmaps", LAST_GOOD_NAME)
    )
    everywhere = rights("", "create", "events") | rights("", "get", "replicasets") | rights("", "get", "jobs")
    own_events = rights(NAMESPACE, "create", "events")
    secret = rights(NAMESPACE, "get list watch create patch update", "secrets", "vgpu-webhook-certificates")
    watched, written = set(), set()
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        watched |= rights("", "get list watch", kind, REGISTRATION)
        written |= rights("", "create patch update", kind, REGISTRATION)
    assert rules(helm.render({}), names) == always | everywhere | secret | watched | written
    assert rules(helm.render(VALUES["static"]), names) == always | everywhere | secret | watched
    assert rules(helm.render(VALUES["secret"]), names) == always | everywhere | watched | written
    claiming = rights("", "get list watch create delete", "resourceclaimtemplates") | rights(
        "", "get list watch", "pods"
    )
    with_claims = helm.render({"claims": {"enabled": True}})
    assert rules(with_claims, names) == always | everywhere | secret | watched | written | claiming
    quiet = {"ownerEvents": False}
    of_default = rights("default", "create", "events")
    assert rules(helm.render(quiet), names) == always | own_events | of_default | secret | watched | written


def test_without_rights_there_is_still_an_owner(helm: Chart) -> None:
    """What the webhook writes goes with the ClusterRole, whoever gives the rights: else it would stay behind."""
    rendered = helm.render({"rbac": {"create": False}})
    assert rules(rendered, {"vgpu-webhook", "vgpu-webhook-events"}) == set()
    assert next(each["metadata"]["name"] for each in rendered if each["kind"] == "ClusterRole") == "vgpu-webhook"


def test_ports_of_the_node_are_not_needed_twice(helm: Chart) -> None:
    """With the nodes' network a replica goes before another comes, for two of them find no room on one node."""
    for values, expected in ({}, (0, 1)), ({"hostNetwork": True}, (1, 0)):
        rendered = helm.render(values)
        [deployment] = [each for each in rendered if each["kind"] == "Deployment"]
        update = deployment["spec"]["strategy"]["rollingUpdate"]
        assert (update["maxUnavailable"], update["maxSurge"]) == expected


def is_test(item: Object) -> bool:
    """Whether Helm creates it for `helm test` alone."""
    annotations: Object = item["metadata"].get("annotations", {})
    return annotations.get("helm.sh/hook") == "test"


def test_check_has_rights_of_its_own_while_it_runs(helm: Chart) -> None:
    """What `helm test` needs is a hook, goes with it, and is bound to its status alone."""
    objects = helm.render({"test": {"namespaces": ["demo"]}})
    hooks = [each for each in objects if is_test(each)]
    assert {each["kind"] for each in hooks} == {
        "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Pod",
    }  # fmt: skip
    for each in hooks:
        if each["kind"].endswith("Binding"):
            assert [subject["name"] for subject in each["subjects"]] == ["vgpu-webhook-check"]
    granted = rules(hooks, {each["metadata"]["name"] for each in hooks})
    assert {verb for _, verb, *_ in granted} == {"get", "list", "create"}
    assert {each for each in granted if each[1] == "create"} == rights("demo", "create", "pods")
    assert pod_of(one(objects, "Pod"))["containers"][0]["args"] == ["check"]
    claims = [each for each in helm.render({"claims": {"enabled": True}}) if is_test(each)]
    more = rights("", "list", "resourceslices")
    names = {each["metadata"]["name"] for each in hooks}
    assert rules(claims, names) - rules(hooks, names) == more


def test_somebody_decides_what_a_count_alone_means(helm: Chart) -> None:
    """Without that decision, the message says what each choice does."""
    with pytest.raises(HelmError, match=r"bareDevices=whole.* whole devices; .*=share.* shrinks pods"):
        helm.render({"settings": {"bareDevices": None}})
    with pytest.raises(HelmError, match=r"settings.bareDevices is not set"):
        helm.template("--set", "image.repository=x,shim.mode=plugin", text="settings:")


def sections(values: dict[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
    """The path of each map of the chart's values."""
    for name, each in values.items():
        if isinstance(each, dict):
            yield (*path, name)
            yield from sections(each, *path, name)


EMPTIED = [*sections(yaml.safe_load((CHART / "values.yaml").read_text()))]


@pytest.mark.parametrize("path", EMPTIED, ids=".".join)
def test_an_empty_section(helm: Chart, path: tuple[str, ...]) -> None:
    """It deletes the chart's values: that is said, or nothing of them is needed."""
    values: dict[str, Any] = {
        "image": {"repository": "x"},
        "shim": {"mode": "inject"},
        "settings": {"bareDevices": "share"},
    }
    node = values
    for name in path[:-1]:
        node = node.setdefault(name, {})
    node[path[-1]] = None
    refused = ""
    try:
        helm.template(text=yaml.safe_dump(values))
    except HelmError as error:
        refused = str(error)
    assert not refused or f"{'.'.join(path)} is empty" in refused or "settings.bareDevices is not set" in refused


@pytest.mark.parametrize("namespace", ["vgpu-webhook", "default"])
def test_check_shows_its_logs(helm: Chart, namespace: str) -> None:
    """Under `--logs`, Helm reads a pod by the name of each test hook; and no object is there twice."""
    values = {"fullnameOverride": "renamed", "test": {"namespaces": ["demo", "default", "demo"]}}
    hooks = [each for each in helm.render(values, namespace=namespace) if is_test(each)]
    assert {each["metadata"]["name"] for each in hooks} == {"renamed-check"}
    objects = [(each["kind"], each["metadata"].get("namespace")) for each in hooks]
    assert len(objects) == len(set(objects))


def test_second_release_meets_the_first(helm: Chart) -> None:
    """What stands for the installation has the same name in every release, so that Helm refuses a second one."""
    first, second = helm.render({}), helm.render({}, release="other", namespace="elsewhere")
    assert one(second, "Deployment")["metadata"]["name"] == "other-vgpu-webhook"
    assert "--service=elsewhere/other-vgpu-webhook" in args(second)
    for kind in ("ClusterRole", "ClusterRoleBinding"):
        for objects in (first, second):
            assert one(objects, kind, "vgpu-webhook")


def test_pods_are_killed_late_and_for_good_reasons_only(helm: Chart) -> None:
    """Termination fits the drain; liveness and start-up ask for life, not for the API server."""
    spec = pod_of(one(helm.render({}), "Deployment"))
    container = spec["containers"][0]
    assert spec["terminationGracePeriodSeconds"] == 2 + 10 + 15 + 5
    assert container["lifecycle"] == {"preStop": {"sleep": {"seconds": 2}}}
    paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert "cpu" not in container["resources"]["limits"]
    bare = pod_of(one(helm.render(VALUES["bare"]), "Deployment"))
    assert "lifecycle" not in bare["containers"][0]
    assert bare["terminationGracePeriodSeconds"] == 20


def test_token_has_an_end_and_no_foreign_audience(helm: Chart) -> None:
    """The only token is projected, for the API server, where programs look for it."""
    objects = helm.render({})
    for workload in (each for each in objects if each["kind"] in {"Deployment", "DaemonSet", "Pod"}):
        assert pod_of(workload)["automountServiceAccountToken"] is False
    [volume] = [each for each in pod_of(one(objects, "Deployment"))["volumes"] if "projected" in each]
    token = volume["projected"]["sources"][0]["serviceAccountToken"]
    assert token == {"path": "token", "expirationSeconds": 3600}
    assert not [each for each in pod_of(one(objects, "DaemonSet"))["volumes"] if "projected" in each]


def test_certificates_from_elsewhere(helm: Chart) -> None:
    """A Secret is mounted read-only; cert-manager's has the names by which API servers call."""
    objects = helm.render(VALUES["cert-manager"])
    certificate = one(objects, "Certificate", "vgpu-webhook-tls")["spec"]
    assert certificate["dnsNames"] == ["vgpu-webhook.gpu-system.svc", "webhook.example"]
    assert certificate["ipAddresses"] == ["192.0.2.1"]
    assert "--certificate-dir=/etc/vgpu-webhook/certificates" in args(objects)
    mounted = {each["name"]: each for each in pod_of(one(objects, "Deployment"))["volumes"]}
    assert mounted["certificates"]["secret"]["secretName"] == certificate["secretName"]
    [values] = [each for each in args(helm.render(VALUES["secret"])) if each.startswith("--client-ca")]
    assert values == "--client-ca-file=/etc/vgpu-webhook/clients/ca.crt"
    static = helm.render({**VALUES["static"], "certificates": {"mode": "certManager"}})
    registration = one(static, "MutatingWebhookConfiguration")
    assert registration["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": f"{NAMESPACE}/vgpu-webhook-tls"
    }


def test_network_policy_lets_out_what_is_needed(helm: Chart) -> None:
    """The API server's ports and DNS, and then what the cluster needs beyond that; nothing goes for it."""
    usual = one(helm.render({}), "NetworkPolicy")["spec"]["egress"]
    assert [[each["port"] for each in rule["ports"]] for rule in usual] == [[443, 6443], [53, 53]]
    assert one(helm.render(VALUES["everything"]), "NetworkPolicy")["spec"]["egress"] == [*usual, PROXY]


DAY = 86400


@pytest.mark.parametrize(
    "values,life,left,fires",
    [
        ({}, 90 * DAY, 14.1 * DAY, False),
        ({}, 90 * DAY, 13.9 * DAY, True),
        # serve --certificate-days=7: made anew after two thirds.
        ({}, 7 * DAY, 7 / 3 * DAY, False),
        ({}, 7 * DAY, 7 / 5 * DAY, True),
        ({"prometheusRule": {"certificateDays": 30}}, 365 * DAY, 29.9 * DAY, True),
        ({"prometheusRule": {"certificateDays": 0.5}}, 90 * DAY, 0.6 * DAY, False),
        ({"certificates": {"mode": "certManager"}}, 90 * DAY, 13.9 * DAY, True),
        ({"certificates": {"mode": "certManager", "certManager": {"renewBefore": "240h"}}}, 90 * DAY, 9 * DAY, False),
        ({"certificates": {"mode": "certManager", "certManager": {"renewBefore": "239h60m"}}}, 90 * DAY, 4.9 * DAY, True),
    ],
)  # fmt: skip
def test_certificates_renewed_in_time_are_not_reported(
    helm: Chart, values: Object, life: float, left: float, *, fires: bool
) -> None:
    """The alert knows how long a certificate lives, and when cert-manager renews it."""
    rule = one(
        helm.render({**values, "prometheusRule": {"enabled": True, **values.get("prometheusRule", {})}}),
        "PrometheusRule",
    )
    [alert] = [each for each in rule["spec"]["groups"][0]["rules"] if each["alert"] == "VgpuWebhookCertificateExpires"]
    expression = alert["expr"].removeprefix("min by (namespace, kind) ").replace("time()", "now")
    names = {
        "now": life - left,
        "vgpu_webhook_certificate_not_before_seconds": 0,
        "vgpu_webhook_certificate_not_after_seconds": life,
    }
    # For one series the operators mean in Python what they do in PromQL.
    assert eval(expression, {}, names) is fires


def test_static_registration_is_what_the_program_prints(helm: Chart, tmp_path: Path) -> None:
    """The whole output of `vgpu-webhook registration` goes through --set-file unchanged."""
    printed = CliRunner().invoke(main, ["registration", "--service", f"{NAMESPACE}/vgpu-webhook"]).stdout
    (tmp_path / "registration.yaml").write_text(printed)
    values = ["--set-file", f"registration.manifest={tmp_path / 'registration.yaml'}"]
    rendered = helm.render({"registration": {"mode": "static"}}, *values)
    for document in yaml.safe_load_all(printed):
        assert one(rendered, document["kind"])["webhooks"] == document["webhooks"]


@pytest.mark.parametrize("guard", [True, False])
def test_device_class_of_shares(helm: Chart, *, guard: bool) -> None:
    """Only devices that are shared; unguarded where Kueue counts, and none without a driver."""
    rendered = helm.render({"claims": {"enabled": True, "driver": "gpu.example.com", "guard": guard}})
    made = one(rendered, "DeviceClass")
    expression = "device.driver == 'gpu.example.com'" + (" && device.allowMultipleAllocations == true" if guard else "")
    assert made["metadata"]["name"] == "share.gpu.example.com"
    assert made["spec"] == {"selectors": [{"cel": {"expression": expression}}]}
    assert not [each for each in helm.render({"claims": {"enabled": True}}) if each["kind"] == "DeviceClass"]
    assert not [
        each for each in helm.render({"claims": {"driver": "gpu.example.com"}}) if each["kind"] == "DeviceClass"
    ]
