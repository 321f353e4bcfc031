"""What the page asks → what it shows: the same functions as those of `mutate` and `explain`, with bounds.

An answer is data for JSON:

``policy``    ``title``, ``digest``
``targets``   the vendors that a request can be written for
``problems``  what could not be read: ``tab`` (a field of `PageState`), ``line`` or null, ``text``
``objects``   of each object of the manifest what `explain -o json` prints (``title``, ``notes``, ``unjudged``, ``pods``), and
              ``outcome`` (``changed``, ``unchanged`` or ``denied``), ``findings`` (``level``, ``text``, ``line``; of each
              denied pod one ``error``, in order), ``diff`` as lines of a unified difference, ``stored`` as YAML or null; each
              ``correction`` has its manifest as YAML in ``text``
"""

import json
from dataclasses import replace
from importlib import resources
from typing import Any, Final

import msgspec

from webhook import labels
from webhook.cli.manifests.files import difference, read_stream, yaml_stream, yaml_text
from webhook.cli.manifests.simulate import SimulatedObject, explain_objects, simulate
from webhook.cli.policy_source import SourcedPolicy
from webhook.cluster.registration.names import sent_names
from webhook.doctor.result import Level
from webhook.mapping.document import MappingError, Problem, nearest_known, parse
from webhook.mapping.model.policy import Policy
from webhook.text import without_middle

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


EXAMPLES: Final = json.loads((resources.files(__package__) / "examples.json").read_bytes())


class Playground:
    """Answers what the page asks, under a policy that the page may change."""

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
        """Return what becomes of the manifest, as described above."""
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
