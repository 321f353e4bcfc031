"""Restores from memory what is missing in the store: a pure function of both.

A store may be emptied or damaged while replicas still serve its certificates.
"""

from dataclasses import replace

from certs.pair import Pair
from certs.state import RotationRequest, State


def completed(found: State | None, remembered: State | None) -> State | None:
    """The stored state, completed from memory where something is missing."""
    if found is None or remembered is None:
        return found or remembered
    ca = remembered.ca
    if found.ca is None and ca is not None and ca.certificate in found.cas:
        retired = tuple(other for other in found.retired if other.certificate != ca.certificate)
        found = replace(found, ca=ca, retired=retired)
    if found.ca is None and found.next_ca is None:
        # No stored CA can sign, and a remembered one can; stored CAs stay trusted.
        known = set(remembered.cas)
        others = tuple(other for other in found.retired if other.certificate not in known)
        found = replace(remembered, retired=(*remembered.retired, *others), requested=found.requested)
    pair = remembered.serving_pair
    if (
        found.serving_pair is None
        and pair is not None
        and found.requested is not RotationRequest.SERVING_CERTIFICATE
        and _under_current(pair, found)
    ):
        found = replace(found, serving_pair=pair)
    return found


def _under_current(pair: Pair, state: State) -> bool:
    return state.ca is not None and state.issuer(pair.certificate) == state.ca.certificate
