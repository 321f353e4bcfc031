"""A client of the Kubernetes API for tests: dictionaries in, the server's whole answer out.

A real client library hides the warnings and puts the body into typed objects that drop what they don't know; tests want
both.
"""

import http.client
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from tests.waiting import PATIENCE

Object = dict[str, Any]
T = TypeVar("T")

CALL_TIMEOUT = 40.0  # the API server itself gives a create 34 s
WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')


class UnexpectedAnswerError(Exception):
    """The API server refused what a test took for granted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The API server's answer to one call."""

    status: int
    body: Object
    warnings: tuple[str, ...]

    @property
    def message(self) -> str:
        """The message of a refusal; empty for anything else."""
        return str(self.body.get("message", "")) if self.body.get("kind") == "Status" else ""

    def accepted(self) -> Object:
        """Return the body of a call that must have succeeded."""
        if not 200 <= self.status < 300:
            raise UnexpectedAnswerError(f"{self.status}: {self.message or self.body}")
        return self.body


class _Connection(http.client.HTTPSConnection):
    """A connection that is closed when nobody has it any more, as at the end of a thread."""

    def limit(self, seconds: float) -> None:
        self.timeout = seconds
        if self.sock is not None:
            self.sock.settimeout(seconds)

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Client:
    """Calls one API server with one token."""

    server: str
    token: str
    ca_file: str
    _tls: ssl.SSLContext = field(init=False, repr=False)
    _kept: threading.local = field(init=False, repr=False, default_factory=threading.local)

    def __post_init__(self) -> None:
        """Read the certificate authority once."""
        object.__setattr__(self, "_tls", ssl.create_default_context(cafile=self.ca_file))

    def create(
        self, manifest: Object, namespace: str | None = None, *, dry_run: bool = False, strict: bool = False
    ) -> Answer:
        """Create an object of any kind, in `namespace` or else in its own.

        With `strict`, fields that are unknown or there twice are refused, not warned of.
        """
        namespace = namespace or manifest.get("metadata", {}).get("namespace")
        path = _path(manifest["apiVersion"], plural(manifest["kind"]), namespace)
        query = {"dryRun": "All"} if dry_run else {}
        if strict:
            query["fieldValidation"] = "Strict"
        return self.call("POST", path, manifest, query=query)

    def get(self, api_version: str, resource: str, name: str, namespace: str | None = None) -> Answer:
        """Read one object; the resource is the plural, as in URLs, with its subresource if any: `nodes`, `pods`."""
        return self.call("GET", _path(api_version, resource, namespace, name))

    def patch(self, api_version: str, resource: str, name: str, patch: Object, namespace: str | None = None) -> Answer:
        """Merge a patch into one object (RFC 7386); `name` may end in a subresource: `node-1/status`."""
        path = _path(api_version, resource, namespace, name)
        return self.call("PATCH", path, patch, content_type="application/merge-patch+json")

    def delete(self, api_version: str, resource: str, name: str, namespace: str | None = None) -> Answer:
        """Delete one object at once (no kubelet is there to end a pod)."""
        return self.call("DELETE", _path(api_version, resource, namespace, name), query={"gracePeriodSeconds": "0"})

    def list(self, api_version: str, resource: str, namespace: str | None = None, selector: str = "") -> list[Object]:
        """Return the objects of a kind, in one namespace or all, by label selector."""
        query = {"labelSelector": selector} if selector else {}
        items: list[Object] = self.call("GET", _path(api_version, resource, namespace), query=query).accepted()["items"]
        return items

    def account_token(self, account: str, namespace: str) -> str:
        """Return a token of a service account, good for an hour."""
        request: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", request)
        token: str = answer.accepted()["status"]["token"]
        return token

    def call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
        seconds: float = CALL_TIMEOUT,
    ) -> Answer:
        """Make one call, on the connection of this thread; a body that is not JSON comes back under the key `text`."""
        target = f"{path}?{urlencode(query)}" if query else path
        encoded = None if body is None else json.dumps(body).encode()
        status, raw, warnings = self._exchange(method, target, encoded, self._headers(content_type), seconds)
        try:
            parsed = json.loads(raw)
        except ValueError:
            parsed = None
        answer = parsed if isinstance(parsed, dict) else {"text": raw.decode(errors="replace")}
        return Answer(status, answer, read_warnings(warnings))

    def send(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Make one call with a body byte by byte as it is, and return the status and body of the answer likewise."""
        status, raw, _ = self._exchange(method, path, body, self._headers("application/json"), CALL_TIMEOUT)
        return status, raw

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: dict[str, str], seconds: float
    ) -> tuple[int, bytes, Iterable[str]]:
        while True:
            kept: _Connection | None = self._kept.__dict__.pop("connection", None)
            address = urlsplit(self.server)
            connection = kept or _Connection(address.hostname or "", address.port, context=self._tls)
            connection.limit(seconds)
            try:
                connection.request(method, target, body, headers)
                response = connection.getresponse()
                raw = response.read()
            except ConnectionError:
                if kept is None:
                    raise
                continue  # the server has closed it while it rested
            self._kept.connection = connection
            return response.status, raw, response.headers.get_all("Warning") or []

    def _headers(self, content_type: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Accept": "application/json", "Content-Type": content_type}


def plural(kind: str) -> str:
    """Return the name of a kind in URLs, by the rule that Kubernetes' own kinds follow."""
    lower = kind.lower()
    if lower.endswith("s"):
        return f"{lower}es"
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"


def definition(api_version: str, kind: str, *, scope: str = "Namespaced") -> Object:
    """Return the smallest definition of a custom resource: it stores whatever is in such an object."""
    group, _, version = api_version.partition("/")
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural(kind)}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural(kind), "kind": kind},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def read_warnings(headers: Iterable[str]) -> tuple[str, ...]:
    """Return the texts of `Warning` headers (RFC 7234, 5.5); a header may hold several."""
    # http.client reads headers as Latin-1 whatever they are; the API server writes UTF-8.
    texts = (found for header in headers for found in WARNING.findall(header.encode("latin-1").decode()))
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in texts)


def wait_until(probe: Callable[[], T | None], what: str, timeout: float = PATIENCE, interval: float = 0.05) -> T:
    """Call the probe until it returns something true, and return that; fail by saying what did not come."""
    deadline = time.monotonic() + timeout
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout:g} s: {what}")
        time.sleep(interval)


def _path(api_version: str, resource: str, namespace: str | None = None, name: str | None = None) -> str:
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return "/".join([root, *(["namespaces", namespace] if namespace else []), resource, *([name] if name else [])])
