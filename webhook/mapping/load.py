"""Documents → policy: each document apart from others, the built-in ones, those of a folder, and the settings.

Probes are requests in a document's keys that are read and written back: they find forms that nothing reaches, and requests
that cannot be written as they are read.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from webhook.mapping.document import Document, MappingError, Problem, Problems, bug, parse, problems_of
from webhook.mapping.model.compiling import compile_vendor
from webhook.mapping.model.guard import guard_lists
from webhook.mapping.model.keys import Binding, Condition, Derived, Form, Key
from webhook.mapping.model.policy import MOST_MEMORY, SETTINGS, Policy, compile_policy
from webhook.mapping.model.vendor import BUILT_IN, Vendor
from webhook.mapping.reading import read
from webhook.mapping.settings import Settings
from webhook.mapping.strict import (
    follows_from,
    inherited_names,
    merge_documents,
    placed,
    validated_part,
)
from webhook.mapping.values import KeyValue, Reading, form_of, number_for
from webhook.mapping.writing import NoEquivalent, write
from webhook.reasons import Denied, Reason
from webhook.request import Number, Size, exact_text

_FORM: Final = 2  # the length of the path of a form


class Prepared(Struct, frozen=True):
    """A document without problems of its own, its data merged with the one that it extends, and its vendor."""

    document: Document
    data: Mapping[str, Any]
    vendor: Vendor


def prepare(document: Document) -> Prepared:
    """Merge, validate and compile a document; it is not yet probed, nor checked against others."""
    prepared, problems = drafted(document)
    if prepared is None or problems:
        raise MappingError(problems)
    return prepared


def drafted(document: Document) -> tuple[Prepared | None, tuple[Problem, ...]]:
    """Prepare a document as far as possible, and collect all its problems: it is usable only without any."""
    problems, vendor = Problems(), None
    try:
        with problems_of(document.source, document.lines.get((), 1)):
            data = merge_documents(document, builtin())
            inherited = inherited_names(document, data, builtin())
            model, earlier, removed = validated_part(Vendor, data, document)
            try:
                written = model and model.model_copy(update={"source": document.source})
                own = document.data.get("variables")
                vendor = written and compile_vendor(written, own if isinstance(own, dict) else (), problems)
            except Exception:
                # An error after a problem most probably follows from it.
                if not (earlier or problems.found):
                    raise
    except MappingError as error:
        return None, error.problems
    further = [placed(each, document) for each in dict.fromkeys(problems.found) if not follows_from(each, removed)]
    if any(problem.path[:1] in {("keys",), ("variables",)} for problem in (*earlier, *further)):
        # What a form lacks may be what such a key would define.
        further = [each for each in further if each.path[:1] != ("forms",) or len(each.path) > _FORM]
    found = (*inherited, *earlier, *further)
    return None if vendor is None or inherited else Prepared(document, data, vendor), found


def probed(prepared: Prepared, vendor: Vendor, most_memory: int) -> tuple[Problem, ...]:
    """Probe a document; `vendor` is its vendor in the policy, where it may be inactive."""
    document = prepared.document
    try:
        with problems_of(document.source, document.lines.get((), 1)):
            return tuple(placed(problem, document) for problem in probe(vendor, most_memory))
    except MappingError as error:
        return error.problems


class _BuiltIn(Mapping[str, Document]):
    """The built-in documents by vendor, each read anew from its file, which has the vendor's name.

    Once all are compiled, only documents that extend one need its data: a replica would hold most of a MiB for nothing.
    """

    def __getitem__(self, vendor: str) -> Document:
        """Return a document; if it extends another one, merged with it."""
        document = _built_in(vendor)
        return replace(document, data=merge_documents(document, self))

    def __iter__(self) -> Iterator[str]:
        return iter(_built_in_files())

    def __len__(self) -> int:
        return len(_built_in_files())


@cache
def _built_in_files() -> Mapping[str, Traversable]:
    folder = resources.files("webhook.mapping") / "builtin"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name.removesuffix(".yaml"): file for file in files if file.name.endswith(".yaml")}


@lru_cache(maxsize=1)
def _built_in(vendor: str) -> Document:
    (document,) = parse(_built_in_files()[vendor].read_text(), BUILT_IN)
    return document


def builtin() -> Mapping[str, Document]:
    """Return the built-in documents by vendor; those that extend another one are merged with it."""
    return _BuiltIn()


@cache
def _compiled() -> Mapping[str, tuple[Vendor, str]]:
    """Return the vendor of each built-in document, and the text of its data."""
    return {name: (prepare(document).vendor, _text_of(document.data)) for name, document in builtin().items()}


_NAMING: Final = frozenset({"translateTo", "copies", "claim", "target", "served", "owners"})
"""Keys whose values name vendors; so do families, as keys of `largestDevice`."""


def load_policy(mappings: Path | None = None, settings: Path | None = None) -> Policy:
    """Load the policy of the built-in mappings and the documents of a folder or file, which replace vendors or add some.

    Raises:
        MappingError: a document is invalid; all problems of all documents at once.
        OSError: a file cannot be read.
    """
    return build_policy(documents_in(mappings), settings_in(settings))


def documents_in(path: Path | None) -> list[Document]:
    """Read the mapping documents of a folder (in the order of the file names) or of one file."""
    if path is None:
        return []
    files = sorted(file for file in path.iterdir() if file.suffix in {".yaml", ".yml"}) if path.is_dir() else [path]
    return [document for file in files for document in parse(_text_in(file), str(file))]


def _text_in(file: Path) -> str:
    return file.read_text("utf-8", "surrogateescape")  # `parse` reports what is not UTF-8, with its line


def settings_in(path: Path | None) -> Document | None:
    """Read the settings document of a file; None without a file, or if it is empty."""
    documents = [] if path is None else parse(_text_in(path), str(path))
    if len(documents) > 1:
        raise MappingError([Problem("contains more than one document", source=str(path))])
    return documents[0] if documents else None


def build_policy(documents: Iterable[Document], settings: Document | None = None, *, partial: bool = False) -> Policy:
    """Build the policy of the built-in mappings overridden by `documents`; with `partial` others could not be read.

    Raises:
        MappingError: all problems of each document, and of all documents together.
    """
    drafts = [(document, *drafted(document)) for document in documents]
    problems = [problem for *_, found in drafts for problem in found]
    partial = partial or any(prepared is None for _, prepared, _ in drafts)
    own = _by_vendor(drafts, problems)
    chosen, wrong = _drafted_settings(settings)
    problems += wrong
    policy, contradicting = (None, []) if chosen is None else _combined(own, chosen, settings, calm=bool(problems))
    problems += [problem for problem in contradicting if not (partial and _names_vendors(problem))]
    faulty = {prepared.vendor.name for _, prepared, found in drafts if prepared is not None and found}
    largest = MOST_MEMORY if policy is None else policy.most_memory
    for name, prepared in own.items():  # the built-in ones are not probed: the tests do that
        if name not in faulty:
            problems += probed(prepared, prepared.vendor if policy is None else policy.vendors[name], largest)
    if problems or policy is None:
        raise MappingError(problems)
    return policy


def _names_vendors(problem: Problem) -> bool:
    return _NAMING.issuperset(problem.path[:1] or ("",)) or problem.path[:1] == ("largestDevice",) != problem.path


def _combined(
    own: Mapping[str, Prepared], chosen: Settings, settings: Document | None, *, calm: bool
) -> tuple[Policy | None, list[Problem]]:
    """Combine documents to a policy, or return their problems with each other; `calm`: an error follows from known ones."""
    try:
        return combine(own, chosen), []
    except MappingError as error:
        written = {prepared.document.source: prepared.document for prepared in own.values()}
        written |= {} if settings is None else {SETTINGS: settings}
        problems = ((each, written.get(each.source)) for each in error.problems)
        return None, [each if document is None else placed(each, document) for each, document in problems]
    except Exception as error:
        if calm:
            return None, []
        raise MappingError([bug(error, "", None)]) from error


def _by_vendor(
    drafts: Iterable[tuple[Document, Prepared | None, object]], problems: list[Problem]
) -> dict[str, Prepared]:
    """Return the prepared documents by vendor; add a problem for each second document of one vendor."""
    found: dict[str, Prepared] = {}
    for document, prepared, _ in drafts:
        first = prepared and found.setdefault(prepared.vendor.name, prepared)
        if first and prepared and first is not prepared:
            message = f"vendor {prepared.vendor.name!r} is already described by {first.document.source}"
            problems.append(placed(Problem(message, ("vendor",)), document))
    return found


def _drafted_settings(document: Document | None) -> tuple[Settings | None, tuple[Problem, ...]]:
    """Validate the settings as far as possible; None if a mistake in them may affect which names documents own."""
    document = document or Document(SETTINGS, {}, {})
    with problems_of(document.source):
        settings, problems, _ = validated_part(Settings, document.data, document)
    return None if any(problem.path[:1] == ("owners",) for problem in problems) else settings, problems


def vendors_with(own: Mapping[str, Prepared]) -> dict[str, Vendor]:
    """Return all vendors: the built-in ones, overridden by those of `own`."""
    built_in = {name: vendor for name, (vendor, _) in _compiled().items()}
    return {**built_in, **{name: prepared.vendor for name, prepared in own.items()}}


def combine(own: Mapping[str, Prepared], settings: Settings) -> Policy:
    """Combine the built-in mappings, those of `own` (by vendor) and the settings to a policy, without probes.

    Raises:
        MappingError: vendors contradict each other, or the settings (whose problems have the source `SETTINGS`).
    """
    texts = {name: text for name, (_, text) in _compiled().items()}
    texts |= {name: _text_of(prepared.data) for name, prepared in own.items()}
    lists = {name: guard_list.model_dump(by_alias=True) for name, guard_list in guard_lists().items()}
    dumped = settings.model_dump(by_alias=True, exclude_defaults=True)
    # Of the documents in force and the lists that they refer to, in any order.
    whole = _text_of({"mappings": texts, "lists": _text_of(lists), "settings": dumped})
    digest = hashlib.sha256(whole.encode()).hexdigest()[:12]
    policy = compile_policy(vendors_with(own), settings, digest)
    # Most of what a first pod would wait for, with `near`.
    _ = policy.read_keys
    return policy


def _text_of(data: Mapping[str, Any]) -> str:
    return json.dumps(data, sort_keys=True)


MAX_PROBES: Final = 4000  # the most probes of one document; a few hundred reach every corner of the built-in ones
MAX_WORK: Final = 400_000
"""The approximate number of comparisons of keys with forms: a document with many of both gets fewer probes, but at least 16
for each form."""

MAX_NUMBERS: Final = 12  # the most numbers of one key that are combined with those of other keys
MAX_CORNERS: Final = 256  # the most numbers of one key from which those to combine are chosen
MAX_PROBLEMS: Final = 5
Candidate = Number | str | None  # a value to try for a key: a number, a text, or None for its absence


def probe(vendor: Vendor, most_memory: int) -> list[Problem]:
    """Report contradictions in a vendor's keys and forms."""
    reached: set[str] = set()
    problems: list[Problem] = []
    for key_values in combinations(vendor):
        form = form_of(vendor, key_values)
        if form is None:
            continue
        reached.add(form.name)
        if not form.reads or len(problems) >= MAX_PROBLEMS or not vendor.unreported.isdisjoint(key_values):
            continue
        try:
            reading = read(vendor, key_values, {}, most_memory, "probe")
        except Denied:
            continue
        why = _not_written_back(vendor, reading, most_memory)
        if why is not None:
            keys = ", ".join(map(str, key_values.values()))
            index = vendor.forms.index(form)
            problems.append(
                Problem(f"{keys} is read as {reading.request}, but cannot be written: {why}", ("forms", index))
            )
    problems.extend(
        Problem(f"no keys reach the form {form.name!r}: an earlier one hides it", ("forms", index))
        for index, form in enumerate(vendor.forms)
        if form.name not in reached
    )
    return [*problems, *_unwritable_defaults(vendor, most_memory)]


