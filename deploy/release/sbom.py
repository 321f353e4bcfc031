"""What the wheel and the image contain, as CycloneDX documents, by Syft: built from its Go modules.

``SYFT`` (the path of a program) comes first.
"""

import datetime as dt
import json
import os
import re
import shutil
import subprocess
import tempfile
import uuid
import zipfile
from pathlib import Path

from deploy.release.source import Source
from tests.go_program import GoProgram

_FOLDER = Path(__file__).parent / "syft"
_WITHOUT_GO = (
    "syft, which lists what a release contains, is built with Go: install Go 1.26 from https://go.dev/dl/ (any from 1.21 on "
    "fetches what it lacks), or set SYFT to the path of one"
)


def syft() -> Path:
    """Return where the program is, built now if this machine has never built it.

    Raises:
        BinariesMissingError: it is not there, and cannot be built.
    """
    version = re.search(r"anchore/syft (v\S+)", (_FOLDER / "go.mod").read_text())
    flags = f"-s -w -X main.version={version[1] if version else 'unknown'}"
    package = "github.com/anchore/syft/cmd/syft"
    return GoProgram("syft", _FOLDER, ("go.mod", "go.sum"), package, flags, _WITHOUT_GO).program("SYFT")


def of_image(source: Source, archive: Path) -> None:
    """Write what an image contains beside its archive: its Debian and Python packages."""
    _write(
        source,
        archive.parent,
        f"oci-archive:{archive.name}",
        archive.with_name(f"{archive.name.removesuffix('.oci.tar')}.cdx.json"),
    )


def of_wheel(source: Source, wheel: Path) -> None:
    """Write what a wheel contains beside it: itself, and what it needs in the versions it was tested with."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as files:
        files.extractall(folder)
        shutil.copy(source.folder / "deploy" / "image" / "requirements.txt", folder)
        _write(source, Path(folder), "dir:.", wheel.with_name(f"{wheel.name}.cdx.json"))


def _write(source: Source, folder: Path, what: str, path: Path) -> None:
    """Write the document of something in a folder: where that folder is must not be part of it."""
    about = ["--source-name", "vgpu-webhook", "--source-version", source.version]
    command = [str(syft()), "scan", what, "--quiet", "--output", "cyclonedx-json", *about]
    # Packages, and not each of their files; it reaches for no network.
    settings = {"SYFT_CHECK_FOR_APP_UPDATE": "false", "SYFT_FILE_METADATA_SELECTION": "none"}
    listed = subprocess.run(  # noqa: S603
        command, cwd=folder, env={**os.environ, **settings}, stdout=subprocess.PIPE, check=True
    )
    document = json.loads(listed.stdout)
    document["metadata"]["timestamp"] = dt.datetime.fromtimestamp(source.time, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document.pop("serialNumber")
    content = json.dumps(document, sort_keys=True)
    named = {**document, "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}"}
    path.write_text(json.dumps(named, indent=1, sort_keys=True) + "\n")
