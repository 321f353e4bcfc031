"""The pods of `examples/`, which the tests create as a reader would."""

import copy
from dataclasses import dataclass
from pathlib import Path

import yaml

from .client import Object

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"
NAMESPACES = FOLDER / "namespaces.yaml"
MAPPINGS = FOLDER / "mappings"
SETTINGS = FOLDER / "settings.yaml"
USUAL_NAMESPACE = "shares"


@dataclass(frozen=True, slots=True)
class Example:
    """One example: a pod, or a workload that makes pods, and the namespace it belongs to."""

    name: str
    manifest: Object
    namespace: str

    @property
    def pod(self) -> Object:
        """The pod, or one of that name like those that the workload makes."""
        pod = self.manifest.get("spec", {}).get("template", self.manifest)
        metadata = {**pod["metadata"], "name": self.manifest["metadata"]["name"], "namespace": self.namespace}
        return copy.deepcopy({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]})

    def moved(self, namespace: str) -> "Example":
        manifest = copy.deepcopy(self.manifest)
        manifest["metadata"]["namespace"] = namespace
        return Example(self.name, manifest, namespace)


def example(name: str) -> Example:
    """Return the example of `pods/NN-name.yaml`, by its number or by all of `NN-name`."""
    [path] = FOLDER.glob(f"pods/{name}*.yaml")
    manifest = yaml.safe_load(path.read_text())
    return Example(path.stem, manifest, manifest["metadata"].get("namespace", USUAL_NAMESPACE))


def example_names() -> list[str]:
    """Return the names of all examples, in order."""
    return sorted(path.stem for path in FOLDER.glob("pods/*.yaml"))


def namespaces() -> list[Object]:
    """Return the namespaces that the examples live in."""
    return list(yaml.safe_load_all(NAMESPACES.read_text()))
