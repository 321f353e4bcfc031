"""Memory at the first sight of a pod: what is remembered shows in tests that look at every pod once."""

from collections.abc import Iterator

import pytest

from webhook.mapping.model.policy import Memo


@pytest.fixture(scope="module")
def remembers_at_once() -> Iterator[None]:
    """Remember every plain pod, not only those that were met before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Memo, "met", lambda _memo, _key: True)
        yield
