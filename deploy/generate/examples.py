"""`examples/` → the examples of the playground, for a program that is installed without them."""

import json
from typing import Any, Final

import yaml

from deploy.generate import DEPLOY

EXAMPLES: Final = DEPLOY.parent / "webhook" / "cli" / "playground" / "examples.json"
_FOLDER: Final = DEPLOY.parent / "examples"


def examples() -> str:
    """Return the manifests, each with the Namespaces that it names, and the mappings; by their folder."""
    spaces = {}
    for text in (_FOLDER / "namespaces.yaml").read_text().split("---\n")[1:]:
        spaces[yaml.safe_load(text)["metadata"]["name"]] = text
    found: list[dict[str, Any]] = []
    for folder in ("pods", "workloads", "mappings"):
        for path in sorted((_FOLDER / folder).glob("*.yaml")):
            text = path.read_text()
            field = "mappings" if folder == "mappings" else "manifest"
            names = [(each.get("metadata") or {}).get("namespace") for each in yaml.safe_load_all(text)]
            space = "---\n".join(spaces[name] for name in dict.fromkeys(names) if name in spaces)
            found.append({"group": folder, "name": path.stem, field: text, **({"namespace": space} if space else {})})
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"
