"""The base of every schema: the strict model, and names, texts, lists and numbers with bounds.

Everyone who may write ConfigMaps can supply a document, so everything in it has a bound.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

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
from webhook.quantity import Number
from webhook.request import Cores, Memory, Percent, Size

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


@dataclass(frozen=True, slots=True)
class Parsed:
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
SizeUnit: TypeAlias = Annotated[Short, read_by(partial(parse_unit_of, sized=True))]
ShareUnit: TypeAlias = Annotated[Short, read_by(partial(parse_unit_of, sized=False))]


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


class Strict(BaseModel):
    """Base of the schema: no unknown keys, no implicit conversions, keys in camelCase."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel, defer_build=True)
