"""Policies that take little time: one for all tests, and those whose documents are known to be in order, without probes."""

from collections.abc import Iterable
from functools import cache

from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.load import combine, load_policy, prepare, settings_of
from webhook.mapping.model.policy import Policy


def unprobed_policy(documents: Iterable[Document], settings: Document | None = None) -> Policy:
    """The policy that `build_policy` returns; only for documents that another test gives to `build_policy`.

    Raises:
        MappingError: a document is not in order, or contradicts another one.
    """
    prepared = [prepare(document) for document in documents]
    return combine({draft.vendor.name: draft for draft in prepared}, settings_of(settings, None))


@cache
def built_in_policy() -> Policy:
    """The policy without any document or setting; for tests that do not depend on what it remembers."""
    return load_policy()


@cache
def policy_without_settings() -> Policy:
    """The policy of a cluster without any document or setting, likewise."""
    return unprobed_policy([], Document("", {"bareDevices": "whole"}, {}))
