"""An API server that keeps one webhook configuration and one role, for reconcilers in the same process."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from tests.cluster.fake_api import FakeApi
from tests.yaml_text import put
from webhook.cluster.client import CLUSTER_ROLES, Answer
from webhook.cluster.registration.wanted import MUTATING, NAME, ConfigurationKind

CONFIGURATION = f"{MUTATING.collection}/{NAME}"
ROLE = f"{CLUSTER_ROLES}/release"


class Keeping(FakeApi):
    """An API with the two objects of a release, and with failures and other writers in between.

    Attributes:
        trouble: raised, or answered, in place of anything else.
        before_write: called before each write, as another hand would come in between.
    """

    def __init__(self, kind: ConfigurationKind = MUTATING) -> None:
        super().__init__()
        self._path = f"{kind.collection}/{NAME}"
        self.trouble: Answer | Exception | None = None
        self.before_write: Callable[[], None] = lambda: None
        self.before = self._before

    @property
    def stored(self) -> dict[str, Any] | None:
        """The stored webhook configuration; None if there is none."""
        return self.objects.get(self._path)

    @stored.setter
    def stored(self, registration: dict[str, Any] | None) -> None:
        self._keep(self._path, registration)

    @property
    def webhooks(self) -> list[dict[str, Any]]:
        """Those of the stored webhook configuration, which is there."""
        assert self.stored is not None
        found: list[dict[str, Any]] = self.stored["webhooks"]
        return found

    @property
    def metadata(self) -> dict[str, Any]:
        """Its metadata."""
        assert self.stored is not None
        found: dict[str, Any] = self.stored["metadata"]
        return found

    @property
    def role(self) -> str | None:
        """The uid of the role `release`, None if there is none."""
        found = self.objects.get(ROLE)
        return None if found is None else found["metadata"]["uid"]

    @role.setter
    def role(self, uid: str | None) -> None:
        self._keep(ROLE, None if uid is None else {"metadata": {"name": "release", "uid": uid}})

    @property
    def writes(self) -> int:
        """How often the webhooks were written; an apply creates the object without them before."""
        return sum(call.startswith("PUT") for call in self.calls)

    def set(self, changes: Mapping[str, Any]) -> None:
        """What another hand sets at paths of the webhook configuration."""
        changed = copy.deepcopy(self.stored)
        for path, value in changes.items():
            put(changed, path, value)
        self._keep(self._path, changed)

    @property
    def calls(self) -> list[str]:
        """Methods and paths, in order."""
        return [f"{method} {path}" for method, path, _ in self.requests]

    def _before(self, method: str, path: str) -> Answer | None:
        assert (method, path) in {
            ("GET", self._path),
            ("GET", ROLE),
            ("PUT", self._path),
            ("PATCH", self._path),
        }
        if isinstance(self.trouble, Exception):
            raise self.trouble
        if self.trouble is None and method != "GET":
            self.before_write()
        return self.trouble

    def _keep(self, path: str, body: dict[str, Any] | None) -> None:
        if body is None:
            self.objects.pop(path, None)
        else:
            self.put(path, body)