def _not_written_back(vendor: Vendor, reading: Reading, most_memory: int) -> str | None:
    """Return why a reading cannot be written back, or None; rounded requests are exempt."""
    rounded = any(finding.reason is Reason.ROUNDED_DOWN for finding in reading.findings)
    if rounded or not reading.form.write or not _is_written(vendor):
        return None
    try:
        written = write(vendor, reading.request, {}, most_memory, "probe")
    except NoEquivalent as error:
        return "; ".join(error.reasons[:2])
    read_back, stepped = written.reading.request, any(key.step != 1 for key in vendor.keys.values())
    return None if stepped or read_back == reading.request else f"it would be read back as {read_back}"


def _is_written(vendor: Vendor) -> bool:
    """Return whether all requests can be written: no name has a size, and none needs a value that is to be configured."""
    if vendor.inactive or not vendor.target:
        return False
    # A variable in all spellings of some key: nothing can be written without it.
    spellings = [[set(template.variables) for template in key.spellings] for key in vendor.keys.values()]
    needed = set().union(*(set.intersection(*each) for each in spellings))
    return not any(each.rows or (not each.write and each.name in needed) for each in vendor.variables.values())


def _unwritable_defaults(vendor: Vendor, most_memory: int) -> Iterator[Problem]:
    for dimension, default in vendor.defaults.items():
        if isinstance(default.value, Size) and default.value.bytes > most_memory:
            yield Problem(f"no device has {default.value}", ("defaults", dimension))
            continue
        keys = map(vendor.keys.__getitem__, vendor.by_dimension[dimension])
        implied = any(getattr(form.absent, dimension) == default.value for form in vendor.forms)
        # Counts without sizes get theirs when they are translated: nothing is filled in at home.
        counts_only = dimension != "devices" and not vendor.sizes
        if not counts_only and not implied and all(number_for(key, default.value, 1) is None for key in keys):
            yield Problem(f"no key of {vendor.name} can express {default.value}", ("defaults", dimension))


