"""Contradictions between documents, or between documents and the settings, as problems of the document that has to change."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from webhook.mapping.document.problem import Problem, nearest_known
from webhook.mapping.document.settings import Settings
from webhook.mapping.model.match_names import Capacity
from webhook.mapping.model.names import Names, conflicts, index
from webhook.mapping.model.vendor import BUILT_IN, Vendor

SETTINGS: Final = "settings"
"""The source of problems in the settings, from whatever file."""


def contradictions(
    vendors: Mapping[str, Vendor], settings: Settings, resources: Names, annotations: Names, selectors: Names
) -> list[Problem]:
    """Return every contradiction: a name with two owners, an unknown vendor, a chain of translations, too many names.

    Args:
        vendors: all vendors by name, after the setting `owners` was applied.
        settings: the settings of the cluster.
        resources: the active vendors that read each resource name.
        annotations: the same for annotations.
        selectors: the same for keys of the nodeSelector.
    """
    return [
        *_unknown_names(vendors, settings),
        *conflicts(resources, "resource", vendors),
        *conflicts(_size_annotations(vendors, annotations), "annotation", vendors),
        *_chains(vendors, settings),
        *_read_selectors((vendor for vendor in vendors.values() if not vendor.inactive), selectors),
        *_capacity_problems(vendors.values()),
    ]


def _size_annotations(vendors: Mapping[str, Vendor], annotations: Names) -> Names:
    """Return the annotations that hold memory or cores, which have one owner; counts may be shared."""
    sizes = {"memory", "cores"}
    return Names(
        {
            key: sized
            for key, owners in annotations.exact.items()
            if (
                sized := tuple(
                    owner for owner in owners if sizes & set(vendors[owner.vendor].keys[owner.key_name].dimensions)
                )
            )
        }
    )


def _read_selectors(vendors: Iterable[Vendor], selectors: Names) -> Iterator[Problem]:
    """Report keys that one vendor writes into a nodeSelector and another reads: a second pass would read another request."""
    for vendor in vendors:
        for key in vendor.place.node_selector:
            for owner in selectors.owners(key):
                message = f"{key} is the key {owner.key_name!r} of {owner.vendor}, which would then be read"
                yield Problem(message, ("place", "nodeSelector", key), "leave it out", vendor.source)


def _unknown_names(vendors: Mapping[str, Vendor], settings: Settings) -> list[Problem]:
    problems = [
        Problem(
            f"no vendor is called {vendor.translate_to!r}",
            ("translateTo",),
            nearest_known(vendor.translate_to, vendors),
            vendor.source,
        )
        for vendor in vendors.values()
        if vendor.translate_to is not None and vendor.translate_to not in vendors
    ]
    problems.extend(
        Problem(
            f"no other vendor is called {vendor.copies!r}",
            ("copies",),
            nearest_known(vendor.copies, vendors.keys() - {vendor.name}),
            vendor.source,
        )
        for vendor in vendors.values()
        if vendor.copies is not None and (vendor.copies not in vendors or vendor.copies == vendor.name)
    )
    problems.extend(
        Problem(
            f"no other vendor is called {name!r}",
            ("beside", name),
            nearest_known(name, vendors.keys() - {vendor.name}),
            vendor.source,
        )
        for vendor in vendors.values()
        for name in vendor.document.beside
        if name not in vendors or name == vendor.name
    )
    if settings.target is not None and settings.target not in vendors:
        problems.append(
            Problem(
                f"no vendor is called {settings.target!r}",
                ("target",),
                nearest_known(settings.target, vendors),
                SETTINGS,
            )
        )
    for name, owner in settings.owners.items():
        if owner not in vendors:
            problems.append(
                Problem(f"no vendor is called {owner!r}", ("owners", name), nearest_known(owner, vendors), SETTINGS)
            )
        elif owner not in {user.vendor for user in index(vendors.values(), "resource").owners(name)}:
            problems.append(Problem(f"{owner} has no key {name}", ("owners", name), None, SETTINGS))
    return problems


def _chains(vendors: Mapping[str, Vendor], settings: Settings) -> list[Problem]:
    """Report targets that are themselves translated: a translated request must be final."""
    problems: list[Problem] = []
    for vendor in vendors.values():
        target = vendors.get(vendor.translate_to or "")
        if target is None:
            continue
        path = ("translateTo",)
        if not target.target:
            problems.append(Problem(f"{target.name} is read only and never written", path, None, vendor.source))
        elif target.translate_to is not None and target.name != vendor.name:
            message = f"{target.name} is itself translated to {target.translate_to}"
            problems.append(Problem(message, path, f"write `translateTo: {target.translate_to}`", vendor.source))
        elif settings.target not in {None, target.name} and target.same_family(
            vendors.get(settings.target or "", target)
        ):
            message = f"{target.name} would be translated on to {settings.target} by the setting `target`"
            problems.append(Problem(message, path, f"write `translateTo: {settings.target}`", vendor.source))
    home = vendors.get(settings.target or "")
    if home is not None and not home.target:
        problems.append(Problem(f"{home.name} is read only and never written", ("target",), None, SETTINGS))
    elif home is not None and home.translate_to not in {None, home.name}:
        message = f"{home.name} is itself translated to {home.translate_to}"
        problems.append(Problem(message, ("target",), f"write `target: {home.translate_to}`", SETTINGS))
    return problems


def _capacity_problems(vendors: Iterable[Vendor]) -> Iterator[Problem]:
    """Report more names than match conditions can hold, for the documents that come last."""
    capacity = Capacity()
    for vendor in sorted(vendors, key=lambda vendor: vendor.source != BUILT_IN):
        beyond = capacity.take(vendor.lets_through)
        if beyond:
            message = f"with {vendor.name} the names of all documents that let pods through would be {beyond}"
            yield Problem(message, (), "leave out names, or whole documents", vendor.source)
