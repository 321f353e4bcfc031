"""The playground: a page on this machine that shows what becomes of manifests while they are written.

The files of the page are in the folder `playground`; its `examples.json` has the files of `examples/`, for a program
that is installed without them (`make docs` writes it).
"""

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib import resources
from typing import Any, Final, TypeAlias

import click
import msgspec
from aiohttp import hdrs, web
from msgspec.structs import replace

from webhook import labels
from webhook.cli.files import difference, read_stream, yaml_stream, yaml_text
from webhook.cli.policy_source import SourcedPolicy
from webhook.cli.simulate import SimulatedObject, explain_objects, simulate
from webhook.cluster.registration.names import sent_names
from webhook.doctor import Level
from webhook.mapping.document import MappingError, Problem, nearest_known, parse
from webhook.mapping.model.policy import Policy
from webhook.server.http import (
    JSON,
    Connections,
    Endpoint,
    Handler,
    HttpError,
    Routes,
    body_of,
    dispatcher,
    error_response,
    listening,
)
from webhook.server.limits import InFlight, Limits
from webhook.server.logs import make_logger
from webhook.text import without_middle

FOLDER: Final = resources.files("webhook.cli") / "playground"
HOST: Final = "127.0.0.1"


async def serve_page(sourced: SourcedPolicy, port: int) -> None:
    """Serve the page until the process is interrupted; say under which policy, and where it is."""
    limits = Limits()
    routes = dict(Pages(Playground(sourced), limits).routes())
    routes["/"] = routes[PATH.removesuffix("/")]
    log = make_logger("warning", sys.stderr.buffer)
    connections = Connections(limits, limits.plain_connections)
    async with listening(dispatcher(routes, limits), Endpoint(HOST, port), connections, log) as endpoint:
        click.echo(sourced.line)
        click.echo(f"ready: http://{endpoint}{PATH} (Ctrl-C ends it)")
        ended = asyncio.Event()
        # A shell may have started it in the background, where the interrupt is ignored unless it is handled.
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, ended.set)
        await ended.wait()


MAX_TEXT: Final = 256 * 1024
"""Most characters of all texts together: five hundred pods."""

MAX_VALUES: Final = 100_000
"""Most values of one document with its aliases expanded: an object of etcd's size does not have more."""

MAX_OBJECTS: Final = 50
"""Most objects that are shown, pods of each that are explained, and documents that are read."""

MAX_PROBLEMS: Final = 100
"""Most problems that are shown."""


