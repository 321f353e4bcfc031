"""Policies whose documents are known to be in order, without the probes of each document that take most of the time."""

from collections.abc import Iterable

from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.load import combine, prepare, settings_of
from webhook.mapping.model.policy import Policy


def unprobed_policy(documents: Iterable[Document], settings: Document | None = None) -> Policy:
    """The policy that `build_policy` returns; only for documents that another test gives to `build_policy`.

    Raises:
        MappingError: a document is not in order, or contradicts another one.
    """
    prepared = [prepare(document) for document in documents]
    return combine({draft.vendor.name: draft for draft in prepared}, settings_of(settings, None))
