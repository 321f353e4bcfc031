"""What pages and messages tell people to write is accepted when they write it."""

import fnmatch
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.acted import in_vain
from tests.admission import test_told
from tests.advised import followed
from tests.decided import CONTEXT, POLICY, decided
from tests.decisions import test_cases, test_keys
from tests.decisions.any_to_any import VENDORS, policy_between, policy_for
from tests.depth import few_or_all, partners
from tests.mapping.vendors import policy as configured
from tests.naming import each_of, naming
from tests.yaml_text import load_yaml, rows_of
from webhook.admission import Context
from webhook.labels import TARGET, keys_of
from webhook.mapping.document import MappingError
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.settings import Settings
from webhook.reasons import Finding, Reason, explanation_of

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").glob("*.md"))]
MESSAGES: Final = [
    *sorted((ROOT / "tests" / "cases").glob("*/report.txt")),
    *sorted((ROOT / "webhook" / "mapping" / "builtin").glob("*.yaml")),
]
OF_MAPPINGS: Final = {field.alias or name for name, field in Vendor.model_fields.items()}
OF_SETTINGS: Final = {field.alias or name for name, field in Settings.model_fields.items()}
RENAMED: Final = "extends: timeslicing\nkeys: {gpu: {resource: [nvidia.com/gpu, nvidia.com/gpu.shared]}}\n"
"""The document that a setting `owners` needs, where a message says so in words."""

_CODE: Final = re.compile(r"`([^`]+)`")
_PART: Final = re.compile(r"([a-zA-Z]+): [{\[][^…]*[}\]]", re.DOTALL)
_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


class Part(NamedTuple):
    """A part of a document that a page or a message names: the words before it, and the mappings that the page shows."""

    place: str
    text: str
    before: str
    shown: tuple[str, ...]


def parts() -> Iterator[Part]:
    """All parts that belong at the top of settings or a mapping."""
    for path in (*PAGES, *MESSAGES):
        page, text = path.suffix == ".md", path.read_text()
        shown = tuple(block for _, block in _BLOCK.findall(text) if re.search("^vendor: ", block, re.MULTILINE))
        heading = ""
        for around in re.split(r"\n\n|\n(?=- |#)", _BLOCK.sub("", text)) if page else text.splitlines():
            heading = around if around.startswith("**") else heading
            for found in _CODE.finditer(around):
                key = _PART.fullmatch(found[1])
                if key is not None and key[1] in OF_MAPPINGS | OF_SETTINGS:
                    place = path.parent.name if path.name == "report.txt" else path.name
                    # A message names the vendor behind it.
                    yield Part(
                        place,
                        " ".join(found[1].split()),
                        f"{heading} {around[: found.start()]}" if page else around,
                        shown,
                    )


def tried(part: Part) -> Iterator[tuple[list[str], str]]:
    """Documents and settings with a part: of the vendors that are named before it."""
    key = part.text.partition(":")[0]
    if key in OF_SETTINGS:
        yield list(part.shown), f"{part.text}\n"
        yield [RENAMED], f"{part.text}\n"
    if key in OF_MAPPINGS:
        words = [*re.findall(r"[\w-]+", part.before), part.place.removesuffix(".yaml")]
        for word in dict.fromkeys(each for each in words if each in POLICY.vendors):
            yield [f"extends: {word}\n{part.text}\n"], ""
            yield [f"extends: {word}\ninactive: true\n{part.text}\n"], ""  # a setting `owners` makes it active


def valid(documents: list[str], settings: str) -> bool:
    """Whether a policy comes out of them."""
    try:
        configured(*documents, settings=settings)
    except MappingError:
        return False
    return True


PARTS: Final = list(parts())


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.place}: {part.text}")
def test_parts_of_documents_are_accepted(part: Part) -> None:
    """As they stand in a sentence: in settings, or in a document that extends a vendor which the sentence names."""
    assert any(valid(*each) for each in tried(part))


COUNTS: Final = sorted(
    name
    for vendor in POLICY.in_force
    if vendor.sizes
    for key in vendor.keys.values()
    if key.dimensions == ("devices",) and key.place == "resource"
    for name in [key.spellings[0].text]
    if "{" not in name
)
TARGETS: Final = sorted(vendor.name for vendor in POLICY.vendors.values() if vendor.target)


