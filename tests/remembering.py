"""What tests remember: a pod at its first sight, where they look at every pod once, and a command's policy."""

from collections.abc import Iterator, Sequence

import pytest

from webhook.cli import policy_source
from webhook.mapping.document import Document
from webhook.mapping.load import build_policy
from webhook.mapping.model.policy import Memo, Policy


@pytest.fixture(scope="module")
def remembers_at_once() -> Iterator[None]:
    """Remember every plain pod, not only those that were met before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Memo, "met", lambda _memo, _key: True)
        yield


@pytest.fixture(scope="session", autouse=True)
def _policies_of_commands() -> Iterator[None]:
    """Build each policy of the commands once in a process: hundreds of runs in this process name the same few."""
    built: dict[str, Policy] = {}

    def remembered(documents: Sequence[Document], settings: Document | None = None, *, partial: bool = False) -> Policy:
        key = repr((documents, settings, partial))
        if key not in built:
            built[key] = build_policy(documents, settings, partial=partial)
        return built[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_source, "build_policy", remembered)
        yield
