"""The pages that are generated from the mappings in force: keys, matrix, guards, sources, and documents as YAML."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from webhook.cli.terminal import columns
from webhook.mapping.document.validation import guard_lists
from webhook.mapping.matrix import Cell, Matrix, Rendering, Tried
from webhook.quantity import Number
from webhook.request import ALL, MAX_DEVICES, UNLIMITED, Memory, Percent, Request, Size

if TYPE_CHECKING:
    from webhook.mapping.document.problem import FieldPath
    from webhook.mapping.document.schema import CheckedSource, Guard
    from webhook.mapping.model.policy import Policy
    from webhook.mapping.model.vendor import Key, Vendor


_KEYS: Final = """\
# The keys of the built-in vendors

<!-- Generated from `webhook/mapping/builtin` by `make docs`. -->

What each key specifies, and what 1 of it is: percentages are of a device, and devices are counted unless stated. Memory and
cores are per device, unless *together* says that they are over all devices. A comma separates spellings of a key, a semicolon
keys. *Other* is what no other vendor has. [vendors.md](vendors.md) has what you have to configure.

| vendor | key | specifies | 1 is |
|---|---|---|---|
"""
_PLACES: Final = """
The scheduler of each vendor, which containers of a pod may request, and whether init containers may if the vendor is the
target. An *inactive* vendor's shared names are read only if the setting `owners` names it.

| vendor | hardware | scheduler | containers | init containers |
|---|---|---|---|---|
"""
_CONTAINERS: Final = {"any": "any", "one": "one", "equal": "one, or several alike", "shared": "share one request"}


def keys_page(policy: "Policy") -> str:
    """Format the page of keys."""
    keys = [row for vendor in policy.vendors.values() for row in _key_rows(vendor)]
    return _KEYS + _rows(keys) + _PLACES + _rows(_place_rows(policy))


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join("|" + "".join(f" {cell} |" if cell else " |" for cell in row) + "\n" for row in rows)


def _place_rows(policy: "Policy") -> Iterator[tuple[str, ...]]:
    """Yield a row for the vendors that differ in nothing else."""
    names: dict[tuple[str, ...], list[str]] = {}
    for vendor in policy.vendors.values():
        inactive = " (inactive)" if vendor.inactive else ""
        names.setdefault(_place(vendor), []).append(f"`{vendor.name}`{inactive}")
    yield from ((", ".join(found), *place) for place, found in names.items())


def _place(vendor: "Vendor") -> tuple[str, ...]:
    scheduler = "any" if vendor.place.scheduler is None else f"`{vendor.place.scheduler}`"
    shared = vendor.together and vendor.containers == "any"
    containers = "all on one device" if shared else _CONTAINERS[vendor.containers]
    init = (
        "served"
        if vendor.serves_init_containers
        else "denied, also untranslated"
        if vendor.denies_init_containers
        else "denied"
    )
    hardware = "its own" if vendor.family == vendor.name else vendor.family
    return hardware, scheduler, containers, init if vendor.target else "not a target"


def _key_rows(vendor: "Vendor") -> Iterator[tuple[str, ...]]:
    """Yield a row for each key, and for keys in a row that specify the same in the same unit."""
    name = f"`{vendor.name}`"
    for cells, keys in itertools.groupby(
        vendor.keys.values(), key=lambda key: (_place_of(key), _kind(key), _unit(vendor, key))
    ):
        place, *others = cells
        spelled = "; ".join(", ".join(f"`{template.text}`" for template in key.spellings) for key in keys)
        yield name, f"{place}{spelled}", *others
        name = ""


def _place_of(key: "Key") -> str:
    return "" if key.place == "resource" else f"{key.place} "


def _kind(key: "Key") -> str:
    other = {"text": "a name", "container": "the container", "other": "other"}
    kind = other.get(key.kind) or " and ".join(key.dimensions)
    return kind if key.retired is None else f"{kind}; retired"


def _unit(vendor: "Vendor", key: "Key") -> str:
    from webhook.mapping.requests.values import unconfigured_size
    from webhook.quantity import bytes_text, number_text

    if key.kind != "amount":
        return ""
    if "devices" in key.dimensions:
        counted = "a part of one device" if vendor.counts_parts(key) else ""
        return counted if unconfigured_size(vendor) is None else "a device whose size is to be configured"
    together = ", together" if key.total else ""
    if key.unit is None:
        return f"to be configured{together}"
    unit = bytes_text(key.unit) if key.sized else f"{number_text(key.unit)} %"
    return f"{unit}{together}" if key.values is None else f"{unit}{together}; {key.values}"


_SIGNS: Final[Mapping[Rendering, str]] = {
    Rendering.EXACT: "=",
    Rendering.ROUNDS: "~",
    Rendering.DROPS: "!",
    Rendering.CONDITIONAL: "?",
    Rendering.DENIED: "-",
}
_LEGEND: Final = (
    "= exact, ~ some are rounded up, ! something is dropped, - denied; with limits: only within them; ? some"
)
_PAGE: Final = """\
# From any vendor to any other

