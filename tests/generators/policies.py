"""Policies as clusters configure them: settings, and a few lines over built-in mappings. And namespaces."""

import json
from functools import cache

from hypothesis import strategies as st

from tests.unprobed import unprobed_policy
from webhook.mapping.document.problem import MappingError
from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.model.policy import Policy


@cache
def policy_of(settings: str, changes: tuple[str, ...]) -> Policy | None:
    """The policy of these documents in JSON; None where they contradict each other."""
    documents = [Document("generated", json.loads(change), {}) for change in changes]
    try:
        return unprobed_policy(documents, Document("settings", json.loads(settings), {}))
    except MappingError:
        return None


DEFAULTS = {
    "vgpu-webhook.io/default-memory": st.one_of(
        st.sampled_from(["all", "all", "4Gi", "5000Mi", "5001Ki", "0", "4096", "8Ti", "x"]),
        st.integers(1, 100_000).map("{}Mi".format),
    ),
    "vgpu-webhook.io/default-cores": st.one_of(
        st.sampled_from(["100", "30", "33", "0", "30.5", "120"]), st.integers(1, 100).map(str)
    ),
    "vgpu-webhook.io/default-devices": st.one_of(st.integers(1, 8).map(str), st.sampled_from(["1", "2", "0", "4097"])),
}
"""Annotations of a namespace that fill in what is not specified: of every kind, and some that cannot be read."""


def defaults() -> st.SearchStrategy[dict[str, str]]:
    """One or more of them."""
    return st.fixed_dictionaries({}, optional=DEFAULTS).filter(bool)
