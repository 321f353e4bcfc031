"""The result of reading a container's keys: the request, and how defaults, corrections and roundings contributed to it."""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from webhook.finding import Finding
from webhook.mapping.model.vendor import Default, Form
from webhook.mapping.requests.key_values import KeyValues
from webhook.quantity import Number
from webhook.request import Dimension, Request

Defaults: TypeAlias = Mapping[Dimension, Default]
"""The default of each dimension that has one."""


class Reading(msgspec.Struct, frozen=True, gc=False):
    """The meaning of a container's keys.

    Attributes:
        form: the form of the keys.
        request: the settled request.
        specified: the dimensions that the keys, or their form, specify.
        corrections: keys whose number the vendor raises, with the raised number.
        filled: the dimensions from defaults.
        added: keys for the defaults, if the request stays in this vendor's keys.
        passed_over: the dimensions whose default no key can express, or would change what is specified.
        findings: ignored keys, corrections and roundings.
        spelled: the request of the keys with `added`, which may round a default up; None: equal to `request`.
    """

    form: Form
    request: Request
    specified: frozenset[Dimension] = frozenset()
    corrections: Mapping[str, Number] = {}
    filled: Defaults = {}
    added: KeyValues = {}
    passed_over: tuple[Dimension, ...] = ()
    findings: tuple[Finding, ...] = ()
    spelled: Request | None = None