<!-- Generated by `vgpu-webhook vendors --matrix --markdown`. Change the mappings, then run `make docs`. -->

How the requests of a source (rows) are written for a target (columns):

| sign | result |
|---|---|
| `=` | all are written exactly |
| `~` | all are written, some rounded up to what the target can express |
| `!` | all are written, but the target's mapping drops memory or cores |
| `-` | all are denied |
| `~ ≤ 48 GiB` | a sign with limits: requests within all of them are written, others are denied |
| `?` | some are written, some are denied, and no short list of limits separates them |

The limits: `whole` (all memory and cores of each GPU) or `shares`; `1 GPU` or `≤ 128 GPUs`; an amount of memory or cores
per GPU, if the share has one; `size` (memory as a size) or `percent`; `cores` (a limit of cores) or `no cores`.

Every cell is derived from the two mappings, as if both vendors were active; if they share a resource name, the source is
active. The table is for the built-in mappings without changes: what has to be configured first ([vendors.md](vendors.md)) is
denied. It assumes that the model of the device is unknown; [mapping.md](mapping.md) describes the effect of a known one.
`vgpu-webhook vendors SOURCE --matrix` shows one row for the mappings in force, and `vgpu-webhook vendors SOURCE --matrix --to
TARGET` from where to where its requests have which outcome, with the reasons.

"""


def matrix_page(policy: "Policy") -> str:
    """Format the page of pairs."""
    matrix = Matrix(policy)
    targets = sorted(matrix.targets)
    lines = [f"| from \\ to | {' | '.join(targets)} |", "|---|" + ":-:|" * len(targets)]
    lines += [page_row(matrix, source) for source in matrix.sources]
    rows = [f"| `{target}` | `{name}` | {needs} |" for target, name, needs in _needs(policy, targets)]
    needed = "\n".join(["| to | resource | what it needs |", "|---|---|---|", *rows])
    parts = (
        "\n".join(lines),
        "## What nodes report only then",
        needed,
        "## Why everything is denied",
        "\n".join(_denied(matrix)),
    )
    return _PAGE + "\n\n".join(parts) + "\n"


def _needs(policy: "Policy", targets: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the resources of targets that nodes report under a condition only, with it: else pods stay Pending."""
    for target in targets:
        for entry in policy.vendors[target].document.reports:
            if not isinstance(entry, str):
                yield target, entry.resource, " ".join(entry.needs.split())


def page_row(matrix: Matrix, source: str) -> str:
    """Format a source's row of the page."""
    row = matrix.row(source)
    signs = (f"`{sign(row[target])}`" if target in row else "" for target in sorted(matrix.targets))
    return f"| {source} | {' | '.join(signs)} |".replace("|  |", "| |")


def _denied(matrix: Matrix) -> Iterator[str]:
    """Format the reasons of each target, with the sources that they apply to."""
    yield "| to | why | from |"
    yield "|---|---|---|"
    for target in sorted(matrix.targets):
        why: dict[str, list[str]] = {}
        for source in matrix.sources:
            cell = None if source == target else matrix.cell(source, target)
            if cell is not None and cell.outcome is Rendering.DENIED:
                why.setdefault(_shown(cell.why[0]), []).append(source)
        name = f"`{target}`"
        for reason, sources in sorted(why.items()):
            yield f"| {name} | {reason} | {', '.join(sources)} |".replace("|  |", "| |")
            name = ""


def _shown(reason: str) -> str:
    """Generalize the amount in a reason."""
    kinds = (
        (r"memory [\d.]+ (?:B|[KMGT]iB)", "memory as a size"),
        (r"(memory|cores) (?!100 %)[\d.]+ %", r"\1 in percent"),
    )
    for pattern, kind in kinds:
        reason = re.sub(pattern, kind, reason)
    return reason.replace("|", "\\|").replace("<", "&lt;")


