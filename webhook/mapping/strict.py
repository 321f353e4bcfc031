"""The base of every schema: names, texts, lists and numbers with bounds; documents merged with what they extend, validated.

Everyone who may write ConfigMaps can supply a document, so everything in it has a bound.

A document may contain only the differences from a built-in one (``extends``). Maps merge, lists are replaced, ``null``
removes. There is one level: the built-in document does not itself extend another. Without a ``vendor`` of its own the
document replaces the built-in one; with a new name it must not use the same resource names.
"""

import copy
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from webhook.mapping.document import MAX_DEPTH, Document, FieldPath, MappingError, Problem, nearest_known
from webhook.mapping.notation import (
    MAX_EXPRESSION,
    MAX_KEY,
    Numbers,
    PatternError,
    check_pattern,
    compile_glob,
    parse_bytes,
    parse_card,
    parse_cores,
    parse_default_memory,
    parse_device,
    parse_memory,
    parse_numbers,
    parse_positive,
    parse_unit,
    parse_unit_of,
)
from webhook.request import Cores, Memory, Number, Percent, Size
from webhook.text import without_middle

FEW: Final = 32  # the longest list or map with a handful of entries
SOME: Final = 64  # the longest list of forms and the like: each is tried with every key
MANY: Final = 512  # the longest list or map that may be long, such as the names of slices
MOST: Final = 2**63 - 1  # the largest number: Kubernetes counts in an int64
Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
"""The name of a vendor, a hardware family, a guard list or a namespace."""

Short: TypeAlias = Annotated[str, Field(max_length=63)]  # a name within a document or a pod
KeyText: TypeAlias = Annotated[str, Field(max_length=MAX_KEY)]  # a key, or a pattern of keys
Long: TypeAlias = Annotated[str, Field(max_length=1024)]  # a sentence, a path or a value


def refused(message: str, hint: str | None = None) -> PydanticCustomError:
    """An error of a value, with what to write instead."""
    return PydanticCustomError("refused", "{message}", {"message": message, "hint": hint})


def like(pattern: str, what: str, hint: str | None = None) -> AfterValidator:
    """A validator that says what a text should be: a pattern in a message is read by few."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise refused(f"{text!r} is not {what}", hint)
        return text

    return AfterValidator(check)


def _pattern(text: str) -> str:
    try:
        check_pattern(text)
    except PatternError as error:
        hint = "write an expression of RE2: https://github.com/google/re2/wiki/Syntax"
        raise refused(f"invalid regular expression: {error}", hint) from None
    return text


ValuePattern: TypeAlias = Annotated[str, Field(max_length=MAX_EXPRESSION), AfterValidator(_pattern)]
"""An expression for values of a variable or label, as RE2 reads it."""
Texts: TypeAlias = KeyText | Annotated[list[KeyText], Field(min_length=1, max_length=FEW)]
Whole: TypeAlias = Annotated[int, Field(ge=-MOST, le=MOST)]
Amount: TypeAlias = Short | Whole
"""A quantity: ``5000Mi``, ``256Mi``, ``1``; or a percentage of a device: ``1%``, ``6.25%``."""
DeviceAmount: TypeAlias = Amount | Annotated[list[Amount], Field(min_length=1, max_length=2)]
"""What one device contains: an amount, or [least, most] of observed ones."""


class Parsed(Struct, frozen=True):
    """Validates what is written as of one type, and parses it; pydantic calls it."""

    written: Any
    parse: Callable[[Any], object]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the parsed value."""
        return core_schema.no_info_after_validator_function(self.parse, handler.generate_schema(self.written))


MemoryAmount: TypeAlias = Annotated[Memory | None, Parsed(Amount, parse_memory)]
CoresAmount: TypeAlias = Annotated[Cores | None, Parsed(Amount, parse_cores)]
DefaultMemory: TypeAlias = Annotated[Memory | None, Parsed(Amount, parse_default_memory)]
Positive: TypeAlias = Annotated[Number, Parsed(Amount, parse_positive)]
Unit: TypeAlias = Annotated[tuple[Number, bool], Parsed(Amount, parse_unit)]
"""Bytes and True, or percent of a device and False."""


