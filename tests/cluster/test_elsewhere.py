"""Words that another replica knows already."""

from dataclasses import replace

import pytest

from tests.mapping.vendors import ACME, policy
from webhook.cluster.registration.names import matched_names_of
from webhook.cluster.registration.stored import Stored, known_to_peers, read_stored
from webhook.cluster.registration.wanted import Site, registration, wanted_by
from webhook.mapping.load import load_policy

BEHIND = load_policy()
AHEAD = policy(
    ACME + "known: [acme.com/other]\n", "extends: nvidia\nkeys: {more: {resource: nvidia.com/gpumore, is: other}}\n"
)
SITE = Site("https://gpu.example/mutate")
OBSERVED = read_stored(registration(wanted_by(AHEAD), SITE, version="0.1.0"))


def elsewhere(*resources: str, keys: tuple[str, ...] = (), observed: Stored | None = OBSERVED) -> bool:
    """Whether a replica behind has to leave such a pod to another one."""
    return known_to_peers(resources, keys, BEHIND, matched_names_of(BEHIND), observed)


@pytest.mark.parametrize(
    "resources, keys, expected",
    [
        (("cpu", "acme.com/gpu"), (), True),
        ((), ("acme.com/gpu",), True),
        (("nvidia.com/gpumore",), (), True),
        (("nvidia.com/gpu", "nvidia.com/gpumem"), (), False),
        (("nvidia.com/gpu", "nvidia.com/pgpu"), (), False),
        (("cpu", "rdma/hca"), ("team.example/a",), False),
        (("nvidia.com/gpu", "acme.com/mem"), (), True),
        ((), ("nvidia.com/gpu",), False),
    ],
)
def test_unknown_keys_are_left_to_others(resources: tuple[str, ...], keys: tuple[str, ...], *, expected: bool) -> None:
    """Names that are let through and that mean nothing here; not those that mean something, nor anybody's."""
    assert elsewhere(*resources, keys=keys) is expected


def test_not_under_the_own_digest() -> None:
    """A webhook configuration with the digest of this replica is not that of a newer replica."""
    assert not elsewhere("acme.com/gpu", observed=replace(OBSERVED, digest=BEHIND.digest))


def test_not_without_a_digest() -> None:
    """Before the first read, and with a static webhook configuration, no other replica is assumed."""
    assert not elsewhere("acme.com/gpu", observed=None)
    assert not elsewhere("acme.com/gpu", observed=Stored())


def test_where_the_registration_cannot_be_read() -> None:
    """Another version wrote it: it may know the key of a pod that our own match conditions would not send."""
    observed = Stored(None, "9", "f" * 12)
    assert elsewhere("acme.com/gpu", observed=observed)
    assert not elsewhere("nvidia.com/gpu", "acme.com/gpu", observed=observed)
