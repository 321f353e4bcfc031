"""``python -m deploy.generate`` writes the chart's schema and README; with the path of Helm, the plain manifests as well."""

import sys
from pathlib import Path

from deploy.generate import CHART, DEPLOY
from deploy.generate.kustomize import base
from deploy.generate.schema import values_schema
from deploy.generate.table import readme


def main(helm: str | None = None) -> None:
    """Write what is made."""
    (CHART / "values.schema.json").write_text(values_schema())
    (CHART / "README.md").write_text(readme())
    if helm is None:
        return
    folder = DEPLOY / "kustomize" / "base"
    folder.mkdir(parents=True, exist_ok=True)
    files = base(Path(helm))
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