def read_by(parse: Callable[[Any], object]) -> AfterValidator:
    """A validator of what stays as it is written, and is parsed where it is used."""

    def check(written: Any) -> Any:
        parse(written)
        return written

    return AfterValidator(check)


SizeInBytes: TypeAlias = Annotated[Amount, read_by(parse_bytes)]
DeviceMemory: TypeAlias = Annotated[Amount, read_by(parse_device)]
CardMemory: TypeAlias = Annotated[Amount, read_by(parse_card)]
Quantity: TypeAlias = Annotated[Short, read_by(parse_positive)]
SizeUnit: TypeAlias = Annotated[Number, Parsed(Short, partial(parse_unit_of, sized=True))]
ShareUnit: TypeAlias = Annotated[Number, Parsed(Short, partial(parse_unit_of, sized=False))]


class Range(NamedTuple):
    """The least and the greatest amount of devices of a name."""

    least: Memory | None = None
    most: Memory | None = None


def _memory_range(written: Any) -> Range:
    amounts = list(map(parse_memory, written if isinstance(written, list) else [written]))
    if None not in amounts and ordered(amounts) != amounts:
        raise refused("is not the least and the greatest size", "write [least, most] as two sizes")
    return Range(amounts[0], amounts[-1])


def _cores_range(written: Any) -> Range:
    return Range(parse_cores(written), parse_cores(written))


def ordered(amounts: Sequence[Memory | None]) -> list[Memory | None] | None:
    """Sort amounts of one kind; None if they cannot be compared."""

    def number(amount: Memory | None) -> Number:
        return amount.bytes if isinstance(amount, Size) else amount.value if isinstance(amount, Percent) else 0

    return sorted(amounts, key=number) if len(set(map(type, amounts))) == 1 else None


MemoryRange: TypeAlias = Annotated[Range, Parsed(DeviceAmount, _memory_range)]
CoresRange: TypeAlias = Annotated[Range, Parsed(Amount, _cores_range)]
ExactName: TypeAlias = Annotated[str, Field(max_length=MAX_KEY, pattern=r"^[^*{}]+$")]
ExactNames: TypeAlias = ExactName | Annotated[list[ExactName], Field(min_length=1, max_length=FEW)]
"""One name or several, without ``*`` and variables."""