def matrix_table(policy: "Policy") -> str:
    """Format all pairs for a terminal, as signs only."""
    matrix = Matrix(policy)
    targets = sorted(matrix.targets)
    width = max(map(len, targets))
    heads = ["".join(target[row] if row < len(target) else " " for target in targets) for row in range(width)]
    margin = " " * max(map(len, matrix.sources))
    lines = [f"{margin}  {' '.join(head)}".rstrip() for head in heads]
    for source in matrix.sources:
        row = matrix.row(source)
        signs = " ".join(_SIGNS[row[target].outcome] if target in row else "." for target in targets)
        lines.append(f"{source.ljust(len(margin))}  {signs}")
    lines += ["", _LEGEND]
    lines += [f"{target} needs {name} on nodes: {needs}" for target, name, needs in _needs(policy, targets)]
    return "\n".join(lines) + "\n"


def row_table(policy: "Policy", source: str) -> str:
    """Format one source to all targets for a terminal, with the limits and the reasons of denials."""
    rows = [("TO", "WRITTEN", "WHY NOT")]
    rows.extend(
        (target, sign(cell), _shown(cell.why[0]) if cell.why else "")
        for target, cell in sorted(Matrix(policy).row(source).items())
    )
    return columns(rows) + f"\n{_LEGEND}\n"


_AMOUNT: Final = re.compile(r"[\d.]+ (?:B|[KMGT]iB|%)")


def cell_table(policy: "Policy", source: str, target: str) -> str:
    """Format one pair for a terminal: the requests with one outcome, by form, kind of amounts and reason."""
    rows = [("FORM", "GPUS", "MEMORY EACH", "CORES EACH", "OUTCOME", "WHY")]
    alike: dict[object, list[Tried]] = {}
    for each in Matrix(policy).cell(source, target).tried:
        kinds = _kind_of(each.request.memory), _kind_of(each.request.cores)
        exact = each.outcome in {Rendering.EXACT, Rendering.ROUNDS}
        why = _AMOUNT.sub("", each.why)
        alike.setdefault((each.form, kinds, exact or each.outcome, why), []).append(each)
    for group in alike.values():
        requests = [each.request for each in group]
        counts = sorted({request.devices or 1 for request in requests})
        outcome = max((each.outcome for each in group), key=list(Rendering).index)
        rows.append(
            (
                group[0].form,
                f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}",
                _amounts([request.memory for request in requests]),
                _amounts([request.cores for request in requests]),
                outcome.value,
                _shown(group[0].why),
            )
        )
    return columns(rows) + "\nWhere rows overlap, several keys together decide, as WHY says.\n"


def _kind_of(amount: Memory | None) -> object:
    return amount if amount in {ALL, UNLIMITED} else type(amount)


def _amounts(amounts: list[Memory | None]) -> str:
    """Format the least and the greatest of amounts of one kind."""
    ordered = sorted(set(amounts), key=_worth)
    return str(ordered[0]) if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def _worth(amount: Memory | None) -> Number:
    return amount.bytes if isinstance(amount, Size) else amount.value if isinstance(amount, Percent) else 0


def sign(cell: Cell) -> str:
    """Format a cell for the page."""
    if cell.outcome is not Rendering.CONDITIONAL:
        return _SIGNS[cell.outcome]
    chosen = limits(cell)
    written = {each.outcome for each in cell.tried if each.outcome.written}
    return _SIGNS[max(written, key=list(Rendering).index)] + " " + ", ".join(chosen) if chosen else "?"


def limits(cell: Cell) -> dict[str, Callable[[Request], bool]]:
    """Return the fewest limits that separate what is written from what is denied; none if no limits do."""
    written = [each.request for each in cell.tried if each.outcome.written]
    denied = [each.request for each in cell.tried if not each.outcome.written]
    known = {text: within for text, within in _known_limits(written) if all(map(within, written))}
    beyond = {frozenset(text for text, within in known.items() if not within(request)) for request in denied}
    for count in range(1, len(known) + 1):
        for chosen in itertools.combinations(known, count):
            if all(not texts.isdisjoint(chosen) for texts in beyond):
                return {text: known[text] for text in chosen}
    return {}


def _known_limits(written: list[Request]) -> Iterator[tuple[str, Callable[[Request], bool]]]:
    yield "whole", lambda request: request.whole
    yield "shares", lambda request: not request.whole
    yield "1 GPU", lambda request: request.devices == 1
    count = max((request.devices or 1 for request in written), default=1)
    if 1 < count < MAX_DEVICES:
        yield f"≤ {count} GPUs", lambda request: (request.devices or 1) <= count
    sizes = [request.memory.bytes for request in written if isinstance(request.memory, Size)]
    if sizes:
        most = max(sizes)
        yield f"≤ {Size(most)}", lambda request: not isinstance(request.memory, Size) or request.memory.bytes <= most
    yield "size", lambda request: isinstance(request.memory, Size)
    yield "percent", lambda request: isinstance(request.memory, Percent)
    yield "no cores", lambda request: request.cores is UNLIMITED
    yield "cores", lambda request: request.cores is not UNLIMITED
    shares = [request.cores.value for request in written if isinstance(request.cores, Percent) and not request.whole]
    if shares:
        top = max(shares)
        yield (
            f"cores ≤ {Percent(top)}",
            lambda request: request.whole or not isinstance(request.cores, Percent) or request.cores.value <= top,
        )


