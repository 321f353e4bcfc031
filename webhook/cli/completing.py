"""What a shell completes as the value of an argument or option: names that the program knows."""

from collections.abc import Iterable

import click


def vendor_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001  (click calls it so)
    """Complete a built-in vendor; as an option one that requests can be written for."""
    from webhook.mapping.load import builtin

    written = isinstance(parameter, click.Option)
    named = (name for name, each in builtin().items() if not written or each.data.get("target", True))
    return _beginning(named, incomplete)


def setting_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete ``KEY=`` of a setting that people choose."""
    from webhook.mapping.settings import Settings

    fields = Settings.model_fields.items()
    return _beginning((f"{field.alias or name}=" for name, field in fields if field.description), incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