WrittenNumbers: TypeAlias = KeyText | Whole | Annotated[list[KeyText | Whole], Field(min_length=1, max_length=SOME)]
"""A set of legal numbers: ``5..100 by 5``, ``1..``, ``2``, ``[2, 4, 8]``."""
LegalNumbers: TypeAlias = Annotated[Numbers, Parsed(WrittenNumbers, parse_numbers)]
NamePattern: TypeAlias = Annotated[re.Pattern[str], Parsed(KeyText, compile_glob)]
_LABEL: Final = (
    r"^(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_MAX_DOMAIN: Final = 253  # characters of a DNS name; a pattern without look-ahead cannot limit them as a whole


def _domain_fits(key: str) -> str:
    if key.find("/") > _MAX_DOMAIN:
        raise PydanticCustomError("label_key", f"should have at most {_MAX_DOMAIN} characters before the slash")
    return key


LabelKey: TypeAlias = Annotated[
    str, Field(pattern=_LABEL, max_length=_MAX_DOMAIN + 1 + 63), AfterValidator(_domain_fits)
]
"""The key of a label: a name of at most 63 characters, optionally after a DNS name of at most 253 characters and a slash."""

LabelValue: TypeAlias = Annotated[
    str, Field(pattern=r"^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$", max_length=63)
]
"""The value of a label."""

_DNS: Final = r"^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$"
DomainName: TypeAlias = Annotated[str, Field(pattern=_DNS, max_length=63)]  # the name of a driver or of a device class
Subdomain: TypeAlias = Annotated[str, Field(pattern=_DNS, max_length=_MAX_DOMAIN)]  # the name of an object
Belonging: TypeAlias = Annotated[str, Field(max_length=MAX_KEY, pattern=r"^(?:[^={}]+|[^=*{}]+=[^=*{}]*)$")]
"""A name with ``*`` for any text, or ``key=value`` of a node."""


def texts(written: Texts | None) -> tuple[str, ...]:
    """Return one text or several, as they may be written, as a tuple."""
    return (written,) if isinstance(written, str) else tuple(written or ())


AllTexts: TypeAlias = Annotated[tuple[str, ...], Parsed(Texts, texts)]
API_VERSION: Final = "vgpu-webhook.io/v1alpha1"  # the version of mappings and settings, and of documents that name none


def told(description: str | None = None, default: Any = None, **bounds: Any) -> Any:
    """A key that may be left out, with its meaning for people."""
    return Field(default, description=description, **bounds)


def one_of(*names: str) -> Any:
    """A check of a model: exactly one of these keys is there."""

    def check(model: BaseModel) -> BaseModel:
        if sum(getattr(model, name) is not None for name in names) != 1:
            keys = (f"`{type(model).model_fields[name].alias}`" for name in names)
            raise refused(f"has not exactly one of {', '.join(keys)}")
        return model

    return model_validator(mode="after")(check)


os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # else the metadata of every package is searched for some


class Strict(BaseModel):
    """Base of the schema: no unknown keys, no implicit conversions, keys in camelCase."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel, defer_build=True)


Model = TypeVar("Model", bound=Strict)
_RENAMED: Final = {"largestCard": "largestDevice"}  # settings of before with their present names
_WANTED: Final = {
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "string_type": "text",
}
"""By type of error: what has to be written."""

_MEANT: Final = "did you mean `{}`?"  # the hint about a misspelled key: then it is told once, and not as a missing one
_MISSING: Final = "the key {!r} is missing"
MAX_ERRORS: Final = 100  # the most errors of one document that are processed: each is compared with all others


def validated(model: type[Model], data: Mapping[str, Any], document: Document) -> Model:
    """Validate data by its model. The document as written has the source and the lines.

    Raises:
        MappingError: every problem, with path, line and hint.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        found = [(path, *_told(each, path, model)) for path, each in _relevant(error.errors()[:MAX_ERRORS], data)]
        misspelled = {(*path[:-1], hint) for path, _, hint in found}
        raise MappingError(
            [
                placed(Problem(message, path, hint), document)
                for path, message, hint in found
                if not (
                    path
                    and message == _MISSING.format(path[-1])
                    and (*path[:-1], _MEANT.format(path[-1])) in misspelled
                )
            ]
        ) from None


def validated_part(
    model: type[Model], data: Mapping[str, Any], document: Document
) -> tuple[Model | None, tuple[Problem, ...], frozenset[FieldPath]]:
    """Validate data without the parts that have problems, which are returned, too, and the paths that were removed.

    A list with a mistake is removed as a whole, so that the paths of the rest are those of the document; and what lacks a
    required key: nothing is left if that is the document itself.
    """
    try:
        return validated(model, data, document), (), frozenset()
    except MappingError as error:
        problems = error.problems
    rest, paths = copy.deepcopy(dict(data)), [problem.path for problem in problems]
    removed: set[FieldPath] = set()
    for _ in range(MAX_DEPTH):
        removed.update(map(_without_index, paths))
        for path in removed:
            _remove(rest, path)
        try:
            return model.model_validate(rest), problems, frozenset(removed)
        except ValidationError as error:
            paths = [_document_path(each, rest)[:-1] for each in error.errors()]
        if () in paths:
            break
    return None, problems, frozenset(removed)


def _without_index(path: FieldPath) -> FieldPath:
    while path and isinstance(path[-1], int):
        path = path[:-1]
    return path


def _remove(data: dict[str, Any], path: FieldPath) -> None:
    node: Any = data
    for part in path[:-1]:
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            return
    if path and isinstance(node, dict):
        node.pop(path[-1], None)


def follows_from(problem: Problem, removed: Collection[FieldPath]) -> bool:
    """Return whether a problem may exist only because a part was removed: it is near, or names, that part."""
    path = problem.path
    for cause in filter(None, map(_without_index, removed)):
        parent = cause[:-1]
        beside = path[len(parent) : -1]  # what is deeper stands there, whatever is missing beside it
        if parent and path[: len(parent)] == parent and (not beside or cause[-1] in path):
            return True
        named = any(f"{quote}{cause[-1]}{quote}" in problem.message for quote in "'`")
        if named or (path[1:] and cause[: len(path)] == path):
            return True
    return False


def _relevant(errors: list[ErrorDetails], data: Mapping[str, Any]) -> list[tuple[FieldPath, ErrorDetails]]:
    """Choose one error for each path: among the alternatives of a union, the one whose type fits is the relevant one."""
    paths = [(_document_path(error, data), error) for error in sorted(errors, key=_of_other_type)]
    found: dict[FieldPath, ErrorDetails] = {}
    for path, error in paths:
        if not any(other[: len(path)] == path != other for other, _ in paths):
            found.setdefault(path, error)
    return list(found.items())


def _of_other_type(error: ErrorDetails) -> bool:
    literal = error["type"] == "literal_error" and not isinstance(error["input"], str)
    return literal or error["type"].endswith("_type")


def placed(problem: Problem, document: Document) -> Problem:
    """Return a problem with the source and the line in its document; without one of data that was not read from a text."""
    return replace(problem, source=document.source, line=document.line(problem.path) if document.lines else None)


def _unknown(key: str, known: Sequence[str]) -> tuple[str, str | None]:
    """What to say of a key that is none, and what to write instead."""
    if key in _RENAMED and _RENAMED[key] in known:
        return f"is called `{_RENAMED[key]}` now", "rename it"
    return f"unknown key {without_middle(repr(key))}", nearest_known(key, known) if known else None


_TOLD: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], tuple[str, str | None]]]] = {
    "refused": lambda _, about: (about["message"], about["hint"]),
    "value_error": lambda _, about: (str(about["error"]), None),
    "literal_error": lambda found, about: (f"{_quoted(found)} is not one of {about['expected']}", None),
    "string_pattern_mismatch": lambda found, about: (
        f"string should match pattern '{about['pattern']}', not {_quoted(found)}",
        "names are lower-case" if re.search(about["pattern"], found.lower()) else None,
    ),
    "too_short": lambda found, _: (f"is an empty {'map' if found == {} else 'list'}", "write one entry or more"),
    "too_long": lambda found, about: (f"has {len(found)} entries", f"at most {about['max_length']} are allowed"),
    "string_too_long": lambda found, about: (
        f"is {len(found)} characters long",
        f"at most {about['max_length']} are allowed",
    ),
}
"""By type of error: the message about a value, and the hint."""


