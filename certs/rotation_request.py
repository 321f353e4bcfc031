"""Requests new certificates before the current ones are due for renewal."""

from dataclasses import replace
from typing import Final

from certs.problem import StoreError
from certs.state import STATE, RotationRequest, State, decode
from certs.store import Store

ATTEMPTS: Final = 10


async def request_rotation(store: Store, requested: RotationRequest) -> State:
    """Leave a request in a store; the replica that fulfills it removes it.

    A new CA includes a new serving certificate, so a request for the latter does not replace one for a CA.

    Returns:
        The stored state before the request.

    Raises:
        StoreError: the store cannot be read or written, or is empty.
    """
    for _ in range(ATTEMPTS):
        snapshot = await store.read()
        state = decode(snapshot.files).state
        if state is None:
            raise StoreError("the store", "contains no certificates yet: start the webhook first")
        if state.requested is RotationRequest.CA:
            return state
        # Only the request changes: the replicas repair files that cannot be decoded.
        files = {**(snapshot.files or {}), STATE: replace(state, requested=requested).files()[STATE]}
        if await store.write(files, snapshot.version):
            return state
    raise StoreError("the store", f"was changed by other processes {ATTEMPTS} times in a row")
