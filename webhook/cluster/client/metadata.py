"""The metadata of an object, as far as anything here reads it."""

import msgspec


class ObjectMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """``metav1.ObjectMeta``; what is missing is empty.

    Attributes:
        creation_timestamp: in UTC to the second, as RFC 3339 spells it: sorts by time.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