def _told(error: ErrorDetails, path: FieldPath, model: type[Strict]) -> tuple[str, str | None]:
    """The message about an error, and the hint."""
    kind, found = error["type"], error["input"]
    if kind in _TOLD:
        return _TOLD[kind](found, error.get("ctx", {}))
    if kind == "extra_forbidden":
        return _unknown(str(path[-1]), _keys(_json_schema(model), path[:-1]))
    if kind == "missing":
        return _MISSING.format(path[-1]), None
    if kind == "string_type" and isinstance(found, int | float):
        return f"{json.dumps(found)} is not text", f'write "{json.dumps(found)}" in quotes'
    if kind in _WANTED:
        return _of_type(_WANTED[kind], found)
    return f"{error['msg'][:1].lower()}{error['msg'][1:]}, not {_quoted(found)}", None


def _quoted(found: object) -> str:
    return without_middle(repr(found))


def _of_type(wanted: str, found: object) -> tuple[str, str | None]:
    """The message about a value of another type than what is wanted, and the hint."""
    if found is None:
        return "is empty", f"write {wanted}, or remove the line"
    message = f"is {_quoted(found)}, not {wanted}"
    if not isinstance(found, str):
        return message, None
    if wanted == "a list":
        return message, f"write [{without_middle(found)}]"
    quoted = found in {"true", "false"} if wanted == "true or false" else wanted == "a whole number" and found.isdigit()
    return message, "remove the quotes" if quoted else None