_GUARD_HEADINGS: Final = ("VENDOR", "GUARDED", "VALUES", "EFFECT", "CONTAINERS")
_GUARD_PLACES: Final = ("env", "annotation", "label", "mount")
_EFFECTS: Final = {"deny": "denied", "strip": "removed", "warn": "reported", "allow": "permitted"}
_GUARD_PAGE: Final = """\
# Guarded variables

<!-- Generated from `webhook/mapping/builtin` by `make docs`. -->

The variables, annotations, labels and mounts (paths in a container, with `*` for any text) that lift the limit of a share or
show a container the devices of others, and what reads them. [behavior.md](behavior.md#guarding) explains the rules,
[threats.md](threats.md) what is left to you. `vgpu-webhook vendors NAME` prints the sources.

What is listed is denied with any value, except the shim's own, in containers with a share. After a colon are the only values
that are denied, or another rule:

- *all containers*: also those with whole devices, and those that stay unchanged.
- *devices*: all but `void`, `none` and empty, in all containers. These three hide the container's own devices (*hides*), which
  is reported, or undone if the request is translated.
- *reported*, *permitted*: instead of denied.

The first match decides; a mapping's own rows come before its lists. A variable that only selects among the devices that a
container has, such as `CUDA_VISIBLE_DEVICES`, is not guarded.

"""
_DEVICES: Final = ("all but `void`, `none`, empty", "denied, hides", "all")


class _Entry(NamedTuple):
    """One entry of a guard, as texts; of a reference to a list, only its name."""

    guarded: str
    values: str = ""
    effect: str = ""
    containers: str = ""
    read_by: str = ""
    named: str = ""


def guards_table(policy: "Policy") -> str:
    """Format a table with a row for each entry of each vendor's guard."""
    rows = [
        (name, *(text.replace("`", "") for text in entry[: len(_GUARD_HEADINGS) - 1]))
        for name, entries, _ in _vendors(policy)
        for entry in entries
    ]
    return columns([_GUARD_HEADINGS, *rows])


def guards_page(policy: "Policy") -> str:
    """Format the page of guards: vendors, lists with the vendors that share them, and what is not guarded."""
    vendors = list(_vendors(policy))
    lists = [
        (
            name,
            [vendor for vendor, entries, _ in vendors if any(each.named == name for each in entries)],
            [_entry(each, found.read_by) for each in found.guard],
        )
        for name, found in guard_lists().items()
    ]
    return "".join(
        [
            _GUARD_PAGE,
            "## Mappings\n\n| mapping | guarded | read by |\n|---|---|---|\n",
            *(row for name, entries, _ in vendors for row in _guard_rows(name, entries)),
            "\n## Lists\n\n| list | of the mappings |\n|---|---|\n",
            *(f"| {name} | {', '.join(f'`{vendor}`' for vendor in users)} |\n" for name, users, _ in lists),
            "\n| list | guarded | read by |\n|---|---|---|\n",
            *(row for name, _, entries in lists for row in _guard_rows(name, entries)),
            "\n## Not guarded\n\n| mapping | why |\n|---|---|\n",
            *(f"| `{name}` | {why} |\n" for name, _, why in vendors if why),
        ]
    )


def _vendors(policy: "Policy") -> Iterator[tuple[str, list[_Entry], str]]:
    for vendor in policy.vendors.values():
        document = vendor.document
        why = " ".join((document.unguarded or "").split())
        yield vendor.name, [_entry(guard) for guard in document.guard], why


def _guard_rows(name: str, entries: list[_Entry]) -> Iterator[str]:
    """Yield a row for each reader; entries of lists stand elsewhere."""
    own = [entry for entry in entries if not entry.named]
    shown = f"`{name}`"
    for reader, found in itertools.groupby(own, key=lambda entry: entry.read_by.partition(": ")[0]):
        guarded = "; ".join(f"{entry.guarded}: {rule}" if (rule := _rule(entry)) else entry.guarded for entry in found)
        yield f"| {shown} | {guarded} | {reader} |\n".replace("|  |", "| |")
        shown = ""


