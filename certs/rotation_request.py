"""Asking those who keep certificates to make new ones before their time."""

from dataclasses import replace
from typing import Final

from certs.problem import StoreError
from certs.state import STATE, RotationRequest, State, decode
from certs.store import Store

ATTEMPTS: Final = 10


async def ask(store: Store, asked: RotationRequest) -> State:
    """Leave a request in a store; whoever keeps it does it, and takes the request away.

    A new authority brings a new leaf with it, so a request for that is not replaced by one for a leaf.

    Returns:
        What was kept when it was asked.

    Raises:
        StoreError: the store cannot be read or written, or holds nothing yet.
    """
    for _ in range(ATTEMPTS):
        snapshot = await store.read()
        kept = decode(snapshot.files).kept
        if kept is None:
            raise StoreError("the store", "holds no certificates yet: start the webhook first")
        if kept.asked is RotationRequest.AUTHORITY:
            return kept
        # Only the request is new: a file that cannot be read is somebody else's to repair.
        files = {**(snapshot.files or {}), STATE: replace(kept, asked=asked).files()[STATE]}
        if await store.write(files, snapshot.version):
            return kept
    raise StoreError("the store", "is being written all the time")
