"""The verdict on one request in a target's keys."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from webhook.finding import Denied
from webhook.mapping.matrix.boundaries import AmountDimension, Bounds, written_rows
from webhook.mapping.matrix.outcomes import Rendering, Verdict
from webhook.mapping.model.names import Owner, index
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.values import Defaults, KeyValue
from webhook.mapping.requests.writing import NoEquivalent, Written, write
from webhook.request import UNLIMITED, Dimension, Request

_CONTAINER: Final = "main"


class Target(Bounds):
    """A vendor as a target, with a cache of verdicts."""

    def __init__(self, vendor: Vendor, largest_card: int) -> None:
        super().__init__(vendor, largest_card)
        self.rows = written_rows(vendor)
        self._verdicts: dict[Request, Verdict] = {}

    def alike(self, devices: int, other: int) -> bool:
        """Return whether it has the same boundaries for two counts of devices."""
        kinds: tuple[tuple[AmountDimension, bool], ...] = (("memory", True), ("memory", False), ("cores", False))
        return all(
            self.amounts(self.rows, dimension, devices, sized=sized)
            == self.amounts(self.rows, dimension, other, sized=sized)
            for dimension, sized in kinds
        )

    def verdict(self, request: Request) -> Verdict:
        """Return the verdict on a request."""
        if request not in self._verdicts:
            written = self.write(request)
            if isinstance(written, str):
                verdict = self._dropped(request, written)
            else:
                verdict = EXACT if written.reading.request == request else ROUNDS
            self._verdicts[request] = verdict
        return self._verdicts[request]

    def _dropped(self, request: Request, why: str) -> Verdict:
        """Drop the dimensions that the target's mapping allows, one after the other, until the rest can be written."""
        dropped: list[str] = []
        for dimension in self.vendor.drop:
            if getattr(request, dimension) is UNLIMITED:
                continue
            request = _unlimited(request, dimension)
            dropped.append(dimension)
            if not isinstance(self.write(request), str):
                return Verdict(Rendering.DROPS, " and ".join(dropped))
        return Verdict(Rendering.DENIED, why)

    def write(self, request: Request) -> Written | str:
        """Return the request in its keys, or why it has none."""
        try:
            return write(self.vendor, request, self.vendor.defaults, self.largest_card, _CONTAINER)
        except NoEquivalent as error:
            return error.reasons[0]


class Inactive:
    """A target that shares a resource name with the source: only one is active, so the source reads what is written."""

    def __init__(self, target: Target, source: Vendor, defaults: Defaults, names: Mapping[str, Owner]) -> None:
        self._target = target
        self._source = source
        self._defaults = defaults
        self._names = names

    def verdict(self, request: Request) -> Verdict:
        """Return the verdict on a request."""
        verdict = self._target.verdict(request)
        written = self._target.write(request) if verdict.outcome in {Rendering.EXACT, Rendering.ROUNDS} else None
        if written is None or isinstance(written, str):
            return verdict
        why = self._read_back_difference(written)
        return verdict if why is None else Verdict(Rendering.DENIED, why)

    def _read_back_difference(self, written: Written) -> str | None:
        """Return why the source would read the written keys differently; None if it would not."""
        source, target = self._source, self._target
        key_values: dict[str, KeyValue] = {}
        for entry in written.keys.values():
            owner = self._names.get(entry.key)
            if owner is None:
                return (
                    f"only one of {source.name} and {target.vendor.name} is active, and {entry.key} would not be read"
                )
            key_values[owner.key_name] = replace(entry, key_name=owner.key_name, binding=owner.binding)
        try:
            read_back = read(source, key_values, self._defaults, target.largest_card, _CONTAINER).request
        except Denied as denial:
            return denial.finding.message
        if read_back == written.reading.request:
            return None
        return f"only one of {source.name} and {target.vendor.name} is active, and {source.name} would read {read_back}"


EXACT: Final = Verdict(Rendering.EXACT)
ROUNDS: Final = Verdict(Rendering.ROUNDS)


def shared_names(source: Vendor, target: Vendor) -> Mapping[str, Owner]:
    """Return how the source reads the names of both vendors, if they share a resource name; else nothing."""
    names, target_names = index([source], "resource"), index([target], "resource").exact
    if not any(names.owners(name) for name in target_names):
        return {}
    return {name: owners[0] for name in (*target_names, *names.exact) if (owners := names.owners(name))}


def _unlimited(request: Request, dimension: Dimension) -> Request:
    return replace(request, memory=UNLIMITED) if dimension == "memory" else replace(request, cores=UNLIMITED)
