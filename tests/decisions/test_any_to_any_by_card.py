"""Any vendor's requests in any other's keys, where the pod selects its GPU model: never less than requested."""

import json
from fractions import Fraction
from functools import cache

import pytest
from msgspec.structs import replace

from tests.decisions.test_any_to_any import (
    CONFIGURED,
    DOCUMENTS,
    REASONS,
    REQUESTS,
    SOURCES,
    STANDBY,
    VENDORS,
    check_least,
    check_stored,
    policy_for,
    requests,
    translated,
)
from tests.depth import few_or_all, partners
from tests.mapping.vendors import unprobed
from webhook.admission import Decision
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.model.policy import Policy
from webhook.patch import Operation
from webhook.reasons import Reason
from webhook.request import UNLIMITED, Percent, Request, Size

LABEL = "team.example/card"
NEVER_CONVERTED = {"biren", "mps", "neuron", "timeslicing", "vastai", "whole"}
"""They have no key for a part of a device's memory."""
CARDS = {"big": 80 * 1024**3, "odd": 15109 * 1024**2}
PARTS = """\
vendor: parts
family: nvidia
keys:
  card: {resource: parts.example/card, is: devices}
  part: {resource: parts.example/part, is: memory, unit: 1%}
  core: {resource: parts.example/core, is: cores}
forms:
- {name: share, absent: {devices: 1, cores: unlimited}}
"""


def policy_with_cards(source: str) -> Policy:
    """As the policy without, and a target that says memory in percent only."""
    return _policy_with_cards(source if source in STANDBY else "")


@cache
def _policy_with_cards(source: str) -> Policy:
    settings = policy_for(source).settings.model_dump(by_alias=True, exclude_defaults=True)
    settings |= {"cards": {name: f"{size // 1024**2}Mi" for name, size in CARDS.items()}, "cardLabels": [LABEL]}
    documents = [*DOCUMENTS, *parse(CONFIGURED, "configured"), *parse(PARTS, "parts")]
    return unprobed(documents, parse(json.dumps(settings), "settings")[0])


@pytest.mark.timeout(3600)
@few_or_all
@pytest.mark.parametrize("source", SOURCES)
def test_any_to_any_on_a_known_card(source: str, most: int) -> None:
    """Only a unit that the target lacks is converted, to the least number that is enough and valid there."""
    policy = policy_with_cards(source)
    converted_any = False
    for target in (*partners(source, VENDORS, max(most, 2)), "parts"):
        # Of few requests for whoever has no sizes, none may be for a size.
        count = 120 if target == "parts" else REQUESTS
        for number, (pod, requested) in enumerate(requests(source, target, policy, count)):
            if most < len(VENDORS) and converted_any and number >= REQUESTS:
                break
            card = sorted(CARDS)[number % 2]
            _, without = translated(pod, target, policy)
            pod["spec"]["nodeSelector"] = {LABEL: card}
            stored, decision = translated(pod, target, policy)
            try:
                if decision.denial is not None:
                    assert decision.reason in REASONS
                    assert without.denial is not None
                    continue
                if all(finding.reason is not Reason.DEVICE_MEMORY_ASSUMED for finding in decision.warnings):
                    assert _requested(without) == _requested(decision)
                    # On a known device a shim has a limit to write for a percentage, too.
                    left = any(finding.reason is Reason.LEFT_TO_PLUGIN for finding in without.notes)
                    assert left or without.patch == decision.patch
                    continue
                converted_any = True
                assert without.reason is Reason.NO_EQUIVALENT
                converted = in_the_other_unit(requested, CARDS[card])
                if any(finding.reason is Reason.DIMENSION_DROPPED for finding in decision.warnings):
                    converted = replace(converted, cores=UNLIMITED)
                check_stored(pod, stored, converted, policy)
                check_least(policy.vendors[target], converted, stored, policy)
            except AssertionError as error:
                raise AssertionError(f"{source} to {target}: {json.dumps(pod)} ({requested}): {decision}") from error
    assert converted_any or source in NEVER_CONVERTED


def _requested(decision: Decision) -> list[Operation]:
    """What is written to requests."""
    return [operation for operation in decision.patch if "/resources" in operation["path"]]


def in_the_other_unit(requested: Request, card: int) -> Request:
    """The request on a device of so many bytes, exactly."""
    memory = requested.memory
    if isinstance(memory, Size):
        assert memory.bytes <= card
        return replace(requested, memory=Percent(Fraction(memory.bytes) * 100 / card))
    assert isinstance(memory, Percent)
    return replace(requested, memory=Size(Fraction(memory.value) * card / 100))


def test_some_requests_need_the_card() -> None:
    """Both ways are taken."""
    for source, target in (("nvidia", "aliyun"), ("aliyun", "parts")):
        policy = policy_with_cards(source)
        converted = 0
        for pod, _ in requests(source, target, policy, 20):
            pod["spec"]["nodeSelector"] = {LABEL: "big"}
            _, decision = translated(pod, target, policy)
            converted += any(finding.reason is Reason.DEVICE_MEMORY_ASSUMED for finding in decision.warnings)
        assert converted, source
