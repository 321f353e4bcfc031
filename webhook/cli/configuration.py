"""The options that say which policy is in force, shared by the commands that need one."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from webhook.cli.failure import Failure

if TYPE_CHECKING:
    from webhook.mapping.policy import Policy

Command = TypeVar("Command", bound=Callable[..., Any])


def configured(command: Command) -> Command:
    """Give a command the options ``--mappings`` and ``--settings``."""
    mappings = click.option(
        "--mappings",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Mapping documents (*.yaml) over the built-in ones: a vendor of the same name is replaced.",
    )
    settings = click.option(
        "--settings",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="The settings document: target, owners, largestCard, cards, cardLabels, podSecurityDefault, nodeName, "
        "resourceClaims, neverTouched, optInLabel, timeoutSeconds.",
    )
    return mappings(settings(command))


def configured_policy(mappings: Path | None, settings: Path | None) -> "Policy":
    """The policy that these options say.

    Raises:
        Failure: a document cannot be read, or is wrong.
    """
    from webhook.mapping.load import load_policy
    from webhook.mapping.problem import MappingError

    try:
        return load_policy(mappings, settings, None)
    except MappingError as error:
        raise Failure(map(str, error.problems)) from error
    except OSError as error:
        raise Failure([f"{error.filename}: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise Failure([f"{mappings or settings}: not UTF-8 text"]) from error
