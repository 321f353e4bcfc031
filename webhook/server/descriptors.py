"""How many files and connections the system lets this process have open."""

import resource
from dataclasses import replace
from typing import Final

from webhook.server.limits import Limits

OWN: Final = 128
"""Descriptors for everything but callers: the API server, files, listeners, the loop."""


def raise_descriptors() -> int:
    """Raise the soft limit of descriptors, often 1,024, to the hard limit; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def within(limits: Limits, descriptors: int) -> Limits:
    """Reduce limits so that descriptors never run out; probes and Prometheus get theirs first."""
    if descriptors == resource.RLIM_INFINITY:
        return limits
    plain = min(limits.plain_connections, max(1, descriptors // 8))
    available = max(1, descriptors - plain - min(OWN, descriptors // 2))
    return replace(limits, plain_connections=plain, connections=min(limits.connections, available))
