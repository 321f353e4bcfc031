"""The documentation: its commands print what it shows, its YAML is valid, its links lead somewhere, its names exist.

Conventions of the pages:

- A ``console`` block is run by bash, all blocks of a page in one shell and one folder, which holds a copy of
  ``examples/``. Lines after a command are what it prints, on stdout and stderr; a lone ``…`` stands for any lines, one
  inside a line for any text. A command ends with status 0, unless the next one is ``echo $?``.
- A ``sh`` block is for pasting: it has no prompts. It is run as a whole, like a command of a ``console`` block, and prints the
  ``text`` block right below it, or nothing. README.md has only these.
- A page in Chinese, ``…_cn.md``, has the blocks of the English one.
- A comment ``<!-- not run: reason -->`` above a block says that it is not run here; those with the reason ``node`` are run by
  tests/node/test_start.py. Blocks of ``text`` never are.
- A ``yaml`` block is a mapping, a settings document, values of the chart or a Kubernetes object, and whole. If its first line
  is a comment with a file name, the page's commands find it under that name; a file of the project has to say the same.
"""

import ast
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, get_args

import click
import jsonschema
import msgspec
import pytest
import structlog
import yaml

from certs.store import Serving
from deploy.generate.schema import values_schema
from tests.cluster.fake_api import FakeApi
from tests.project.warm import warm_program
from webhook.cli import COMMANDS as COMMANDS_OF_PROGRAM
from webhook.cli import main
from webhook.cli.commands.test import Expectation
from webhook.cli.commands.vendors import keys_table, spelled_rows
from webhook.cli.file_checks import documents_of
from webhook.cluster import claims
from webhook.cluster.policy.documents import DocumentKind
from webhook.cluster.registration.wanted import KINDS, Site
from webhook.doctor.checks import CHECKS
from webhook.labels import KEYS, PREFIX
from webhook.mapping.document import parse
from webhook.mapping.load import build_policy, builtin, load_policy
from webhook.mapping.model import shim, vendor
from webhook.mapping.model.keys import Key
from webhook.mapping.settings import Settings
from webhook.mapping.strict import Strict
from webhook.pod import decode_pod
from webhook.reasons import BY_CODE
from webhook.replica.in_cluster import ClusterOptions, InCluster
from webhook.replica.run import Certificates
from webhook.request import bytes_text, number_text
from webhook.server.http import Connections
from webhook.server.limits import InFlight, Limits
from webhook.server.metrics import Metrics, connection_metrics, ready_metric

ROOT: Final = Path(__file__).parents[2]
ROOT_PAGES: Final = ("README.md", "README_cn.md", "CONTRIBUTING.md", "SECURITY.md")
COMMUNITY: Final = tuple(sorted(f".github/{page.name}" for page in (ROOT / ".github").glob("*.md")))
"""Where GitHub reads them."""