ABOUT_NAMES: Final = {Reason.NEAR_MISS, Reason.UNKNOWN_KEY, Reason.KEY_IGNORED}
"""What is told of a name alone: what else its vendor wants beside it comes next."""


def not_accepted(pod: Any, context: Context, policy: Policy) -> Iterator[str]:
    """What the denial or the warnings of a pod tell people to write, although it would be denied, too."""

    def again(pod: Any) -> Finding | None:
        return decided(pod, policy, context).denial

    decision = decided(pod, policy, context)
    for told in decision.warnings if decision.denial is None else (decision.denial,):
        for text, findings in () if told.reason in ABOUT_NAMES else followed(pod, told, policy, again):
            if findings:
                yield f"{told.text}: {text}: {findings[0].text}"
    if decision.denial is not None and decision.denial.reason not in ABOUT_NAMES:
        for text, finding in in_vain(pod, decision.denial, policy, again):
            yield f"{decision.denial.text}: {text}: {finding.text}"


@each_of("count", COUNTS)
def test_advice_on_fractions_is_accepted(count: str) -> None:
    """Whatever is to be written for a part of one device, by every target."""
    for target in TARGETS:
        pod = test_keys.pod_of({"limits": {count: "0.4"}, "annotations": {TARGET: target}})
        assert not list(not_accepted(pod, CONTEXT, POLICY))


@each_of("folder", test_cases.FOLDERS)
def test_advice_of_cases_is_accepted(folder: Path) -> None:
    """Whatever a golden case is told to write instead."""
    pod = json.loads(test_cases.pod_in(folder))
    assert not list(not_accepted(pod, test_cases.context_in(folder), test_cases.policy_in(folder)))


@each_of("file", test_told.FILES)
def test_advice_of_single_rules_is_accepted(file: Path) -> None:
    """Whatever the tables of what is told have a pod told."""
    table = load_yaml(file.read_text())
    for case, whole in rows_of(table, "pods"):
        sent = test_told.pod_of(whole)
        pod = {**sent, "metadata": {"annotations": {}, "labels": {}, **sent["metadata"]}}
        assert not list(not_accepted(pod, test_told.context_of(whole), test_told.policy_in(whole))), case


def advice_on_keys(vendor: str, targets: list[str]) -> Iterator[str]:
    """What single requests of a vendor are told to write, in vain: in its own keys, and on order for targets."""
    for number, case in enumerate(test_keys.CASES[vendor], start=1):
        if "with" in case or case.get("means") == "known":
            continue
        for target in ("", *targets):
            pod = test_keys.pod_of(case)
            if target:
                pod["metadata"]["annotations"][TARGET] = target
            policy = policy_between(vendor, target) if target else policy_for(vendor)
            with naming(f"{vendor} {number} to {target}"):
                yield from not_accepted(pod, CONTEXT, policy)


@few_or_all
@pytest.mark.parametrize("vendor", test_keys.CASES)
def test_advice_on_keys_is_accepted(vendor: str, most: int) -> None:
    """It is, by its own vendor and by every target; or the message says at once what the target denies then."""
    assert not list(advice_on_keys(vendor, partners(vendor, VENDORS, most)))


def test_keys_in_texts_of_codes_are_read() -> None:
    """What explains a code names keys that somebody reads; its examples are messages."""
    names = [f"{explanation_of(each).meaning} {explanation_of(each).remedy}" for each in Reason]
    named = {key for text in names for key in re.findall(r"[a-z][\w-]*\.[a-z]+/[\w.*-]*[\w*]", text)}
    ours = ["kubernetes.io/arch"]  # of Kubernetes
    ours += [key for kind in ("namespace", "pod") for place in ("annotation", "label") for key in keys_of(kind, place)]
    places = (POLICY.resources, POLICY.labels, POLICY.annotations, POLICY.node_selector)
    assert len(named) > 5
    assert not [key for key in named if not any(each.owners(key) for each in places) and not fnmatch.filter(ours, key)]
