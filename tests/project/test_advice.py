"""What pages and messages tell people to write is accepted when they write it."""

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.mapping.vendors import policy as configured
from tests.naming import each_of
from webhook.admission import Context, Decision, Namespace, decide
from webhook.labels import TARGET
from webhook.mapping.document.problem import MappingError
from webhook.mapping.document.schema import Mapping
from webhook.mapping.document.settings import Settings
from webhook.mapping.load import load_policy
from webhook.pod import decode_pod
from webhook.quantity import GIB, exact_text, simplest
from webhook.reasons import Reason

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").glob("*.md"))]
MESSAGES: Final = [
    *sorted((ROOT / "tests" / "cases").glob("*/report.txt")),
    *sorted((ROOT / "webhook" / "mapping" / "builtin").glob("*.yaml")),
]
POLICY: Final = load_policy()
CONTEXT: Final = Context(Namespace("team", {"vgpu-webhook.io/inject": "enabled"}), "privileged")
OF_MAPPINGS: Final = {field.alias or name for name, field in Mapping.model_fields.items()}
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


def test_parts_are_found() -> None:
    """In pages, in messages and in documents."""
    assert {"vendors.md", "shared-count-without-a-size", "gpushare.yaml"} <= {part.place for part in PARTS}


def decided(limits: dict[str, str], target: str) -> Decision:
    """What becomes of a pod that requests this, for a target."""
    annotations = {"annotations": {TARGET: target}}
    container = {"name": "main", "resources": {"limits": limits, "requests": limits}}
    pod: dict[str, Any] = {"metadata": {"name": "p", **annotations}, "spec": {"containers": [container]}}
    return decide(decode_pod(json.dumps(pod).encode()), CONTEXT, POLICY)


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
_NUMBERED: Final = re.compile(r"([a-z][\w.-]*/[\w.-]+): (\d+)")
_SIZED: Final = re.compile(r"with ([a-z][\w.-]*/[\w.-]+) for a part")


def eight_gibibytes(name: str) -> str:
    """A size in the unit of a key."""
    (owner, *_) = POLICY.resources.owners(name)
    return exact_text(simplest(8 * GIB / Fraction(POLICY.vendors[owner.vendor].keys[owner.key_name].unit or 1)))


@each_of("count", COUNTS)
def test_advice_on_fractions_is_accepted(count: str) -> None:
    """Whatever is to be written beside one device: by every target, or else it is not advised."""
    for target in TARGETS:
        denial = decided({count: "0.4"}, target).denial
        assert denial is not None
        if denial.reason is not Reason.NOT_WHOLE:
            continue
        advised = dict(_NUMBERED.findall(denial.message.partition("write ")[2]))
        advised |= {name: eight_gibibytes(name) for name in _SIZED.findall(denial.message)}
        if advised:
            again = decided({count: "1", **advised}, target)
            assert again.denial is None, (target, denial.message, again.denial)
