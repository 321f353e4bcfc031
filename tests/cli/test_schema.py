"""``vgpu-webhook schema``, checked by another implementation of JSON Schema; and completion, by the shells."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from tests.parts import skip_part
from webhook.cli import COMMANDS, main
from webhook.mapping.load import builtin
from webhook.mapping.settings import Settings
from webhook.reasons import BY_CODE

CASES = Path(__file__).parents[1] / "cases"


@cache
def validator(kind: str) -> jsonschema.Draft202012Validator:
    """The checker of a kind of documents."""
    schema = json.loads(CliRunner().invoke(main, ["schema", kind]).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"https://vgpu-webhook.io/schemas/v1alpha1/{kind}.schema.json"
    return jsonschema.Draft202012Validator(schema)


def test_mappings() -> None:
    """Every built-in one is valid, and those of the cases."""
    checker = validator("mapping")
    documents = [document.data for document in builtin().values()]
    documents += [each for file in CASES.glob("*/mappings/*.yaml") for each in yaml.safe_load_all(file.read_text())]
    assert len(documents) > 50
    for document in documents:
        checker.validate(document)


def test_settings() -> None:
    """Those of the cases are valid."""
    checker = validator("settings")
    documents = [yaml.safe_load(file.read_text()) for file in CASES.glob("*/settings.yaml")]
    assert len(documents) > 20
    for document in documents:
        checker.validate(document)


def test_documents_of_the_pages() -> None:
    """Mappings and settings in the documentation are valid."""
    blocks = [
        block
        for page in (CASES.parents[1] / "docs").glob("*.md")
        for text in re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        for block in yaml.safe_load_all(text)
    ]
    for kind, known in (
        ("mapping", {"vendor", "extends"}),
        ("settings", set(Settings.model_json_schema()["properties"])),
    ):
        found = [each for each in blocks if each.get("kind") in {None, kind.capitalize()} and known & each.keys()]
        assert found
        checker = validator(kind)
        for document in found:
            checker.validate(document)


def profiles(memory: dict[str, Any]) -> dict[str, Any]:
    """A document with the memory of a profile by model."""
    return {"extends": "mig", "variables": {"profile": {"rows": {"1g.10gb": {"memory": memory}}}}}


@pytest.mark.parametrize(
    "kind, wrong",
    [
        ("mapping", {"vendor": "x"}),
        ("mapping", {"extends": "nvidia", "keyz": {}}),
        ("mapping", {"extends": "nvidia", "keys": {"gpumem": {"unt": "1Mi"}}}),
        ("mapping", {"extends": "mig", "variables": {"profile": {"modl": "H100-80"}}}),
        ("mapping", profiles({"H100-80": {"A": "9Gi"}})),
        ("mapping", {**builtin()["vcuda"].data, "unknown": 1}),
        ("mapping", {"apiVersion": "vgpu-webhook.io/v1alpha1", "kind": "Mapping", "vendor": "x"}),
        ("settings", {"tarqet": "nvidia"}),
        ("settings", {"timeoutSeconds": 0}),
        ("test", {"denied": "401"}),
        ("test", {"warning": []}),
    ],
)
def test_what_is_wrong_is_found(kind: str, wrong: dict[str, Any]) -> None:
    """As the program finds it."""
    assert not validator(kind).is_valid(wrong)


@pytest.mark.parametrize(
    "kind, right",
    [
        ("test", {"denied": "VGW303", "warnings": ["VGW101"], "stored": {"spec": {}}}),
        ("mapping", {"extends": "nvidia", "defaults": {"memory": "8000Mi"}}),
        ("mapping", {"extends": "nvidia", "keys": {"gpumem": {"unit": "10Mi"}, "priority": None}, "shim": None}),
        ("mapping", {"extends": "iluvatar", "place": {"scheduler": "other"}}),
        ("mapping", {"extends": "mig", "variables": {"profile": {"write": ["1g.10gb"], "model": ["H100-80"]}}}),
        ("mapping", profiles({"H100-80": "9Gi", "A30": None})),
    ],
)
def test_only_what_differs_is_written(kind: str, right: dict[str, Any]) -> None:
    """With ``extends`` nothing else is required, and null removes; of an expectation, a part."""
    validator(kind).validate(right)


ASKED = {
    "bash": "COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
    '_vgpu_webhook_completion vgpu-webhook; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": "complete --do-complete '{line}'",
}
"""How a shell is asked what it would complete, after the script is read."""


@pytest.mark.parametrize("shell", [*ASKED])
@pytest.mark.parametrize(
    "line, expected",
    [
        ("vgpu-webhook mu", {"mutate"}),
        ("vgpu-webhook schema s", {"settings"}),
        ("vgpu-webhook check --str", {"--strict"}),
        ("vgpu-webhook mutate --to volc", {"volcano", "volcano-legacy"}),
    ],
)
def test_shells_complete(tmp_path: Path, shell: str, line: str, expected: set[str]) -> None:
    """The shell itself completes commands, arguments and options, by the script of click."""
    script = completion_of(tmp_path, shell)
    options = {"bash": ["--norc", "--noprofile"], "fish": ["--no-config"]}[shell]
    command = [shell, *options, "-c", f"source {script}; {ASKED[shell].format(line=line)}"]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=True, timeout=60)
    assert {each.partition("\t")[0] for each in done.stdout.splitlines()} == expected


def test_zsh_completes(tmp_path: Path) -> None:
    """Typed on a terminal: the tab key makes `codes` of `cod`, and the command runs."""
    script = completion_of(tmp_path, "zsh")
    typed = f"autoload -Uz compinit; compinit -D -u; source {script}\nvgpu-webhook cod\tVGW303\nexit\n"
    ours, theirs = os.openpty()
    with subprocess.Popen(
        ["zsh", "-f", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(tmp_path),
        start_new_session=True,
    ) as zsh:
        os.close(theirs)
        os.write(ours, typed.encode())
        seen = b""
        # Reading fails when nobody has the terminal open any more.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                seen += part
        os.close(ours)
        assert zsh.wait(60) == 0
    assert b"VGW303: more than any device has" in seen


def completion_of(folder: Path, shell: str) -> Path:
    """A file with the script of a shell, which has to be installed."""
    if shutil.which(shell) is None:
        skip_part("shells", f"{shell} is not installed")
    script = folder / "script"
    source = {"_VGPU_WEBHOOK_COMPLETE": f"{shell}_source"}
    script.write_text(CliRunner().invoke(main, prog_name="vgpu-webhook", env=source).stdout)
    return script


def environment(home: Path) -> dict[str, str]:
    """What a shell has: the program on its path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "TERM": "dumb", "LC_ALL": "C.UTF-8"}


