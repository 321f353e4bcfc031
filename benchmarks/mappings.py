"""Mappings by the dozen: a cluster with far more vendors than any has."""

from pathlib import Path

TEMPLATE = """\
extends: nvidia
vendor: {name}
family: {name}
keys:
  gpu: {{resource: {name}.example.com/gpu}}
  gpumem: {{resource: {name}.example.com/gpumem}}
  gpumem-percentage: {{resource: {name}.example.com/gpumem-percentage}}
  gpucores: {{resource: {name}.example.com/gpucores}}
  priority: {{resource: {name}.example.com/priority}}
"""


def write_mappings(folder: Path, count: int) -> Path:
    """Write so many mapping documents and return their folder."""
    folder.mkdir()
    for number in range(count):
        name = f"vendor-{number:02}"
        (folder / f"{name}.yaml").write_text(TEMPLATE.format(name=name))
    return folder
