"""What a pod says of itself: whatever a status is, reading it raises nothing, and describes no claim that is not ours."""

import json
from collections.abc import Sequence
from typing import Any, Final

from hypothesis import example, given
from hypothesis import strategies as st

from tests.decided import POLICY, decided
from tests.mapping.vendors import policy
from tests.naming import each_of
from webhook.admission.claims import _request_in, claims_in_status
from webhook.admission.decision import MAX_STATUS, ClaimedContainer
from webhook.labels import STATUS
from webhook.mapping.writing import REQUEST, template_of
from webhook.pod import Metadata

HIDING: Final = policy(settings="target: nvidia\nbareDevices: whole\nhideDevices: true\n")
WRITERS: Final = {name: vendor for name, vendor in POLICY.vendors.items() if vendor.claim is not None}
KEYS: Final = sorted({key.spellings[0].text for vendor in WRITERS.values() for key in vendor.keys.values()})
ODD: Final = [
    "0",
    "-1",
    "1",
    "0.5",
    "1n",
    "1e20",
    "9223372036854775808",
    "9" * 40,
    "8Gi",
    "٣",
    "²",
    "",
    " 1",
    "NaN",
    "é\0",
]

TEXTS = st.sampled_from(ODD) | st.text(max_size=20)
WRITTEN = st.dictionaries(st.sampled_from(KEYS), TEXTS, max_size=5)
CONTAINER = st.fixed_dictionaries(
    {"claim": st.sampled_from(["vgpu-a", "vgpu-b", ""]), "written": WRITTEN},
    optional={
        "vendor": st.sampled_from([*WRITERS, "x"]),
        "target": st.sampled_from(sorted(WRITERS)),
        "claimRequest": TEXTS,
    },
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.sampled_from(["containers", "hidden"]), inner)
    ),
    max_leaves=8,
)


def zero_of(vendor: str, text: str = "0") -> dict[str, Any]:
    """A container whose count in the keys of a vendor is none."""
    (count,) = (key.spellings[0].text for key in WRITERS[vendor].keys.values() if "devices" in key.dimensions)
    return {"claim": "vgpu-a", "vendor": vendor, "written": {count: text}}


def claims(text: str) -> list[str]:
    """The claims that a status describes."""
    return [*claims_in_status(Metadata(annotations={STATUS: text}), POLICY)]


@given(st.dictionaries(st.sampled_from("abc"), CONTAINER, min_size=1))
@example({"a": zero_of("dra-vgpu-manager")})
@example({"a": zero_of("dra-nvidia-mig", "0.5")})
@example({"a": zero_of("dra-hami", "-1"), "b": {**zero_of("dra-hami"), "claimRequest": "x"}})
def test_no_forged_request_is_one(containers: dict[str, Any]) -> None:
    """Names that are no hash describe nothing, whatever stands below them."""
    assert claims(json.dumps({"containers": containers})) == []


def stored(text: str) -> dict[str, Any]:
    """A pod with a status, with a claim of ours and a request that has not been read yet."""
    resources = {"limits": {"nvidia.com/gpu": "1"}, "claims": [{"name": "c"}]}
    spec = {
        "containers": [{"name": "a", "resources": resources}, {"name": "b"}],
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "vgpu-0123456789abcdef0123"}],
    }
    return {"metadata": {"name": "p", "annotations": {STATUS: text}}, "spec": spec}


def admitted(text: str) -> object:
    """The decision about it, where devices are hidden, too."""
    return decided(stored(text), HIDING)


@given(ANYTHING)
def test_any_status_is_read(status: Any) -> None:
    """Of any type at any place; with a claim of ours or without."""
    text = json.dumps(status)
    for each in (text, f'{{"claim": 0, "containers": {text}, "hidden": {text}}}'):
        claims(each)
        admitted(each)


@each_of(
    "text",
    ["[" * 3000, '{"claim":' * 3000, '{"claim":0,"hidden":' + "[" * 2000 + "]" * 2000 + "}", '"claim"'],
)
def test_no_status_is_read_that_is_no_json(text: str) -> None:
    """Nested deeper than Python's stack, or cut off."""
    assert claims(text) == []
    admitted(text)


def claiming(*sizes: str, name: str = REQUEST, held: Sequence[str]) -> dict[str, Any]:
    """A pod with a claim of ours for each size, in the keys of a driver, and the claims that its container holds."""
    vendor = WRITERS["dra-hami"]
    of = {each: vendor.keys[found[0]].spellings[0].text for each, found in vendor.by_dimension.items()}
    containers, claims = {}, []
    for number, size in enumerate(sizes):
        written = {of["devices"]: "1", of["memory"]: size, of["cores"]: "30"}
        request = _request_in(ClaimedContainer(vendor=vendor.name, written=written), vendor, POLICY)
        template = template_of(vendor, {name: request}).name
        containers[f"c{number}"] = {
            "vendor": vendor.name,
            "written": written,
            "claim": template,
            "claimRequest": name,
        }
        claims.append({"name": f"claim{number}", "resourceClaimTemplateName": template})
    resources = {"claims": [{"name": each} for each in held]}
    spec = {"resourceClaims": claims, "containers": [{"name": "c0", "image": "app", "resources": resources}]}
    return {"metadata": {"annotations": {STATUS: json.dumps({"containers": containers})}}, "spec": spec}


def denial_of(pod: dict[str, Any]) -> str | None:
    """Why a pod is denied."""
    denial = decided(pod).denial
    return None if denial is None else denial.text


@each_of("name", [REQUEST, "x"])
def test_the_only_request_of_a_claim_has_any_name(name: str) -> None:
    """The template's name is a hash of it, too."""
    pod = claiming("4Gi", name=name, held=["claim0"])
    assert [*claims_in_status(Metadata(annotations=pod["metadata"]["annotations"]), POLICY)]
    assert denial_of(pod) is None


def test_no_status_is_read_that_could_not_be_stored() -> None:
    """It would be decoded for each step that asks for it."""
    text = claiming("4Gi", held=[])["metadata"]["annotations"][STATUS].ljust(MAX_STATUS)
    assert claims(text)
    assert claims(text + " ") == []


def test_a_container_holds_one_claim_of_ours() -> None:
    """Of two, only one limit would hold, on the devices of both."""
    for held in (["claim0", "claim1"], ["claim1", "claim0"]):
        assert "only one limit holds" in (denial_of(claiming("1Gi", "64Gi", held=held)) or "")
    assert denial_of(claiming("1Gi", "64Gi", held=["claim0"])) is None
