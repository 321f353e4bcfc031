"""The webhook configuration as a pure function, and what can be read from one that stands in a cluster."""

import base64
import copy
from dataclasses import replace
from typing import Any

import pytest

from tests.mapping.vendors import policy
from webhook.admission import eligibility
from webhook.cluster.registration.stored import Severity, age_of, differences, other_writers, read_stored
from webhook.cluster.registration.wanted import (
    AUDIT,
    AUDIT_MODES,
    ENFORCE,
    NAME,
    ServiceReference,
    Site,
    Wanted,
    registration,
    terms_text,
    wanted_by,
)
from webhook.labels import INJECT, MATCHED_NAMES, MODE, WRITTEN_BY
from webhook.mapping.load import load_policy

CA = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
SITE = Site(ServiceReference("gpu", "webhook"), CA, "gpu")
WANT = wanted_by(load_policy())
ZONE = {"key": "zone", "operator": "NotIn", "values": ["edge"]}


def made(**changes: Any) -> dict[str, Any]:
    """The webhook configuration of the built-in policy."""
    return registration(WANT, SITE, version="1.2.0", **changes)


def selector(configuration: dict[str, Any], index: int = 0) -> dict[str, Any]:
    """The namespace selector of one of its webhooks."""
    found: dict[str, Any] = configuration["webhooks"][index]["namespaceSelector"]
    return found


def test_what_both_webhooks_have() -> None:
    """Creations of pods, no side effects, seen again when others have changed the pod."""
    configuration = made()
    annotations = {MATCHED_NAMES: WANT.matched_names.as_json, WRITTEN_BY: f"1.2.0 {WANT.digest}"}
    assert configuration["metadata"] == {"name": NAME, "annotations": annotations}
    assert NAME < "hami-webhook"
    for webhook in configuration["webhooks"]:
        assert webhook["admissionReviewVersions"] == ["v1"]
        assert webhook["sideEffects"] == "NoneOnDryRun"
        assert webhook["reinvocationPolicy"] == "IfNeeded"
        assert webhook["matchPolicy"] == "Equivalent"
        assert webhook["timeoutSeconds"] == 5
        assert webhook["rules"] == [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ]
        assert webhook["clientConfig"] == {
            "service": {"namespace": "gpu", "name": "webhook", "path": "/mutate", "port": 443},
            "caBundle": base64.b64encode(CA).decode(),
        }


def test_where_they_differ() -> None:
    """Namespaces that enforce wait for an answer, those with mode warn or audit do not."""
    enforce, audit = made()["webhooks"]
    assert (enforce["name"], enforce["failurePolicy"]) == (ENFORCE, "Fail")
    assert (audit["name"], audit["failurePolicy"]) == (AUDIT, "Ignore")
    for webhook, operator in ((enforce, "NotIn"), (audit, "In")):
        assert webhook["namespaceSelector"]["matchExpressions"] == [
            {"key": "vgpu-webhook.io/inject", "operator": "In", "values": ["enabled"]},
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["gpu", "kube-node-lease", "kube-system"],
            },
            {"key": "vgpu-webhook.io/mode", "operator": operator, "values": ["audit", "warn"]},
        ]
    assert {key: value for key, value in enforce.items() if audit[key] != value}.keys() == {
        *("name", "failurePolicy", "namespaceSelector")
    }


def test_names_are_those_of_the_engine() -> None:
    """The labels by which namespaces are selected are those that decisions look at."""
    assert load_policy().settings.opt_in_label == INJECT
    assert set(AUDIT_MODES) == {mode.value for mode in eligibility.Mode} - {"enforce"}


def test_by_url_without_ca() -> None:
    """The API server then trusts what its machine trusts; something else may fill the bundle in."""
    (webhook, _) = registration(WANT, Site("https://gpu.example/mutate"))["webhooks"]
    assert webhook["clientConfig"] == {"url": "https://gpu.example/mutate"}
    assert selector({"webhooks": [webhook]})["matchExpressions"][1]["values"] == ["kube-node-lease", "kube-system"]


