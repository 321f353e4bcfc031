"""The registration as a pure function, and what can be read from one that stands in a cluster."""

import base64
import copy
from dataclasses import replace
from typing import Any

import pytest

from tests.mapping.vendors import policy
from webhook.admission import eligibility
from webhook.cluster.registered import Version, lacks, read_registered
from webhook.cluster.registration import (
    ENFORCE,
    MODE,
    NAME,
    OPT_IN,
    OPTED_IN,
    TELL,
    TELLING_MODES,
    WRITTEN_BY,
    Service,
    Site,
    Terms,
    registration,
    wanted,
)
from webhook.mapping.load import load_policy

CA = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
SITE = Site(Service("gpu", "webhook"), CA, "gpu")
WANT = wanted(load_policy())
ZONE = {"key": "zone", "operator": "NotIn", "values": ["edge"]}


def made(**changes: Any) -> dict[str, Any]:
    """The registration of the built-in policy."""
    return registration(WANT, SITE, version="1.2.0", **changes)


def selector(configuration: dict[str, Any], index: int = 0) -> dict[str, Any]:
    """The namespace selector of one of its webhooks."""
    found: dict[str, Any] = configuration["webhooks"][index]["namespaceSelector"]
    return found


def test_what_both_webhooks_have() -> None:
    """Creations of pods, no side effects, seen again when others have changed the pod."""
    configuration = made()
    assert configuration["metadata"] == {"name": NAME, "annotations": {WRITTEN_BY: f"1.2.0 {WANT.digest}"}}
    assert NAME < "hami-webhook"
    for webhook in configuration["webhooks"]:
        assert webhook["admissionReviewVersions"] == ["v1"]
        assert webhook["sideEffects"] == "None"
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
    """Namespaces that enforce wait for an answer, those that want to be told do not."""
    enforce, tell = made()["webhooks"]
    assert (enforce["name"], enforce["failurePolicy"]) == (ENFORCE, "Fail")
    assert (tell["name"], tell["failurePolicy"]) == (TELL, "Ignore")
    for webhook, operator in ((enforce, "NotIn"), (tell, "In")):
        assert webhook["namespaceSelector"]["matchExpressions"] == [
            {"key": "vgpu-webhook.io/inject", "operator": "In", "values": ["enabled"]},
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["gpu", "kube-node-lease", "kube-system"],
            },
            {"key": "vgpu-webhook.io/mode", "operator": operator, "values": ["observe", "warn"]},
        ]
    assert {key: value for key, value in enforce.items() if tell[key] != value}.keys() == {
        *("name", "failurePolicy", "namespaceSelector")
    }


def test_names_are_those_of_the_engine() -> None:
    """The labels by which namespaces are selected are those that decisions look at."""
    assert (OPT_IN, MODE) == (eligibility.INJECT, eligibility.MODE)
    assert load_policy().settings.opt_in_label == OPT_IN
    assert set(TELLING_MODES) == {mode.value for mode in eligibility.Mode} - {"enforce"}
    assert OPTED_IN == "enabled"


def test_by_url_without_authority() -> None:
    """The API server then trusts what its machine trusts; something else may fill the bundle in."""
    (webhook, _) = registration(WANT, Site("https://gpu.example/mutate"))["webhooks"]
    assert webhook["clientConfig"] == {"url": "https://gpu.example/mutate"}
    assert selector({"webhooks": [webhook]})["matchExpressions"][1]["values"] == ["kube-node-lease", "kube-system"]


def test_settings_of_the_policy() -> None:
    """The opt-in label and the time-out are the settings'."""
    want = wanted(policy(settings="optInLabel: team.example/gpu\ntimeoutSeconds: 9\n"))
    configuration = registration(want, SITE)
    assert selector(configuration)["matchExpressions"][0]["key"] == "team.example/gpu"
    assert configuration["webhooks"][0]["timeoutSeconds"] == 9


def test_read_back() -> None:
    """Everything that it was made from."""
    read = read_registered(made())
    assert (read.version, read.digest, read.wanted, read.foreign) == (Version("1.2.0"), WANT.digest, WANT, {})


def test_one_without_a_writer_is_kept_by_hand() -> None:
    """Nobody would keep its digest up to date."""
    configuration = registration(WANT, SITE)
    assert "annotations" not in configuration["metadata"]
    assert read_registered(configuration).digest is None


