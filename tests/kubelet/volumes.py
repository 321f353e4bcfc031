"""A pod's volumes as files, and its environment: what a kubelet makes of the pod's specification and the cluster."""

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controlplane.client import Client, Object

from .enclave import KUBERNETES

IMAGE_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
"""As `deploy/Containerfile` sets it, with the usual path."""

LABEL = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class UnsupportedError(Exception):
    """A pod uses something that this stand-in does not have."""


@dataclass(frozen=True, slots=True)
class Volumes:
    """The volumes of one pod, below one folder.

    Args:
        client: of the node, with the right to everything.
        pod: as it stands in the API server.
        folder: for files of this pod alone.
    """

    client: Client
    pod: Object
    folder: Path

    def mounts(self, container: Object) -> list[Object]:
        """What is mounted where; a source of None is an empty file system in memory."""
        volumes = {volume["name"]: volume for volume in self.pod["spec"].get("volumes", [])}
        sources = {name: self._source(volume) for name, volume in volumes.items()}
        made = []
        for mount in container.get("volumeMounts", []):
            known(mount, {"name", "mountPath", "readOnly", "recursiveReadOnly"})
            source = sources[mount["name"]]
            path = None if source is None else str(source)
            made.append({"source": path, "target": mount["mountPath"], "readOnly": mount.get("readOnly", False)})
        return made

    def environment(self, container: Object, address: str) -> dict[str, str]:
        """The image's variables, those of every pod, and its own."""
        name = self.pod["metadata"]["name"]
        made = {**IMAGE_ENVIRONMENT, "HOME": "/", "HOSTNAME": name}
        made |= {"KUBERNETES_SERVICE_HOST": KUBERNETES, "KUBERNETES_SERVICE_PORT": "443"}
        for entry in container.get("env", []):
            source = entry.get("valueFrom")
            made[entry["name"]] = entry.get("value", "") if source is None else self._value(source, address)
        known(container, set(container) - {"envFrom", "volumeDevices"})
        return made

    def _source(self, volume: Object) -> Path | None:
        """The folder that a volume is; None for an empty one in memory."""
        if "emptyDir" in volume:
            return None
        if "projected" in volume:
            given = volume["projected"]
            files: dict[str, bytes] = {}
            for source in given["sources"]:
                files |= self._projected(source)
        elif "secret" in volume:
            given = volume["secret"]
            files = self._data("secrets", {**given, "name": given["secretName"]})
        elif "configMap" in volume:
            given = volume["configMap"]
            files = self._data("configmaps", given)
        else:
            raise UnsupportedError(f"volume {volume}")
        folder = self.folder / str(volume["name"])
        folder.mkdir(parents=True)
        for path, content in files.items():
            (folder / path).write_bytes(content)
            (folder / path).chmod(given["defaultMode"])
        return folder

    def _projected(self, source: Object) -> dict[str, bytes]:
        [(kind, given)] = source.items()
        if kind == "serviceAccountToken":
            return {given["path"]: self._token(given).encode()}
        if kind == "downwardAPI":
            return {item["path"]: self._field(item["fieldRef"], "").encode() for item in given["items"]}
        return self._data(_resource(kind, {"configMap", "secret"}), given)

    def _token(self, given: Object) -> str:
        """A token that ends, and that is good only as long as the pod is there."""
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        asked = {"expirationSeconds": given["expirationSeconds"], "boundObjectRef": bound}
        if "audience" in given:
            asked["audiences"] = [given["audience"]]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": asked}
        account = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{spec['serviceAccountName']}"
        token: str = self.client.call("POST", f"{account}/token", body).accepted()["status"]["token"]
        return token

    def _data(self, resource: str, given: Object) -> dict[str, bytes]:
        """The files of a ConfigMap or Secret: those of `items`, or all."""
        found = self.client.get("v1", resource, given["name"], self.pod["metadata"]["namespace"]).accepted()
        data = found.get("data") or {}
        whole = {key: base64.b64decode(text) if resource == "secrets" else text.encode() for key, text in data.items()}
        items = given.get("items")
        return whole if items is None else {item["path"]: whole[item["key"]] for item in items}

    def _value(self, source: Object, address: str) -> str:
        [(kind, given)] = source.items()
        if kind == "fieldRef":
            return self._field(given, address)
        resource = _resource(kind.removesuffix("KeyRef"), {"configMap", "secret"})
        return self._data(resource, {"name": given["name"]})[given["key"]].decode()

    def _field(self, given: Object, address: str) -> str:
        path = given["fieldPath"]
        keyed = LABEL.fullmatch(path)
        if keyed is not None:
            return str(self.pod["metadata"].get(keyed[1], {}).get(keyed[2], ""))
        if path == "status.podIP":
            return address
        value: Any = self.pod
        for part in path.split("."):
            value = value[part]
        return str(value)


def _resource(kind: str, kinds: set[str]) -> str:
    """The plural of a kind; fail if it is none of these."""
    if kind not in kinds:
        raise UnsupportedError(kind)
    return f"{kind.lower()}s"


def known(given: Object, keys: set[str]) -> None:
    """Fail if something was reported that would be passed over."""
    more = given.keys() - keys
    if more:
        raise UnsupportedError(f"{', '.join(sorted(more))} in {given}")