def _rule(entry: _Entry) -> str:
    """What the page says of an entry, unless it is the usual."""
    rule = entry.values, entry.effect, entry.containers
    if rule == _DEVICES:
        return "devices"
    values = "" if entry.values == "any value" else entry.values
    usual = {"denied": "", "denied, hides": "hides", "shares": "", "all": "all containers"}
    others = ", ".join(text for each in rule[1:] if (text := usual.get(each, each)))
    return f"{values} ({others})" if values and others else values or others


def _entry(guard: "Guard", read_by: str = "") -> _Entry:
    if guard.named is not None:
        return _Entry(f"the list `{guard.named}`", named=guard.named)
    place = next(place for place in _GUARD_PLACES if getattr(guard, place) is not None)
    names = getattr(guard, place)
    listed = ", ".join(f"`{name}`" for name in ([names] if isinstance(names, str) else names))
    containers = "all" if guard.whole else "shares"
    return _Entry(
        listed if place == "env" else f"{place} {listed}",
        _values(guard),
        _EFFECTS[guard.action] + (", hides" if guard.hides else ""),
        containers,
        guard.read_by or read_by,
    )


def _values(guard: "Guard") -> str:
    if guard.source is not None:
        written = guard.source.model_dump(by_alias=True, exclude_none=True)
        return "from " + ", ".join(f"{kind} `{name}`" for kind, name in written.items())
    if guard.lifts == "truthy":
        return "true"
    if guard.lifts is not None:
        return _quoted(guard.lifts)
    return f"all but {_quoted(guard.unless)}" if guard.unless else "any value"


def _quoted(values: list[str]) -> str:
    return ", ".join(f"`{value}`" if value else "empty" for value in values)


_HEADINGS: Final = ("VENDOR", "SYSTEM", "VERSION", "CHECKED ON", "AT")
_SOURCE_PAGE: Final = """\
# Sources of the built-in mappings

<!-- Generated by `vgpu-webhook vendors --sources --markdown`. Change `webhook/mapping/builtin`, then run `make docs`. -->

For each mapping: the system that it describes, the release or commit whose files were read, the date, and what could not be
found in public. [vendors.md](vendors.md) describes the results. Nothing was run on a vendor's own cluster.
`make vendors-check` prints the list, to look for newer versions.

| mapping | system | version | on | files read | not found |
|---|---|---|---|---|---|
"""


def sources_table(policy: "Policy") -> str:
    """Format a table with a row for each source of each vendor."""
    rows = [
        (name, source.system, source.version or "no version", source.date, source.at)
        for name, source, _ in _sources(policy, repeat=True)
    ]
    return columns([_HEADINGS, *rows])


def sources_page(policy: "Policy") -> str:
    """Format the page of sources."""
    return _SOURCE_PAGE + "".join(
        f"| {f'`{name}`' if first else ''} | {_linked(source)} | {source.version or ''} | {source.date} "
        f"| {', '.join(f'`{path}`' for path in source.opened)} | {source.missing or ''} |\n".replace("|  |", "| |")
        for name, source, first in _sources(policy, repeat=False)
    )


def _linked(source: "CheckedSource") -> str:
    return f"[{source.system}]({source.at})" if source.at.startswith("https://") else f"{source.system}, {source.at}"


def _sources(policy: "Policy", *, repeat: bool) -> Iterator[tuple[str, "CheckedSource", bool]]:
    for vendor in policy.vendors.values():
        for index, source in enumerate(vendor.document.sources):
            yield vendor.name, source, repeat or index == 0


MARK: Final = "  # overridden"


def as_document(vendor: "Vendor", notes: Iterable[str] = ()) -> str:
    """Format a vendor's document, merged with the one that it extends; a comment marks what it overrides.

    Args:
        vendor: the vendor.
        notes: lines for the comment at the beginning, after the source.
    """
    from webhook.cli.manifests.files import yaml_text

    text = yaml_text(vendor.document.model_dump(mode="json", by_alias=True, exclude_unset=True))
    head = "".join(f"# {line}\n" for line in (vendor.source, *notes))
    return f"{head}{marked(text, vendor.overridden)}"


def marked(text: str, overridden: Iterable["FieldPath"]) -> str:
    """Add a comment to the line of each path in the YAML of a document; removed paths are listed first."""
    from webhook.mapping.document.problem import path_text
    from webhook.mapping.document.strict_yaml import parse

    (document,) = parse(text, "")
    lines = text.splitlines()
    removed: list[str] = []
    for path in sorted(overridden, key=str):
        line = document.lines.get(path)
        if line is None:
            removed.append(f"# removed: {path_text(path)}")
        else:
            lines[line - 1] += MARK
    return "\n".join([*removed, *lines, ""])