class PageState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the user has written; a target replaces that of the pods, settings those of the policy."""

    manifest: str = ""
    namespace: str = ""
    target: str = ""
    mappings: str = ""
    settings: str = ""


EXAMPLES: Final = json.loads((FOLDER / "examples.json").read_bytes())


class Playground:
    """Answers what the page asks, as `mutate` and `explain` do, with bounds, under a policy that it may change."""

    def __init__(self, sourced: SourcedPolicy) -> None:
        self._sourced = sourced
        # The last ones: a page asks for the same again and again.
        self._policy: tuple[tuple[str, ...], Policy] | None = None

    def start(self) -> dict[str, Any]:
        """Return what the page needs at first: its examples, and the labels and annotations of namespaces."""
        keys = [
            {"name": key.name, "place": key.place, "values": key.values, "purpose": key.purpose}
            for key in labels.KEYS
            if key.kind == "namespace"
        ]
        return {"examples": EXAMPLES, "keys": keys}

    def answer(self, state: PageState) -> dict[str, Any]:
        """Return what becomes of the manifest, as data for JSON.

        ``policy``    ``title``, ``digest``
        ``targets``   the vendors that a request can be written for
        ``problems``  what could not be read: ``tab`` (a field of `PageState`), ``line`` or null, ``text``
        ``objects``   of each object of the manifest what `explain -o json` prints (``title``, ``notes``, ``unjudged``,
                      ``pods``), and ``outcome`` (``changed``, ``unchanged`` or ``denied``), ``findings`` (``level``, ``text``,
                      ``line``; of each denied pod one ``error``, in order), ``diff`` as lines of a unified difference,
                      ``stored`` as YAML or null; each ``correction`` has its manifest as YAML in ``text``
        """
        policy = self._sourced.policy
        try:
            _check_length(state)
            policy = self._policy_of(state)
            _check_target(state.target, policy)
            judged = _judged(state, policy)
        except MappingError as error:
            judged = {"problems": list(map(_problem, error.problems)), "objects": []}
        targets = sorted(vendor.name for vendor in policy.vendors.values() if vendor.target)
        return {"policy": {"title": self._sourced.described, "digest": policy.digest}, "targets": targets, **judged}

    def _policy_of(self, state: PageState) -> Policy:
        texts = (state.mappings, state.settings)
        if not (state.mappings.strip() or state.settings.strip()):
            return self._sourced.policy
        if self._policy is None or self._policy[0] != texts:
            settings = parse(state.settings, "settings")
            if len(settings) > 1:
                raise MappingError([Problem("more than one document", source="settings")])
            mappings = parse(state.mappings, "mappings")
            self._policy = texts, self._sourced.with_documents(mappings, next(iter(settings), None), partial=False)
        return self._policy[1]


def _check_length(state: PageState) -> None:
    texts = {name: getattr(state, name) for name in state.__struct_fields__}
    if sum(map(len, texts.values())) > MAX_TEXT:
        longest = max(texts, key=lambda name: len(texts[name]))
        raise MappingError([Problem(f"longer than {MAX_TEXT // 1024} KiB", source=longest)])


def _check_target(target: str, policy: Policy) -> None:
    if target and policy.vendor_called(target) is None:
        hint = nearest_known(target, policy.vendors, policy.names)
        raise MappingError([Problem(f"no vendor is called {target!r}", hint=hint, source="target")])


def _problem(problem: Problem) -> dict[str, Any]:
    text = without_middle(str(replace(problem, source="", line=None)))
    return {"tab": problem.source, "line": problem.line, "text": text}


def _judged(state: PageState, policy: Policy) -> dict[str, Any]:
    manifests, problems = _read(state.manifest, "manifest")
    namespaces, wrong = _read(state.namespace, "namespace")
    problems += wrong
    # Those of the manifest come last, and count.
    read = [*(each for each in namespaces if each.data.get("kind") == "Namespace"), *manifests]
    target = state.target or None
    outcome = simulate(read, policy, target=target, match=sent_names(policy))
    shown = replace(
        outcome, objects=[replace(each, pods=each.pods[:MAX_OBJECTS]) for each in outcome.objects[:MAX_OBJECTS]]
    )
    objects = [_object(*each) for each in zip(shown.objects, explain_objects(shown, policy, target), strict=True)]
    if len(objects) < len(outcome.objects):
        problems.append(Problem(f"only the first {len(objects)} objects are shown", source="manifest"))
    warnings = [warning for each in read for warning in each.warnings]
    return {
        "problems": [_problem(each) for each in (*problems, *outcome.errors, *warnings)][:MAX_PROBLEMS],
        "objects": objects,
    }


def _read(text: str, tab: str) -> tuple[list[Any], list[Problem]]:
    try:
        manifests, problems = read_stream(text.encode(), tab, MAX_VALUES)
    except UnicodeEncodeError:
        return [], [Problem("not Unicode text: half of a surrogate pair", source=tab)]
    if len(manifests) + len(problems) > MAX_OBJECTS:
        problems = [*problems[:MAX_OBJECTS], Problem(f"only the first {MAX_OBJECTS} documents are read", source=tab)]
    return manifests[:MAX_OBJECTS], problems


def _object(simulated: SimulatedObject, data: dict[str, Any]) -> dict[str, Any]:
    for pod in data["pods"]:
        if pod["correction"] is not None:
            pod["correction"]["text"] = (
                yaml_text(pod["correction"]["manifest"]) if pod["correction"]["manifest"] else ""
            )
    after = simulated.after
    changed = after is not None and (after != simulated.before or simulated.needed)
    found = [each for each in (*simulated.messages, *simulated.unjudged) if each.level is not Level.OK]
    return {
        **data,
        "outcome": "denied" if after is None else "changed" if changed else "unchanged",
        "findings": [{"level": level.value, "text": text, "line": at.line} for level, text, at in found],
        "diff": list(difference(simulated.title, simulated.before, after)),
        "stored": None if after is None else yaml_stream([after, *simulated.needed]),
    }


PATH: Final = "/playground/"
"""Where the page is; its own paths are relative to it."""

_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FILES: Final = {
    path: ((FOLDER / name).read_bytes(), _TYPES[name.rpartition(".")[2]])
    for path, name in {"": "page.html", **{name: name for name in ("page.css", "page.js", "icon.svg")}}.items()
}
"""The files of the page: path → content and media type."""

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

_Respond: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.Response]]


class Pages:
    """The playground's routes, for pages of its own only, under the limits of the server.

    Whoever can reach the port must not be able to use it through somebody's browser: a foreign page can send requests to this
    machine, and with a name of its own that points here (DNS rebinding) read the answers. So the name in ``Host``, the origin
    and the media type are checked.
    """

    def __init__(self, playground: Playground, limits: Limits) -> None:
        self._playground = playground
        self._limits = limits
        self._in_flight = InFlight()
        self._answering = asyncio.Lock()

    def routes(self) -> Routes:
        """Return the routes: path → method and handler."""
        get: dict[str, _Respond] = {f"{PATH}{path}": _file(*file) for path, file in _FILES.items()}
        get[PATH.removesuffix("/")] = self._redirect
        get[f"{PATH}start"] = self._start
        post: dict[str, _Respond] = {f"{PATH}answer": self._answer}
        return {
            **{path: (hdrs.METH_GET, _guarded(handler)) for path, handler in get.items()},
            **{path: (hdrs.METH_POST, _guarded(handler)) for path, handler in post.items()},
        }

    async def _redirect(self, _request: web.BaseRequest) -> web.Response:
        return web.Response(status=HTTPStatus.PERMANENT_REDIRECT, headers={hdrs.LOCATION: PATH})

    async def _start(self, _request: web.BaseRequest) -> web.Response:
        return _json(self._playground.start())

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        state = await self._state(request)
        # In a thread, so that the page itself does not wait; one at a time.
        async with self._answering:
            return _json(await asyncio.to_thread(self._playground.answer, state))

    async def _state(self, request: web.BaseRequest) -> PageState:
        """Read a request as the server reads a review.

        Raises:
            HttpError: not JSON of a state, too large, too slow or incomplete.
        """
        body = await body_of(request, self._limits, self._in_flight)
        self._in_flight.bodies -= len(body)
        try:
            return msgspec.json.decode(body, type=PageState)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"not a request of the page: {error}") from error


def _file(body: bytes, media_type: str) -> _Respond:
    async def respond(_request: web.BaseRequest) -> web.Response:
        return web.Response(body=body, content_type=media_type, charset="utf-8")

    return respond


def _json(data: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(data), headers={hdrs.CONTENT_TYPE: JSON})


def _guarded(handler: _Respond) -> Handler:
    """Answer only pages of this server; with the headers that bind the page."""

    async def guard(request: web.BaseRequest) -> web.Response:
        try:
            check_caller(request)
            response = await handler(request)
        except HttpError as error:
            response = error_response(error)
        response.headers.update(_HEADERS)
        return response

    return guard


def check_caller(request: web.BaseRequest) -> None:
    """Check that a request calls this machine by its own name, and is not from a foreign page; a `HttpError` if it is not."""
    host = request.headers.get(hdrs.HOST, "").lower()
    name, colon, port = host.rpartition(":")
    if (name if colon and port.isdecimal() else host) not in _NAMES:
        raise HttpError(HTTPStatus.FORBIDDEN, "the page is called localhost, 127.0.0.1 or [::1]")
    origin = request.headers.get(hdrs.ORIGIN)
    foreign = request.headers.get("Sec-Fetch-Site", "none") not in {"same-origin", "none"}
    if (origin is not None and origin.lower() != f"http://{host}") or (foreign and request.method != hdrs.METH_GET):
        raise HttpError(HTTPStatus.FORBIDDEN, "only this page may send requests")
