"""Reads and writes the webhook configuration in the API server, by its name only, so that RBAC can permit just that."""

from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from webhook.cluster.client.api import APPLY, FIELD_MANAGER, Answer, Api, Object, StatusError
from webhook.cluster.registration.desired import API_VERSION, COLLECTION, KIND, NAME

_PATH = f"{COLLECTION}/{NAME}"
_QUERY = {"fieldManager": FIELD_MANAGER}
_LABELS = {"app.kubernetes.io/managed-by": "vgpu-webhook"}


@dataclass(frozen=True, slots=True)
class StoredConfiguration:
    """The webhook configuration of a cluster.

    All methods raise `StatusError` if the server answers with an error, and `UnreachableError` if there is no answer.
    """

    api: Api

    async def read(self) -> Object | None:
        """Read it; None if there is none."""
        answer = await self.api.request("GET", _PATH)
        return None if answer.status == HTTPStatus.NOT_FOUND else _object(answer)

    async def create(self, configuration: Object) -> Object | None:
        """Create it; None if another replica was faster, or the object was deleted again.

        It is applied without webhooks and filled afterwards: an apply would overwrite what another replica has just written.
        """
        # After an apply that owns no field, the API server would not record managers of fields.
        bare = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": NAME, "labels": _LABELS}}
        answer = await self.api.request(
            "PATCH", _PATH, query=_QUERY, body=msgspec.json.encode(bare), content_type=APPLY
        )
        made = _object(answer)
        if made.get("webhooks"):
            return None
        metadata = {
            **configuration["metadata"],
            "labels": _LABELS,
            "resourceVersion": made["metadata"]["resourceVersion"],
        }
        return await self.replace({**configuration, "metadata": metadata})

    async def replace(self, configuration: Object) -> Object | None:
        """Replace it; None if it has changed in the meantime."""
        answer = await self.api.request("PUT", _PATH, query=_QUERY, body=msgspec.json.encode(configuration))
        return None if answer.status in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND} else _object(answer)


def _object(answer: Answer) -> Object:
    """Decode the object in an answer.

    Raises:
        StatusError: the answer contains none.
    """
    body = answer.accepted()
    try:
        return msgspec.json.decode(body, type=Object)
    except msgspec.DecodeError as error:
        raise StatusError(answer.status, "", f"not a JSON object: {error}") from None