PAGES: Final = (*ROOT_PAGES, *COMMUNITY, *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")))
CHINESE: Final = [page for page in PAGES if page.endswith("_cn.md")]
TEXTS: Final = {page: (ROOT / page).read_text() for page in PAGES}
WRITTEN: Final = [
    page for page in PAGES if page not in {f"docs/{each}.md" for each in ("codes", "gpu", "reliability", "keys")}
]
"""The pages that are not generated."""

PORTS: Final = ("8443", "8080")
MARK: Final = "=== status"
PATIENCE: Final = 500
"""Seconds for the commands of one page; the longest page needs three."""

_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OUTPUT: Final = re.compile(r"\n*```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN: Final = re.compile(r"<!-- not run: (.+) -->\n\Z")
_FILE: Final = re.compile(r"# ([\w./-]+\.yaml)\n")
_LABEL: Final = re.compile(r"vgpu-webhook\.io/(?!v1alpha1)(?>([a-z]+(?:-[a-z]+)*))(?!-)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        page: where it stands.
        line: the line of its fence.
        language: what the fence says.
        text: what is in it.
        not_run: why its commands are not run.
        output: what is shown right below it.
    """

    page: str
    line: int
    language: str
    text: str
    not_run: str | None
    output: str = ""

    @property
    def run(self) -> bool:
        return self.language in {"console", "sh"} and self.not_run is None

    @property
    def file(self) -> str | None:
        named = _FILE.match(self.text)
        return None if named is None else named[1]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a console block, and what it is shown to print."""

    where: str
    text: str
    printed: str


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    printed: str
    status: int


def blocks_of(page: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    text = TEXTS[page]
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        skipped = _NOT_RUN.search(text[: found.start()])
        output = _OUTPUT.match(text, found.end())
        yield Block(page, line, found[1], found[2], skipped and skipped[1], "" if output is None else output[1])


def commands_of(block: Block) -> Iterator[Command]:
    """The commands of a console block, where ``> `` continues one; a block for pasting is one command."""
    if block.language == "sh":
        yield Command(str(block), block.text, block.output)
        return
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        first, *rest = part.splitlines(keepends=True)
        continued = [line.removeprefix("> ") for line in rest if line.startswith("> ")]
        printed = "".join(line for line in rest if not line.startswith("> "))
        yield Command(str(block), first + "".join(continued), printed)


BLOCKS: Final = [block for page in PAGES for block in blocks_of(page)]
COMMANDS: Final = {
    page: found
    for page in PAGES
    if (found := [each for block in BLOCKS if block.page == page and block.run for each in commands_of(block)])
}
YAML: Final = [block for block in BLOCKS if block.language == "yaml"]


def spans_of(text: str) -> list[str]:
    """The inline code of a page."""
    return re.findall(r"`([^`\n]+)`", _FENCE.sub("", text))


def code_of(page: str) -> list[str]:
    """The blocks of a page that hold commands."""
    return [block.text for block in BLOCKS if block.page == page and block.language in {"console", "sh"}]


def run_page(page: str, folder: Path, programs: Path) -> list[Ran]:
    """Run all commands of a page in one shell; ports are replaced by free ones, and back in what is printed."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for block in YAML:
        if block.page == page and block.file is not None:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text)
    script = "exec 2>&1\n" + "".join(
        f"{each.text}__status=$?; printf '\\n{MARK} %s\\n' $__status; (exit $__status)\n" for each in COMMANDS[page]
    )
    with free_ports() as ports:
        for shown, free in ports.items():
            script = script.replace(f":{shown}", f":{free}")
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"}
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = shell.communicate(timeout=PATIENCE)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        if shell.stdout is not None:
            shell.stdout.close()
    for shown, free in ports.items():
        printed = printed.replace(f":{free}", f":{shown}")
    found = re.findall(rf"(.*?)\n{MARK} (\d+)\n", printed, re.DOTALL)
    return [Ran(text if text.endswith("\n") or not text else f"{text}\n", int(status)) for text, status in found]


@contextlib.contextmanager
def free_ports() -> Iterator[Mapping[str, int]]:
    """A free port for each that the pages name."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in PORTS]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        yield dict(zip(PORTS, (each.getsockname()[1] for each in sockets), strict=True))


def shown_as(printed: str) -> re.Pattern[str]:
    """What may be printed where a page shows this."""
    lines = [
        r"(?:.*\n)*" if line == "…" else ".*".join(map(any_width, line.split("…"))) + r"\n"
        for line in printed.splitlines()
    ]
    return re.compile("".join(lines))


def any_width(text: str) -> str:
    """A pattern for a text whose columns may be wider than shown: another vendor widens them."""
    return " {2,}".join(map(re.escape, re.split(" {2,}", text)))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[Ran]]:
    """What the commands of every page did; pages run beside each other."""
    pages = [page for page in COMMANDS if "curl" not in str(COMMANDS[page]) or shutil.which("curl")]
    folders = [tmp_path_factory.mktemp("page") for _ in pages]
    # The address of a socket has to be short: not in pytest's folder.
    with TemporaryDirectory() as scratch, warm_program(Path(scratch)) as programs, ThreadPoolExecutor() as pool:
        return dict(zip(pages, pool.map(run_page, pages, folders, repeat(programs)), strict=True))


@pytest.mark.parametrize("page", COMMANDS)
def test_commands_print_what_the_page_shows(page: str, ran: Mapping[str, list[Ran]]) -> None:
    """Every command of a page can be run, and prints what stands below it."""
    if page not in ran:
        pytest.skip("needs curl, which is not installed")
    commands = COMMANDS[page]
    assert len(ran[page]) == len(commands)
    for index, (command, did) in enumerate(zip(commands, ran[page], strict=True)):
        assert shown_as(command.printed).fullmatch(did.printed), (
            f"{command.where}: {command.text}shown:\n{command.printed}\nprinted:\n{did.printed}"
        )
        expected = index + 1 < len(commands) and commands[index + 1].text == "echo $?\n"
        assert expected or not did.status, f"{command.where}: {command.text}ended with {did.status}"


def test_commands_are_found() -> None:
    """The pages have commands that are run, and blocks that say why they are not."""
    assert sum(map(len, COMMANDS.values())) > 15
    assert any(block.language in {"console", "sh"} and not block.run for block in BLOCKS)
    assert {block.language for block in BLOCKS} <= {"console", "sh", "text", "yaml"}
    assert any(command.where.startswith("README.md") and command.printed for command in COMMANDS["README.md"])


@pytest.mark.parametrize("block", YAML, ids=str)
def test_yaml_is_valid(block: Block) -> None:
    """Every YAML block is a mapping, settings, values, an expectation, a pipeline or an object that can be used as it is."""
    data, *others = yaml.safe_load_all(block.text)
    assert not others or "extends" in data
    if "vendor" in data or "extends" in data:
        build_policy(parse(block.text, str(block)))
    elif data.get("kind") == "Pod":
        pod = decode_pod(msgspec.json.encode(data))
        assert pod.spec.containers
        assert all(container.name for container in pod.spec.containers)
    elif data.get("kind") == "ConfigMap":
        found, _, problems = documents_of(block.text.encode(), str(block))
        assert found
        assert not problems
        build_policy(
            [entry.document for entry in found if entry.kind == "mapping"],
            next((entry.document for entry in found if entry.kind == "settings"), None),
        )
    elif data.keys() <= {"denied", "warnings", "stored"}:
        Expectation.model_validate(data)
    elif "gpu-policy" in data:
        called = [line.split() for line in data["gpu-policy"]["script"] if line.startswith("vgpu-webhook")]
        assert called
        assert all(words[1] in COMMANDS_OF_PROGRAM for words in called)
    elif "settings" in data:
        jsonschema.validate(data, json.loads(values_schema()))
    elif "kind" in data:
        assert data["apiVersion"]
        assert data["metadata"]["name"]
    else:
        (settings,) = parse(block.text, str(block))
        build_policy([], settings)


def test_shown_files_of_the_project_are_its_own() -> None:
    """A block that bears the name of a file of the project says what that file says."""
    named = [block for block in YAML if block.file is not None and (ROOT / block.file).exists()]
    assert named
    for block in named:
        assert yaml.safe_load(block.text) == yaml.safe_load((ROOT / str(block.file)).read_text()), str(block)


def anchors_of(text: str) -> set[str]:
    """The anchors that a page's headings get."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Every link inside the project names a file that exists, and a heading that it has."""
    links = re.findall(r"\[([^\]]+)\]\(([^)\s]+)\)", _FENCE.sub("", TEXTS[page]))
    for shown, link in links:
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = ROOT / page if not path else (ROOT / page).parent / path
        assert target.is_file(), f"{page}: {link}"
        if anchor:
            assert anchor in anchors_of(target.read_text()), f"{page}: {link}"
        if shown in BY_CODE:
            assert anchor == shown.lower(), f"{page}: {shown} leads to {link}"


def test_commands_of_the_readme_name_their_policy() -> None:
    """What README.md shows does not depend on the program's defaults, and is what an installation with these values does."""
    lines = [line for text in code_of("README.md") for line in joined(text)]
    shown = [line for line in lines if re.match(r"vgpu-webhook (mutate|explain) ", line)]
    assert len(shown) >= 4
    for line in shown:
        [values] = re.findall(r"--values (\S+)", line)
        assert (ROOT / values).is_relative_to(ROOT / "examples" / "values"), line


@pytest.mark.parametrize("page", CHINESE)
def test_pages_in_chinese_have_the_same_commands(page: str) -> None:
    """And files, and output, and reasons why they are not run; so what runs the English page has run both."""

    def said(page: str) -> list[tuple[str, str, str, str | None]]:
        blocks = [block for block in BLOCKS if block.page == page and block.language != "text"]
        return [(block.language, block.text, block.output, block.not_run) for block in blocks]

    english = page.replace("_cn.md", ".md")
    assert said(page) == said(english) != []
    assert f"]({Path(page).name})" in TEXTS[english]
    assert f"]({Path(english).name})" in TEXTS[page]


def test_codes_exist() -> None:
    """Every reason code that is mentioned has a meaning."""
    mentioned = {code for page in WRITTEN for code in re.findall(r"VGW\d{3}", TEXTS[page])}
    assert mentioned
    assert mentioned <= BY_CODE.keys()


def test_labels_and_annotations_are_those_of_the_code() -> None:
    """Every label and annotation of ours in the pages is one that the code knows, and the other way round."""
    known = {key.name.removeprefix(PREFIX) for key in KEYS}
    rows = re.findall(
        r"^\| ([\w ]+) \| (label|annotation) `(vgpu-webhook\.io/[a-z-]+)` \|", TEXTS["docs/behavior.md"], re.MULTILINE
    )
    assert set(rows) == {(key.kind, key.place, key.name) for key in KEYS}
    neutral = {name for key in load_policy().vendors["neutral"].keys.values() for name in _LABEL.findall(str(key))}
    assert {name for text in TEXTS.values() for name in _LABEL.findall(text)} <= known | neutral


def test_labels_are_spelled_once() -> None:
    """Nothing but `webhook/labels.py` spells a key of ours; docstrings and explanations may mention one."""
    for path in (ROOT / "webhook").rglob("*.py"):
        text = path.read_text()
        if PREFIX not in text:
            continue
        tree = ast.parse(text)
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        spelled = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
            and re.search(r"(?<![`/])\bvgpu-webhook\.io/(?!v1alpha1)", node.value)
        ]
        assert not spelled or path.name == "labels.py", f"{path}: {spelled}"


def options() -> dict[str, set[str]]:
    """The long options of every command; those of a group are its commands' own."""
    assert isinstance(main, click.Group)
    context = click.Context(main)
    found: dict[str, set[str]] = {}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        commands = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
        parameters = [parameter for command in commands for parameter in command.get_params(click.Context(command))]
        found[name] = {
            text
            for parameter in parameters
            for text in (*parameter.opts, *parameter.secondary_opts)
            if text.startswith("--")
        }
    return found


def joined(text: str) -> list[str]:
    """The commands of a block for pasting, each as one line."""
    return text.replace("\\\n", "").splitlines()


def uses(text: str) -> Iterator[tuple[str, list[str]]]:
    """Where a page calls the program: the command and its long options."""
    pasted = [line for found in _FENCE.finditer(text) if found[1] == "sh" for line in joined(found[2])]
    for line in [*re.findall(r"^\$ (.+)$", text, re.MULTILINE), *pasted, *spans_of(text)]:
        for part in re.split(r"[|;]", line):
            called = re.search(r"(?:^|[ /])vgpu-webhook ([a-z][a-z-]*)(.*)", part)
            # To these it is the name of a release, or of an object.
            if called is not None and not part.lstrip().startswith(("helm ", "kubectl ")):
                yield called[1], re.findall(r"(?<!\S)--[a-z][a-z-]*", called[2])


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_exist(page: str) -> None:
    """Every command and every option that a page names is one of the program's."""
    known = options()
    for command, used in uses(TEXTS[page]):
        assert command in known
        assert set(used) <= known[command], f"{page}: vgpu-webhook {command}"
    every = set().union(*known.values())
    for span in spans_of(TEXTS[page]):
        if span.startswith("--"):
            assert span.split()[0] in every, f"{page}: {span}"


def test_every_option_is_explained() -> None:
    """The pages leave options to `--help`: each has a sentence there."""
    for name, command in main.commands.items():
        for each in command.params:
            assert not isinstance(each, click.Option) or (each.help or "").strip(), f"{name} {each.name}"


def test_metrics_are_those_of_the_server() -> None:
    """The table of metrics has each metric, with its kind, and no other."""
    metrics = Metrics()
    site = Site("https://webhook.example/mutate")
    where = ClusterOptions(None, None, None, None, "managed", claims=True)
    log = structlog.get_logger()
    certificates = Certificates(Serving(), log)
    metrics.also(certificates.metrics)
    metrics.also(lambda: ready_metric(ready=True))
    metrics.also(lambda: connection_metrics({"reviews": Connections(Limits(), 1)}, InFlight()))
    metrics.also(InCluster(FakeApi(), "vgpu-webhook", site, where, log, certificates=certificates).metrics)
    exposed = re.findall(r"^# TYPE (\w+) (\w+)$", metrics.text().decode(), re.MULTILINE)
    listed = re.findall(r"^\| `(vgpu_webhook_\w+)` \| (\w+) \|", TEXTS["docs/reference.md"], re.MULTILINE)
    assert sorted(listed) == sorted((name, kind) for name, kind in exposed if not name.endswith("_created"))
    mentioned = {name for text in TEXTS.values() for name in re.findall(r"vgpu_webhook_\w+", text)}
    assert mentioned <= {name for name, _ in listed}


def test_log_events_are_those_of_the_server() -> None:
    """The table of log events has each event that is reported, and no other."""
    expected: set[str] = set()
    for package in ("server", "cluster", "replica"):
        for path in (ROOT / "webhook" / package).rglob("*.py"):
            source = path.read_text()
            expected.update(re.findall(r"""\blog(?:\.\w+)?\(\s*"(\w+)\"""", source))
            expected.update(re.findall(r"""_log\.\w+\(\s*"(\w+)\"""", source))
            expected.update(re.findall(r"""_persistently\(\s*"(\w+)\"""", source))
            for ending in re.findall(r"""_log\.\w+\(\s*f"\{verdict\.kind\}(\w+)\"""", source):
                expected.update(f"{kind}{ending}" for kind in get_args(DocumentKind))
    expected.add("library")  # whose level is the library's
    section = TEXTS["docs/reference.md"].partition("## Logs")[2].partition("\n## ")[0]
    first = re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE)
    assert {name for cell in first for name in re.findall(r"`(\w+)`", cell)} == expected


def test_statuses_are_those_of_the_server() -> None:
    """The table of statuses has each status that a server or the playground answers with, and no other."""
    paths = [*(ROOT / "webhook/server").glob("*.py"), ROOT / "webhook/cli/pages.py"]
    source = "".join(path.read_text() for path in paths)
    answered = {HTTPStatus[name].value for name in re.findall(r"HTTPStatus\.([A-Z_]+)", source)}
    listed = {int(code) for code in re.findall(r"^\| (\d{3}) \|", TEXTS["docs/reference.md"], re.MULTILINE)}
    assert listed == (answered | {HTTPStatus.OK}) - {HTTPStatus.PERMANENT_REDIRECT}


def test_settings_are_documented() -> None:
    """The table of settings has each key, and no other."""
    section = TEXTS["docs/behavior.md"].partition("## Settings")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(listed) == sorted(str(field.alias) for field in Settings.model_fields.values())


def test_every_key_of_mappings_is_documented() -> None:
    """The page of mappings explains each key of the schema."""
    keys = {
        str(field.alias)
        for model in (*vars(shim).values(), *vars(vendor).values())
        if isinstance(model, type) and issubclass(model, Strict)
        for field in model.model_fields.values()
    }
    explained = {key for span in spans_of(TEXTS["docs/mapping.md"]) for key in re.findall(r"\w+", span)}
    assert {"vendor", "translateTo", "medium"} <= keys
    assert keys | {"extends"} <= explained


def unit_text(vendor: str, key: Key) -> str:
    """What 1 of a key is worth, as the table of keys says it; devices are counted without a word."""
    if "devices" in key.dimensions:
        parts = {"drs-gcu": "a part of one device"}
        return parts.get(key.name) or ("a device whose size is to be configured" if vendor == "mig-single" else "")
    if key.unit is None:
        return "to be configured"
    return bytes_text(key.unit) if key.sized else f"{number_text(key.unit)} %"


def test_pages_in_both_languages_count_built_in_vendors() -> None:
    """The README names one number of them, which is theirs."""
    found = re.findall(r"\b(\d+)(?= are built in| 份内置)", TEXTS["README.md"] + TEXTS["README_cn.md"])
    assert found == [str(len(builtin()))] * 2


@pytest.mark.parametrize("name", sorted(builtin()))
def test_builtin_vendors_are_documented(name: str) -> None:
    """The table of `vendors` has each key of a built-in vendor with its unit, and its scheduler."""
    policy = load_policy()
    vendor = policy.vendors[name]
    assert f"**{name}**" in TEXTS["docs/vendors.md"]
    line = next(line for line in keys_table(policy, origin=False).splitlines() if re.match(rf"{name}\b(?!-)", line))
    rows = [*spelled_rows(vendor)]
    spelled, units = [key.removeprefix("or ") for key, _, _ in rows], [unit for *_, unit in rows]
    for key in vendor.keys.values():
        place = "" if key.place == "resource" else f"{key.place} "
        assert all(f"{place}{spelling.text}" in spelled for spelling in key.spellings)
        if key.kind == "amount":
            unit = units[spelled.index(f"{place}{key.spellings[0].text}")]
            together = re.search(", together(?! in)", unit) is not None
            total = bool(key.total) and "devices" not in key.dimensions
            assert (re.split("[,;]", unit, maxsplit=1)[0], together) == (unit_text(name, key), total), key.name
    assert line.endswith(f", scheduler {vendor.place.scheduler or 'any'}")


def test_paths_and_targets_exist() -> None:
    """Every path of the project and every target of make that the pages name exists."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for page in WRITTEN:
        calls = re.findall(r"^(?:\$ )?(make .+)$", "".join(code_of(page)), re.MULTILINE)
        for span in [*spans_of(TEXTS[page]), *calls]:
            if re.fullmatch(r"(webhook|certs|docs|examples|tests|deploy)/[\w./-]*", span):
                assert (ROOT / span).exists(), f"{page}: {span}"
            if span.startswith("make "):
                assert span.split()[1] in targets, f"{page}: {span}"


def test_steps_of_a_decision_are_documented() -> None:
    """The architecture names each module of the decision, but for those that hold and order the steps; in few words."""
    modules = {path.stem for path in (ROOT / "webhook" / "admission").glob("*.py")}
    text = TEXTS["docs/architecture.md"]
    steps = text.partition("The steps, in ")[2].partition("\n\n")[0]
    assert modules - {"__init__", "decision", "engine"} <= set(re.findall(r"`(\w+)`", steps))
    assert len(text.split()) <= 1500


def test_packages_say_what_belongs_there() -> None:
    """Each package's docstring is three lines or fewer, blank ones aside, and is not empty."""
    for top in ("webhook", "certs"):
        for path in (ROOT / top).rglob("__init__.py"):
            docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
            assert 1 <= len([line for line in docstring.partition("\n\n")[0].splitlines() if line]) <= 3, path


def test_checks_of_the_doctor_are_documented() -> None:
    """The table of checks has each check with its question, in order, and no other; no page shows a result of another."""
    section = TEXTS["docs/reference.md"].partition("## Checks")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", section, re.MULTILINE)
    questions = [str(check.answer.__doc__).partition("\n")[0].rstrip("?") for check in CHECKS]
    assert listed == [
        (check.name, f"{text[0].lower()}{text[1:]}") for check, text in zip(CHECKS, questions, strict=True)
    ]
    shown = re.findall(r"^[✓‼] ([a-z-]+): ", "\n".join(TEXTS.values()), re.MULTILINE)
    assert set(shown) <= {check.name for check in CHECKS}
    assert shown


def test_permissions_are_those_that_are_used() -> None:
    """The table of permissions names each kind of object that a replica requests."""
    paths = [path for package in ("cluster", "replica") for path in (ROOT / "webhook" / package).rglob("*.py")]
    source = "".join(path.read_text() for path in paths)
    used = set(re.findall(r"/(namespaces|configmaps|secrets|events|clusterroles|pods)\b", source)) | {claims.RESOURCE}
    used |= {kind.plural for kind in KINDS}
    section = TEXTS["docs/reference.md"].partition("## Permissions")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| [^|]+ \| `([a-z]+)", section, re.MULTILINE)) == used
