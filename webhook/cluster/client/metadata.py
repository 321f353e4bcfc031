"""The metadata of an object: only the fields that are read."""

import msgspec


class ObjectMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """``metav1.ObjectMeta``; missing fields are empty.

    Attributes:
        creation_timestamp: RFC 3339, in UTC and full seconds, so that texts sort by time.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
