"""Options that several commands share: the policy and the cluster."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from webhook.cli.failure import Failure

if TYPE_CHECKING:
    from webhook.mapping.model.policy import Policy

Command = TypeVar("Command", bound=Callable[..., Any])


def configured(command: Command) -> Command:
    """Give a command the options ``--mappings`` and ``--settings``."""
    mappings = click.option(
        "--mappings",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Mapping documents (*.yaml) beside the built-in ones; a vendor of the same name is replaced.",
    )
    settings = click.option(
        "--settings",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="The settings document: target, owners, largestCard, cards, cardLabels, podSecurityDefault, nodeName, "
        "resourceClaims, otherDeviceClasses, guardExceptions, neverTouched, optInLabel, timeoutSeconds.",
    )
    return mappings(settings(command))


def of_cluster(only_with: str = "") -> Callable[[Command], Command]:
    """Give a command the options ``--kubeconfig`` and ``--release-namespace``.

    Args:
        only_with: the option that they require, as the beginning of their help.
    """
    kubeconfig = click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help=f"{only_with}The kubeconfig file. Without it: KUBECONFIG, the pod's service account, or ~/.kube/config.",
    )
    release_namespace = click.option(
        "--release-namespace",
        metavar="NS",
        help=f"{only_with}The namespace of the webhook and of its ConfigMaps. Without it: the pod's own, or "
        "vgpu-webhook.",
    )

    def add(command: Command) -> Command:
        return kubeconfig(release_namespace(command))

    return add


def configured_policy(mappings: Path | None, settings: Path | None, target: str | None = None) -> "Policy":
    """Load the policy of these options; `target` overrides that of the settings.

    Raises:
        Failure: a document cannot be read, or is invalid.
    """
    from webhook.mapping.document.problem import MappingError
    from webhook.mapping.load import load_policy

    try:
        return load_policy(mappings, settings, target)
    except MappingError as error:
        raise Failure(map(str, error.problems)) from error
    except OSError as error:
        raise Failure([f"{error.filename}: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise Failure([f"{mappings or settings}: not UTF-8 text"]) from error
