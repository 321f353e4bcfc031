"""Writes the chart's schema and README, values and examples for the program, the codes, pictures, the version (`make docs`).

With Helm, manifests.
"""

import sys
from pathlib import Path

from deploy.generate import CHART, DEPLOY
from deploy.generate.codes import PAGE, page
from deploy.generate.examples import EXAMPLES, examples
from deploy.generate.kustomize import base, inject
from deploy.generate.picture import PICTURES, pictures
from deploy.generate.schema import values_schema
from deploy.generate.table import DEFAULTS, defaults, readme
from deploy.generate.versions import versioned


def main(helm: str | None = None) -> None:
    """Write what is made."""
    (CHART / "values.schema.json").write_text(values_schema())
    (CHART / "README.md").write_text(readme())
    DEFAULTS.write_text(defaults())
    EXAMPLES.write_text(examples())
    PAGE.write_text(page())
    for name, text in pictures().items():
        (PICTURES / name).write_text(text)
    for path, text in versioned().items():
        path.write_text(text)
    if helm is None:
        return
    for name, files in (("base", base(Path(helm))), ("inject", inject(Path(helm)))):
        folder = DEPLOY / "kustomize" / name
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if path.name not in files:
                path.unlink()
        for file, text in files.items():
            (folder / file).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
