"""The base of every schema: the strict model, and names, texts, lists and numbers with bounds.

Everyone who may write ConfigMaps can supply a document, so everything in it has a bound.
"""

from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from webhook.mapping.notation.pattern import MAX_EXPRESSION, MAX_KEY

FEW: Final = 32
"""The longest list or map with a handful of entries."""

SOME: Final = 64
"""The longest list of forms and the like: each is tried with every key."""

MANY: Final = 512
"""The longest list or map that may be long, such as the names of slices."""

MOST: Final = 2**63 - 1
"""The largest number: Kubernetes counts in an int64."""

Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
"""The name of a vendor, a hardware family or a guard list."""

Short: TypeAlias = Annotated[str, Field(max_length=63)]
"""A name within a document or a pod."""
KeyText: TypeAlias = Annotated[str, Field(max_length=MAX_KEY)]
"""A key, or a pattern of keys."""
Long: TypeAlias = Annotated[str, Field(max_length=1024)]
"""A sentence, a path or a value."""
Expression: TypeAlias = Annotated[str, Field(max_length=MAX_EXPRESSION)]
"""A regular expression, as RE2 reads it."""
Texts: TypeAlias = KeyText | Annotated[list[KeyText], Field(min_length=1, max_length=FEW)]
Whole: TypeAlias = Annotated[int, Field(ge=-MOST, le=MOST)]
Amount: TypeAlias = Short | Whole
"""A quantity: ``5000Mi``, ``256Mi``, ``1``; or a percentage of a device: ``1%``, ``6.25%``."""
DeviceAmount: TypeAlias = Amount | Annotated[list[Amount], Field(min_length=1, max_length=2)]
"""What one device contains: an amount, or [least, most] of observed ones."""
Numbers: TypeAlias = KeyText | Whole | Annotated[list[KeyText | Whole], Field(min_length=1, max_length=SOME)]
"""A set of legal numbers: ``5..100 by 5``, ``1..``, ``2``, ``[2, 4, 8]``."""
_LABEL: Final = (
    r"^(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_MAX_DOMAIN: Final = 253
"""Characters of a DNS name; a pattern without look-ahead cannot limit them as a whole."""


def _domain_fits(key: str) -> str:
    if key.find("/") > _MAX_DOMAIN:
        raise PydanticCustomError("label_key", f"should have at most {_MAX_DOMAIN} characters before the slash")
    return key


LabelKey: TypeAlias = Annotated[
    str, Field(pattern=_LABEL, max_length=_MAX_DOMAIN + 1 + 63), AfterValidator(_domain_fits)
]
"""The key of a label: a name of at most 63 characters, optionally after a DNS name of at most 253 characters and a slash."""


API_VERSION: Final = "vgpu-webhook.io/v1alpha1"
"""The version of mappings and settings, and of documents that name none."""


class Strict(BaseModel):
    """Base of the schema: no unknown keys, no implicit conversions, keys in camelCase."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel, defer_build=True)
