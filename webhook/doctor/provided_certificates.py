"""Certificates that another program renews (``serve --certificate-dir``): where they come from, and how to renew them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from certs.state import CA_KEY, CERTIFICATE, NEXT_CA_KEY, STATE
from webhook.cluster.client.api import Api, ApiError
from webhook.cluster.client.read import list_objects

OPTION: Final = "--certificate-dir"

T = TypeVar("T")


class ProvidedError(Exception):
    """The webhook does not renew the certificate; the message says where it comes from, and how to renew it."""


class _Named(msgspec.Struct):
    name: str = ""


class _Secret(msgspec.Struct, rename="camel"):
    secret_name: str = ""


class _Volume(msgspec.Struct):
    name: str = ""
    secret: _Secret | None = None


class _Mount(msgspec.Struct, rename="camel"):
    name: str = ""
    mount_path: str = ""


class _Container(msgspec.Struct, rename="camel"):
    command: list[str] | None = None
    args: list[str] | None = None
    volume_mounts: list[_Mount] | None = None


class _Pod(msgspec.Struct):
    containers: list[_Container] = []
    volumes: list[_Volume] | None = None


class _Template(msgspec.Struct):
    spec: _Pod


class _Workload(msgspec.Struct):
    template: _Template


class _Deployment(msgspec.Struct):
    metadata: _Named
    spec: _Workload


class _Certificate(msgspec.Struct):
    metadata: _Named
    spec: _Secret


async def provided_by(api: Api, namespace: str) -> str | None:
    """Which provided certificate the replicas of a namespace serve, and how to renew it; None if it is their own.

    What cannot be read counts as missing.
    """
    for deployment in await _all(api, f"/apis/apps/v1/namespaces/{namespace}/deployments", _Deployment):
        pod = deployment.spec.template.spec
        for container in pod.containers:
            folder = _folder([*(container.command or ()), *(container.args or ())])
            if folder is not None:
                place = f"the Deployment {namespace}/{deployment.metadata.name}"
                secret = _mounted(folder, container, pod)
                if secret is None:
                    return f"{place} serves what is in {folder} ({OPTION}): {_by_hand(namespace)}"
                certificates = await _all(
                    api, f"/apis/cert-manager.io/v1/namespaces/{namespace}/certificates", _Certificate
                )
                certificate = next(
                    (found.metadata.name for found in certificates if found.spec.secret_name == secret), None
                )
                return f"{place} serves the Secret {secret} ({OPTION}): {_by_hand(namespace, certificate)}"
    return None


def provided_in_folder(files: Mapping[str, bytes] | None) -> bool:
    """Whether files hold a provided pair: none of them is a file that only the webhook writes."""
    present = {name for name, content in (files or {}).items() if content.strip()}
    return CERTIFICATE in present and not present & {CA_KEY, NEXT_CA_KEY, STATE}


def how_to_renew_folder(place: str) -> str:
    """The message about a place with a provided pair."""
    return f"{place} holds a certificate without the key of its CA: {_by_hand()}"


def perhaps_provided(place: str, registration: str, namespace: str) -> str:
    """The message about an empty place although there is a webhook configuration."""
    return (
        f"{place} contains no certificates, although there is a webhook configuration {registration}: either no replica has "
        f"started yet, or the replicas serve a provided certificate ({OPTION}); then {_by_hand(namespace)}"
    )


def _by_hand(namespace: str = "NAMESPACE", certificate: str | None = None) -> str:
    renew = f"cmctl renew {certificate or 'CERTIFICATE'} --namespace {namespace}"
    if certificate is not None:
        return f"cert-manager renews it; `{renew}` makes a new one, which is served as soon as the pods see it"
    return (
        "the webhook does not renew it: replace it there, and the new one is served as soon as it is seen; with "
        f"cert-manager, run `{renew}`"
    )


def _folder(keys: Iterable[str]) -> str | None:
    """The value of the option on a command line of `serve`."""
    found = list(keys)
    if "serve" not in found:
        return None
    for key, after in zip(found, [*found[1:], ""], strict=True):
        if key == OPTION:
            return after
        if key.startswith(f"{OPTION}="):
            return key.partition("=")[2]
    return None


def _mounted(folder: str, container: _Container, pod: _Pod) -> str | None:
    """The Secret that is mounted as a folder."""
    names = {each.name for each in container.volume_mounts or () if each.mount_path.rstrip("/") == folder.rstrip("/")}
    found: Iterator[str] = (
        each.secret.secret_name for each in pod.volumes or () if each.name in names and each.secret is not None
    )
    return next(found, None)


async def _all(api: Api, path: str, kind: type[T]) -> list[T]:
    try:
        return await list_objects(api, path, kind)
    except ApiError:
        return []