def combinations(vendor: Vendor) -> Iterator[dict[str, KeyValue]]:
    """Yield combinations of keys that request something; their number is bounded for every document."""
    forms, keys = len(vendor.forms), len(vendor.keys)
    most = min(MAX_PROBES, max(16 * forms, MAX_WORK // (forms * keys)))
    for key_values in itertools.islice(_all_combinations(vendor, most), most):
        if any(vendor.keys[name].kind in {"amount", "text"} for name in key_values):
            yield key_values


def _all_combinations(vendor: Vendor, most: int) -> Iterator[dict[str, KeyValue]]:
    """Yield combinations that meet the conditions of each form, then corners of all keys with all others."""

    @cache
    def key_value(name: str, value: Number | str, binding: Binding) -> KeyValue:
        spelled = vendor.keys[name].spelled({**dict(binding), "container": "probe"})
        if isinstance(value, str):
            return KeyValue(name, spelled, value, 0, binding)
        return KeyValue(name, spelled, exact_text(value), value, binding)

    keys = vendor.keys.values()
    # For keys in conditions of a form the values that it accepts, for others a few, or none.
    directed = [{key.name: _tried(key, form, _corners(vendor, key, form)) for key in keys} for form in vendor.forms]
    of_each = max(1, most // (4 * len(directed)))
    for binding in _bindings(vendor):
        for candidates in directed:
            yield from _spread(vendor, key_value, candidates, binding, of_each)
    corners = {key.name: _corners(vendor, key, None)[:MAX_NUMBERS] for key in keys}
    yield from _spread(vendor, key_value, corners, (), most)


def _spread(
    vendor: Vendor,
    key_value: Callable[[str, Number | str, Binding], KeyValue],
    candidates: dict[str, list[Candidate]],
    binding: Binding,
    most: int,
) -> Iterator[dict[str, KeyValue]]:
    """Yield combinations, spread evenly over all of them."""
    total = math.prod(map(len, candidates.values()))
    # A stride that shares no factor with the counts visits every value of every key.
    stride = max(1, total // most) | 1
    for nth in range(0, total, stride):
        key_values: dict[str, KeyValue] = {}
        remaining = nth
        for name, values in candidates.items():
            remaining, index = divmod(remaining, len(values))
            value = values[index]
            if value is not None and (value != 0 or vendor.keys[name].zero == "number"):
                key_values[name] = key_value(name, value, binding)
        yield key_values


def _bindings(vendor: Vendor) -> Iterator[Binding]:
    """Yield bindings of variables: every row, or the first value; none for a pattern."""
    yield ()
    for variable in vendor.variables.values():
        yield from (((variable.name, value),) for value in tuple(variable.rows) or variable.write[:1])


def _tried(key: Key, form: Form, values: list[Candidate]) -> list[Candidate]:
    conditions = [condition for condition in form.when if key.name in condition.keys]
    if not conditions:
        plain = [value for value in values if value is not None]
        return [None, *plain[:2], *plain[-1:]]
    for condition in conditions:
        if len(condition.keys) == 1:
            values = [value for value in values if _accepts(condition, value)]
    absent = [None] * any(condition.absent for condition in conditions)
    return [*absent, *values][:MAX_NUMBERS] or [None]


def _accepts(condition: Condition, value: Candidate) -> bool:
    """Return whether the condition, on one key, accepts the value."""
    if value is None or condition.present:
        return condition.absent if value is None else True
    return value in condition.texts if isinstance(value, str) else value in (condition.numbers or ())


def _corners(vendor: Vendor, key: Key, form: Form | None) -> list[Candidate]:
    """Return the corners of a key: absence, small numbers, and the ends of legal sets, conditions and counts."""
    if key.kind == "text":
        return [None, *sorted(_texts(vendor, key)), "other"]
    if key.kind != "amount":
        return [None, 1] if key.kind == "other" else [None]
    numbers = dict.fromkeys(itertools.islice(_ends(key, vendor.forms if form is None else (form,)), MAX_CORNERS))
    zero = [0] if key.zero == "number" else []
    return [None, *numbers, *zero, 1, 2, 100 if "cores" in key.dimensions else 16]


def _texts(vendor: Vendor, key: Key) -> set[str]:
    picked = vendor.variables[key.row_of].rows if key.row_of in vendor.variables else {}
    conditions = [each for form in vendor.forms for each in form.when if key.name in each.keys]
    return {*picked, *itertools.chain.from_iterable(condition.texts for condition in conditions)}


def _ends(key: Key, forms: Iterable[Form]) -> Iterator[Number]:
    seen: set[int] = set()
    for form in forms:
        for condition in form.when:
            if condition.keys == (key.name,) and condition.numbers is not None:
                yield from condition.numbers.corners()
        values = form.keys[key.name].values
        if values is not None and id(values) not in seen:
            seen.add(id(values))  # most forms share those of the key
            yield from values.corners()
        if isinstance(form.devices, Derived) and form.devices.key == key.name:
            yield from (form.devices.per, 2 * form.devices.per)
