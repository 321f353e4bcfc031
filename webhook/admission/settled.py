"""The settled request of one container: what every step after the reading of its keys works on."""

from msgspec import Struct

from webhook.admission.container_request import ContainerRequest
from webhook.finding import Finding
from webhook.mapping.model.vendor import Default, Form, Key, Vendor
from webhook.mapping.requests.result import Defaults, Reading
from webhook.quantity import Number
from webhook.reasons import Reason
from webhook.request import Dimension, Request


class Settled(Struct):
    """The settled request of one container.

    Attributes:
        requested: the container and its keys.
        target: the vendor that it is written for.
        request: its allocation, as the target's keys express it.
        form: the target's form that the keys take.
        filled: dimensions with their defaults.
        reading: the meaning of the source's keys, before anything is rounded or dropped for the target.
        read_back: the meaning of the keys of a translated request, read alone; None if it is not translated.
        resources: resource names to write with their number, or None to remove.
        keys: target keys in labels and annotations: (key, name, text).
        dropped: annotations of the source that carried the request.
        findings: warnings for the user.
    """

    requested: ContainerRequest
    target: Vendor
    request: Request
    form: str
    filled: Defaults
    reading: Reading
    resources: dict[str, Number | None] = {}
    keys: list[tuple[Key, str, str]] = []
    dropped: list[str] = []
    findings: list[Finding] = []
    read_back: Reading | None = None

    @property
    def translated(self) -> bool:
        """Whether it is written in another vendor's keys."""
        return self.target is not self.requested.vendor


def limit_not_kept(form: Form, container: ContainerRequest) -> list[Finding]:
    """Return the warning of a form in which the vendor enforces no limit; nothing for other forms."""
    if form.unlimited is None:
        return []
    return [Finding(Reason.LIMIT_NOT_KEPT, " ".join(form.unlimited.split()), container.name)]


def default_text(dimension: Dimension, default: Default) -> str:
    """Return the beginning of the message about a default that applies."""
    missing = "device count" if dimension == "devices" else dimension
    return f"no {missing} requested: the {default.origin}'s default of {default.value} applies"