def test_settings_of_the_policy() -> None:
    """The opt-in label and the time-out are the settings'."""
    want = wanted_by(policy(settings="optInLabel: team.example/gpu\ntimeoutSeconds: 9\n"))
    configuration = registration(want, SITE)
    assert selector(configuration)["matchExpressions"][0]["key"] == "team.example/gpu"
    assert configuration["webhooks"][0]["timeoutSeconds"] == 9


def test_read_back() -> None:
    """Everything that it was made from."""
    read = read_stored(made())
    assert (read.version, read.digest, read.made_from, read.foreign) == ("1.2.0", WANT.digest, WANT, {})


def test_one_without_a_writer_is_kept_by_hand() -> None:
    """Nobody would keep its digest up to date."""
    configuration = registration(WANT, SITE)
    assert configuration["metadata"]["annotations"].keys() == {MATCHED_NAMES}
    assert read_stored(configuration).digest is None


def test_another_opt_in_label_is_no_foreign_term() -> None:
    """A reader whose policy has another label knows the writer's."""
    other = registration(replace(WANT, opt_in="team.example/gpu"), SITE, version="1.2.0")
    read = read_stored(other)
    assert read.made_from is not None
    assert read.made_from.opt_in == "team.example/gpu"
    assert read.foreign == {}


def test_foreign_terms_are_kept() -> None:
    """They stay behind ours, and are the same when they are read once more."""
    configuration = made()
    selector(configuration, 0)["matchExpressions"].insert(0, ZONE)
    selector(configuration, 0)["matchLabels"] = {"b": "1", "a": "2"}
    selector(configuration, 1)["matchExpressions"].append({"key": "x", "operator": "In", "values": ["enabled"]})
    read = read_stored(configuration)
    assert read.made_from == WANT
    assert terms_text(read.foreign[ENFORCE]) == "a=2 and b=1 and zone NotIn (edge)"
    again = made(foreign=read.foreign)
    assert selector(again)["matchExpressions"][-1] == ZONE
    assert selector(again)["matchLabels"] == {"a": "2", "b": "1"}
    assert read_stored(again).foreign == read.foreign


@pytest.mark.parametrize(
    "term",
    [
        {"key": INJECT, "operator": "DoesNotExist"},
        {"key": MODE, "operator": "NotIn", "values": ["enforce"]},
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-node-lease", "kube-system", "old"],
        },
    ],
)
def test_terms_about_our_labels_are_not_foreign(term: dict[str, Any]) -> None:
    """They could only contradict ours, or are an earlier one of ours."""
    configuration = made()
    terms = selector(configuration)["matchExpressions"]
    terms[:] = [each for each in terms if each["key"] != term["key"]] + [term]
    assert read_stored(configuration).foreign == {}


def test_a_longer_list_of_spared_namespaces_is_foreign() -> None:
    """Namespaces that somebody added to the list stay in it."""
    configuration = made()
    selector(configuration)["matchExpressions"][1]["values"] += ["team"]
    (term,) = read_stored(configuration).foreign[ENFORCE]
    assert "team" in term["values"]


def damaged(**changes: Any) -> dict[str, Any]:
    """A webhook configuration with changes to its first webhook; None takes a field away."""
    configuration = made()
    webhook = configuration["webhooks"][0]
    webhook.update(changes)
    configuration["webhooks"][0] = {key: value for key, value in webhook.items() if value is not None}
    return configuration


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"metadata": None, "webhooks": None},
        {**made(), "webhooks": []},
        {**made(), "webhooks": made()["webhooks"][:1]},
        damaged(matchConditions=None),
        damaged(matchConditions=[{"name": "gpu-keys", "expression": "true"}]),
        damaged(namespaceSelector={}),
        damaged(timeoutSeconds=7),
        damaged(timeoutSeconds=None),
        {**made(), "metadata": {"name": NAME, "annotations": {WRITTEN_BY: "nonsense"}}},
    ],
)
def test_what_was_not_made_by_us_says_nothing(configuration: dict[str, Any]) -> None:
    """It is read without complaint, and replaced."""
    assert read_stored(configuration).made_from is None


