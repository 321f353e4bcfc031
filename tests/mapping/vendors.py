"""Vendors and policies from documents written in a test."""

from collections.abc import Iterable

import pytest

from webhook.mapping.document import Document, MappingError, Problem, parse
from webhook.mapping.load import build_policy, combine, prepare
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.settings import Settings
from webhook.mapping.strict import validated

ACME = """\
vendor: acme
family: acme
keys:
  gpu:  {resource: acme.com/gpu, is: devices}
  mem:  {resource: acme.com/mem, is: memory, unit: 1Mi}
  core: {resource: acme.com/core, is: cores}
forms:
- {name: share, absent: {devices: 1, memory: all, cores: unlimited}}
"""
LARGEST = 1024**4


def vendor(text: str) -> Vendor:
    """The vendor that a document describes."""
    (document,) = parse(text, "acme.yaml")
    return prepare(document).vendor


def policy(*texts: str, settings: str = "") -> Policy:
    """The built-in policy with these documents over it."""
    documents = [each for number, text in enumerate(texts) for each in parse(text, f"{number}.yaml")]
    return build_policy(documents, next(iter(parse(settings, "settings.yaml")), None))


def unprobed(documents: Iterable[Document], settings: Document | None = None) -> Policy:
    """The policy of documents that are known to be right, without the probes of each, which take most of the time."""
    prepared = [prepare(document) for document in documents]
    return combine(
        {each.vendor.name: each for each in prepared},
        validated(Settings, settings.data, settings) if settings else Settings(),
    )


def problems(*texts: str, settings: str = "") -> list[Problem]:
    """What is wrong with these documents."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Policy, "read_keys", None)  # what takes longest of a policy in order, and has no mistakes
        with pytest.raises(MappingError) as caught:
            policy(*texts, settings=settings)
    return list(caught.value.problems)
