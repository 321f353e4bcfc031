"""The Go modules of a control plane of another version of Kubernetes than the pinned one: from that version's own go.mod."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

from tests.cache import cached
from tests.go_program import BinariesMissingError

VERSION = re.compile(r"1(\.\d+\.\d+)")
STAGING = re.compile(r"=> \./staging/src/(k8s\.io/\S+)$", re.MULTILINE)
EXAMPLE = re.compile(r"^\s+(k8s\.io/sample-\S+) (=>|v0\.0\.0).*\n", re.MULTILINE)


def modules_of(version: str, go: str, program: Path) -> Path:
    """Return a folder with a program, and a go.mod and a go.sum that give it Kubernetes at a version.

    They follow from what Kubernetes publishes for that version, so they are made once and kept in the user's cache.

    Raises:
        BinariesMissingError: this is no version, or the modules cannot be fetched.
    """
    number = VERSION.fullmatch(version)
    if number is None:
        raise BinariesMissingError(f"KUBERNETES is {version!r}: write a release, as in KUBERNETES=1.30.14")

    def make(folder: Path) -> None:
        fetched = _run([go, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"], folder)
        own = Path(json.loads(fetched)["GoMod"]).read_text()
        (folder / "go.mod").write_text(consumer(own, version, f"v0{number[1]}"))
        shutil.copy(program, folder)
        _run([go, "mod", "tidy"], folder)

    made_of = (version.encode(), program.read_bytes(), Path(__file__).read_bytes())
    digest = hashlib.sha256(b"\n".join(made_of)).hexdigest()[:20]
    return cached("controlplane-modules", digest, make)


def consumer(own: str, version: str, staging: str) -> str:
    """Return the go.mod of a program that uses Kubernetes, from Kubernetes' own.

    Its own points the staging modules at local folders; a program replaces each by its published version. The examples among
    them are left out: no component needs them, and not every proxy serves them.
    """
    renamed = own.replace("module k8s.io/kubernetes", "module vgpu-webhook/tests/controlplane")
    examples = sorted({found[1] for found in EXAMPLE.finditer(renamed)})
    published = STAGING.sub(rf"=> \1 {staging}", EXAMPLE.sub("", renamed))
    lines = [published, f"require k8s.io/kubernetes v{version}", *(f"exclude {name} v0.0.0" for name in examples)]
    return "\n".join([*lines, ""])


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BinariesMissingError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