def test_versions() -> None:
    """Numbers, not letters; what comes before a release is older; nonsense is older than all."""
    texts = [
        "nonsense",
        "0.1.0.dev3",
        "0.1.0a1",
        "0.1.0rc1",
        "0.1.0",
        "0.1.1",
        "0.2",
        "0.10.0",
        "1.0.0-rc.1",
        "1",
        "1.0.post1",
    ]
    assert sorted(set(texts), key=age_of) == texts
    assert age_of("1.0") == age_of("1.0.0")


def faults(configuration: dict[str, Any] | None, want: Wanted = WANT, site: Site = SITE) -> list[str]:
    """What `differences` says, as text."""
    return [str(difference) for difference in differences(configuration, want, site, [])]


def test_no_differences() -> None:
    """Ours is complete, and so is one that lets every pod through."""
    assert faults(made()) == []
    everything = copy.deepcopy(made())
    for webhook in everything["webhooks"]:
        del webhook["matchConditions"]
    assert faults(everything) == []


def test_differences_that_keep_pods_out() -> None:
    """Each webhook, with what it does not let through, and CAs that are not ours."""
    text = "vendor: acme\nfamily: acme\nkeys: {gpu: {resource: acme.com/gpu, is: devices}}\n"
    more = wanted_by(policy(text + "forms: [{name: card, memory: all, cores: 100}]\n"))
    missing = "does not let pods through for acme.com/, acme.com/gpu"
    assert faults(made(), more) == [f"{ENFORCE} {missing}", f"{AUDIT} {missing}"]
    assert faults(None) == ["there is none"]
    assert faults({**made(), "webhooks": []}) == [f"{ENFORCE} is missing", f"{AUDIT} is missing"]
    other = damaged(clientConfig={"url": "https://x/y"}, matchConditions=[{"name": "mine", "expression": "true"}])
    assert [fault.partition(" ")[2] for fault in faults(other)] == [
        "calls https://x/y, not gpu/webhook:443/mutate",
        "has a caBundle that does not contain this webhook's CA",
        "has a foreign match condition, mine",
        f"has a match condition 'gpu-keys' that is not made from the names in the annotation {MATCHED_NAMES}",
    ]


@pytest.mark.parametrize(
    "field, value",
    [("failurePolicy", "Ignore"), ("matchPolicy", "Exact"), ("timeoutSeconds", 1), ("reinvocationPolicy", "Never")],
)
def test_slight_differences(field: str, value: object) -> None:
    """Pods are sent here all the same."""
    [difference] = differences(damaged(**{field: value}), WANT, SITE, [])
    assert (difference.field, difference.severity) == (field, Severity.SLIGHT)


def test_other_writers() -> None:
    """Whoever owns more of the webhooks than their bundles, by the record of the API server."""
    assert other_writers(made()) == []
    fields = {
        "vgpu-webhook": {"f:rules": {}},
        "cert-manager-cainjector": {".": {}, "f:clientConfig": {"f:caBundle": {}}},
        "kubectl-edit": {"f:clientConfig": {"f:url": {}}},
        "argocd-controller": {"f:failurePolicy": {}},
    }
    entries = [
        {"manager": manager, "fieldsV1": {"f:webhooks": {'k:{"name":"x"}': owned}}} for manager, owned in fields.items()
    ]
    configuration = made()
    configuration["metadata"]["managedFields"] = [*entries, {"manager": "meta", "fieldsV1": {"f:metadata": {}}}]
    assert other_writers(configuration) == ["argocd-controller", "kubectl-edit"]
