"""``vgpu-webhook schema``, checked by another implementation of JSON Schema; and ``completion``, by the shells."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.cli.conftest import Run
from webhook.mapping.load import builtin

CASES = Path(__file__).parents[1] / "cases"


def validator(run: Run, kind: str) -> jsonschema.Draft202012Validator:
    """The checker of a kind of documents."""
    schema = json.loads(run("schema", kind).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"https://vgpu-webhook.io/schemas/v1alpha1/{kind}.schema.json"
    return jsonschema.Draft202012Validator(schema)


def test_mappings(run: Run) -> None:
    """Every built-in one is valid, and those of the cases."""
    checker = validator(run, "mapping")
    documents = [document.data for document in builtin().values()]
    documents += [yaml.safe_load(file.read_text()) for file in CASES.glob("*/mappings/*.yaml")]
    assert len(documents) > 50
    for document in documents:
        checker.validate(document)


def test_settings(run: Run) -> None:
    """Those of the cases are valid."""
    checker = validator(run, "settings")
    documents = [yaml.safe_load(file.read_text()) for file in CASES.glob("*/settings.yaml")]
    assert len(documents) > 20
    for document in documents:
        checker.validate(document)


@pytest.mark.parametrize(
    "kind, wrong",
    [
        ("mapping", {"extends": "nvidia", "keyz": {}}),
        ("mapping", {"apiVersion": "vgpu-webhook.io/v1alpha1", "kind": "Mapping", "vendor": "x"}),
        ("settings", {"tarqet": "nvidia"}),
        ("settings", {"timeoutSeconds": 0}),
        ("test", {"denied": "401"}),
        ("test", {"warning": []}),
    ],
)
def test_what_is_wrong_is_found(run: Run, kind: str, wrong: dict[str, Any]) -> None:
    """As the program finds it."""
    assert not validator(run, kind).is_valid(wrong)


def test_expectations(run: Run) -> None:
    """All that the page shows."""
    validator(run, "test").validate({"denied": "VGW303", "warnings": ["VGW101"], "stored": {"spec": {}}})


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(run: Run, shell: str) -> None:
    """A script that the shell itself can read, where it is installed."""
    script = run("completion", shell).stdout
    assert "_VGPU_WEBHOOK_COMPLETE" in script
    program = shutil.which(shell)
    if program is None:
        return
    option = "--no-execute" if shell == "fish" else "-n"
    subprocess.run([program, option], input=script, text=True, check=True)


def test_bash_completes_commands() -> None:
    """As bash asks for it."""
    code = "from webhook.cli import main; main(prog_name='vgpu-webhook')"
    asked = {"COMP_WORDS": "vgpu-webhook mu", "COMP_CWORD": "1", "_VGPU_WEBHOOK_COMPLETE": "bash_complete"}
    import os
    import sys

    printed = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert printed.stdout.split() == ["plain,mutate"]
