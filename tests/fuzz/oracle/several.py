"""What vendors make of several containers of a pod, and of one request that is there twice. Sources with each."""

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.fuzz.oracle import schedulers
from tests.fuzz.oracle.keys import Keys
from tests.fuzz.oracle.meaning import Denied

if TYPE_CHECKING:
    from tests.fuzz.oracle.reading import Read

EXCLUDES = {
    "kai": frozenset({"nvidia.com/gpu"}),
    "koordinator": frozenset({"nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu"}),
}
"""Names with which no pod is taken: KAI ``gpu_request_validator.go``, Koordinator ``ValidDeviceResourceCombinations``."""
OPEN_SUM = "summed requests that differ: only where some of them leave a dimension open"
"""Such containers keep their meaning: a default can make them equal."""


def copied(read: "Read", copy: "Read") -> "Read":
    """KAI ``nvfractions/mutation.go``, ``gpu_sharing_validation.go``: newer keys repeat the older ones, or none is valid."""
    if read.meaning is None or copy.meaning is None:
        return read if read.meaning is None else copy
    same = read.meaning.amounts() == copy.meaning.amounts()
    return read if same else replace(read, meaning=None, refused="a copy that differs")


def alone(reads: "list[Read]", vendor: str) -> "list[Read]":
    """A vendor that serves one container of a pod: HAMi ``mthreads``, where one annotation of the pod names the devices."""
    reads_of = [read for read in reads if read.vendor == vendor and read.meaning is not None]
    if len(reads_of) < 2:
        return reads
    return [
        replace(each, meaning=None, refused="one container of a pod") if each in reads_of else each for each in reads
    ]


def checked_sums(reads: "list[Read]", summed: list[tuple[int, Keys]]) -> "list[Read]":
    """Koordinator ``GetPodDeviceRequests``: what the pod requests is summed, and each container gets the same of it."""
    if any(reads[at].refused or reads[at].unsure for at, _ in summed):
        return reads
    summed = [(at, keys) for at, keys in summed if reads[at].meaning is not None]
    meanings = [meaning for at, _ in summed if (meaning := reads[at].meaning) is not None]
    known = [meaning.amounts() for meaning in meanings]
    if len(known) < 2:
        return reads
    why = "summed requests that differ" if known.count(known[0]) < len(known) else None
    specified = ({getattr(meaning, name) for meaning in meanings} - {None} for name in ("devices", "memory", "cores"))
    if why is not None and all(len(amounts) < 2 for amounts in specified):
        differing = {at for at, _ in summed}
        return [replace(read, refused=OPEN_SUM) if at in differing else read for at, read in enumerate(reads)]
    regular = [(at, keys) for at, keys in summed if keys.position is not None]
    if why is None and len(regular) > 1:
        total = replace(regular[0][1], numbers={})
        for _, keys in regular:
            for name, number in keys.numbers.items():
                total.numbers[name] = total.numbers.get(name, 0) + number
        try:
            schedulers.koordinator(total)
        except Denied as error:
            why = f"a sum that is no request: {error}"
    refused = {at for at, _ in summed} if why is not None else set()
    return [replace(read, meaning=None, refused=why) if at in refused else read for at, read in enumerate(reads)]