def test_commands_are_completed_with_their_lines() -> None:
    """As in the overview; no command is imported for it."""
    asked = {"COMP_WORDS": "vgpu-webhook c", "COMP_CWORD": "c", "_VGPU_WEBHOOK_COMPLETE": "fish_complete"}
    done = CliRunner().invoke(main, prog_name="vgpu-webhook", env=asked)
    lines = [line.removeprefix("plain,").split("\t") for line in done.stdout.splitlines()]
    assert lines == [[name, line] for name, line in COMMANDS.items() if name.startswith("c")]


@pytest.mark.parametrize(
    "line, expected",
    [
        ("vendors asc", {"ascend"}),
        ("explain --to koord", {"koordinator"}),
        ("codes VGW101 vgw60", {code for code in BY_CODE if code.startswith("VGW60")}),
        ("preview --set bare", {"bareDevices="}),
    ],
)
def test_names_are_completed(line: str, expected: set[str]) -> None:
    """Vendors, targets, codes and settings."""
    before, _, last = line.rpartition(" ")
    asked = {
        "COMP_WORDS": f"vgpu-webhook {before} {last}",
        "COMP_CWORD": last,
        "_VGPU_WEBHOOK_COMPLETE": "fish_complete",
    }
    done = CliRunner().invoke(main, prog_name="vgpu-webhook", env=asked)
    assert {each.removeprefix("plain,").partition("\t")[0] for each in done.stdout.splitlines()} == expected