def test_another_opt_in_label_is_no_foreign_term() -> None:
    """A reader whose policy has another label knows the writer's."""
    other = registration(replace(WANT, opt_in="team.example/gpu"), SITE, version="1.2.0")
    read = read_registered(other)
    assert read.wanted is not None
    assert read.wanted.opt_in == "team.example/gpu"
    assert read.foreign == {}


def test_foreign_terms_are_kept() -> None:
    """They stay behind ours, and are the same when they are read once more."""
    configuration = made()
    selector(configuration, 0)["matchExpressions"].insert(0, ZONE)
    selector(configuration, 0)["matchLabels"] = {"b": "1", "a": "2"}
    selector(configuration, 1)["matchExpressions"].append({"key": "x", "operator": "In", "values": ["enabled"]})
    read = read_registered(configuration)
    assert read.wanted == WANT
    assert read.foreign[ENFORCE] == Terms({"b": "1", "a": "2"}, [ZONE])
    assert str(read.foreign[ENFORCE]) == "a=2 and b=1 and zone NotIn (edge)"
    again = made(foreign=read.foreign)
    assert selector(again)["matchExpressions"][-1] == ZONE
    assert read_registered(again).foreign == read.foreign


@pytest.mark.parametrize(
    "term",
    [
        {"key": OPT_IN, "operator": "DoesNotExist"},
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
    terms[:] = [one for one in terms if one["key"] != term["key"]] + [term]
    assert read_registered(configuration).foreign == {}


def test_a_longer_list_of_spared_namespaces_is_foreign() -> None:
    """Somebody has added to ours: it is kept beside it."""
    configuration = made()
    selector(configuration)["matchExpressions"][1]["values"] += ["team"]
    (term,) = read_registered(configuration).foreign[ENFORCE].expressions
    assert "team" in term["values"]


def damaged(**changes: Any) -> dict[str, Any]:
    """A registration with changes to its first webhook; None takes a field away."""
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
        damaged(matchConditions=[{"name": "gpu-words", "expression": "true"}]),
        damaged(namespaceSelector={}),
        damaged(timeoutSeconds=7),
        damaged(timeoutSeconds=None),
        {**made(), "metadata": {"name": NAME, "annotations": {WRITTEN_BY: "nonsense"}}},
    ],
)
def test_what_was_not_made_by_us_says_nothing(configuration: dict[str, Any]) -> None:
    """It is read without complaint, and replaced."""
    assert read_registered(configuration).wanted is None


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
    assert [one.text for one in sorted(map(Version, reversed(texts)))] == texts
    assert not Version("1.0") < Version("1.0.0")
    assert not Version("1.0.0") < Version("1.0")


def test_lacks_nothing() -> None:
    """Ours is complete, and so is one that lets every pod through."""
    assert lacks(made(), WANT, SITE) == []
    everything = copy.deepcopy(made())
    for webhook in everything["webhooks"]:
        del webhook["matchConditions"]
    assert lacks(everything, WANT, SITE) == []


def test_lacks_words() -> None:
    """Each webhook, with what it does not let through, and authorities that are not ours."""
    text = "vendor: acme\nfamily: acme\nwords: {gpu: {resource: acme.com/gpu, is: devices}}\n"
    more = wanted(policy(text + "forms: [{name: card, memory: all, cores: 100}]\n"))
    missing = "does not let pods through for acme.com/, acme.com/gpu"
    assert lacks(made(), more, SITE) == [f"{ENFORCE} {missing}", f"{TELL} {missing}"]
    assert lacks(None, WANT, SITE) == ["there is none"]
    assert lacks({**made(), "webhooks": []}, WANT, SITE) == [f"{ENFORCE} is missing", f"{TELL} is missing"]
    other = damaged(clientConfig={"caBundle": ""}, matchConditions=[{"name": "mine", "expression": "true"}])
    assert [fault.split(" ", 2)[1:] for fault in lacks(other, WANT, SITE)] == [
        ["has", "no match condition 'gpu-words' as this version writes it: it cannot be compared"],
        ["has", "a caBundle that does not hold this webhook's authority"],
    ]