def _document_path(error: ErrorDetails, data: Any) -> FieldPath:
    """Return the path of an error in the document, without the alternatives of unions that pydantic adds."""
    path: list[int | str] = []
    location = error["loc"]
    for part in location:
        is_missing_key = error["type"] == "missing" and part == location[-1]
        if isinstance(data, Mapping) and (part in data or is_missing_key):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            continue
        path.append(part)
    return tuple(path)


@cache
def _json_schema(model: type[Strict]) -> Mapping[str, Any]:
    return model.model_json_schema(by_alias=True)


def _keys(json_schema: Mapping[str, Any], path: FieldPath) -> list[str]:
    """Return the keys that the schema has at a path of a document."""
    nodes = [json_schema]
    for part in path:
        nodes = [child for node in nodes for child in _children(node, part, json_schema)]
    return sorted(
        {key for node in nodes for schema in _resolved(node, json_schema) for key in schema.get("properties", {})}
    )


def _children(node: Mapping[str, Any], part: int | str, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for schema in _resolved(node, root):
        others = schema.get("additionalProperties")
        found = schema.get("items") if isinstance(part, int) else schema.get("properties", {}).get(part, others)
        if isinstance(found, Mapping):
            yield found


def _resolved(node: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "$ref" in node:
        return _resolved(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    return [node, *(found for schema in node.get("anyOf", ()) for found in _resolved(schema, root))]


EXTENDS: Final = "extends"


def merge_documents(document: Document, builtin: Mapping[str, Document]) -> dict[str, Any]:
    """Return the data of a document, merged over the built-in one that it extends; `inherited_names` checks the result."""
    if EXTENDS not in document.data:
        return document.data
    base = document.data[EXTENDS]
    if not isinstance(base, str) or base not in builtin:
        of_alias = (name for name, each in builtin.items() if base in each.data.get("aliases", ()))
        hint = next((f"it is an alias: write `{name}`" for name in of_alias), nearest_known(str(base), builtin))
        if "family" in document.data:
            hint = f"for a vendor of your own write `vendor: {without_middle(str(base))}`"
        problem = Problem(f"{without_middle(repr(base))} is not a built-in mapping", (EXTENDS,), hint)
        raise MappingError([placed(problem, document)])
    merged: dict[str, Any] = _merge(
        builtin[base].data, {key: value for key, value in document.data.items() if key != EXTENDS}
    )
    return merged


def _merge(base: Any, changes: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    merged = base | {key: _merge(base.get(key), value) for key, value in changes.items()}
    removed = {key for key, value in changes.items() if value is None and key in base and key != "unit"}
    return {key: value for key, value in merged.items() if key not in removed}


def inherited_names(document: Document, data: Mapping[str, Any], builtin: Mapping[str, Document]) -> list[Problem]:
    """Report resource names that a document with a new vendor name inherits: two vendors cannot own one name."""
    base, after = document.data.get(EXTENDS), data.get("keys", {})
    if base is None or data.get("vendor") == base or not isinstance(after, dict):
        return []
    before = builtin[base].data.get("keys", {})
    named = {name: key["resource"] for name, key in after.items() if isinstance(key, dict) and "resource" in key}
    inherited = [name for name, resource in named.items() if resource == before.get(name, {}).get("resource")]
    message = f"with a vendor name of its own it still has the resource names of {', '.join(inherited)}"
    hint = (
        "give each a new `resource`, or remove the key with `null`; or remove `vendor` to replace the built-in mapping"
    )
    return [placed(Problem(message, ("keys",), hint), document)] * bool(inherited)
