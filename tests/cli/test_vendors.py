"""The mappings in force, as a table, one by one, and their schema, sources and guards."""

import contextlib
import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Run
from tests.mapping.vendors import vendor as vendor_of
from webhook.cli.options import PolicyOptions
from webhook.cli.policy_source import sourced_policy
from webhook.cli.terminal import aligned
from webhook.mapping.load import load_policy
from webhook.reasons import Reason, explanation_of


def test_table(run: Run, golden: Callable[[str, str], None]) -> None:
    """Vendor, family, keys and units, default target, scheduler."""
    result = run("vendors")
    assert (result.exit_code, result.stderr) == (0, "")
    golden("vendors.txt", rows_of(result.stdout, "aliyun", "cambricon", "gpushare", "koordinator", "neutral", "nvidia"))


def test_table_under_settings(run: Run, golden: Callable[[str, str], None], tmp_path: Path) -> None:
    """Mappings and settings of one's own show: targets, who is inactive, other names."""
    (tmp_path / "mappings").mkdir()
    (tmp_path / "mappings" / "acme.yaml").write_text(
        "vendor: acme\nextends: nvidia\nkeys:\n  gpu: {resource: acme.example/vgpu}\n"
        "  gpumem: {resource: acme.example/vgpu-memory}\n"
        "  gpumem-percentage: null\n  gpucores: null\n  priority: null\n"
    )
    (tmp_path / "settings.yaml").write_text("target: nvidia\nowners: {aliyun.com/gpu-mem: gpushare}\n")
    result = run("vendors", "--mappings", str(tmp_path / "mappings"), "--settings", str(tmp_path / "settings.yaml"))
    assert (result.exit_code, result.stderr) == (0, "")
    golden("vendors-configured.txt", rows_of(result.stdout, "acme", "aliyun", "gpushare", "kai", "iluvatar", "nvidia"))


def test_names_of_several_vendors(run: Run, tmp_path: Path) -> None:
    """Below the table: who owns each, who is inactive, and how that is changed; no line is longer than a terminal."""
    _, names, how = run("vendors").stdout.split("\n\n")
    assert [re.split(" {2,}", row) for row in names.splitlines()] == [
        ["NAME OF SEVERAL VENDORS", "ACTIVE", "INACTIVE"],
        ["aliyun.com/gpu-mem", "aliyun", "gpushare"],
        ["nvidia.com/gpu", "nvidia", "mig-single, whole"],
        ["nvidia.com/gpu.shared", "timeslicing", "mps"],
    ]
    assert "owners: {aliyun.com/gpu-mem: gpushare}" in how
    assert max(map(len, [*names.splitlines(), *how.splitlines()])) <= 80
    (tmp_path / "settings.yaml").write_text("owners: {nvidia.com/gpu: whole}\n")
    _, names, _ = run("vendors", "--settings", str(tmp_path / "settings.yaml")).stdout.split("\n\n")
    assert ["nvidia.com/gpu", "whole", "mig-single, nvidia"] in [re.split(" {2,}", row) for row in names.splitlines()]


def test_a_name_without_an_owner(run: Run, tmp_path: Path) -> None:
    """Where all who use it are inactive."""
    (tmp_path / "timeslicing.yaml").write_text("extends: timeslicing\ninactive: true\n")
    assert re.search(
        "^nvidia.com/gpu.shared +none +mps, timeslicing$",
        run("vendors", "--mappings", str(tmp_path)).stdout,
        re.MULTILINE,
    )


def test_no_names_of_several_vendors(run: Run, tmp_path: Path) -> None:
    """Nothing is reported where every name has one vendor."""
    for vendor, key in {"gpushare": "gpu-mem", "mig-single": "slices", "mps": "gpu", "whole": "gpu"}.items():
        other = {"extends": vendor, "keys": {key: {"resource": f"own.example/{vendor}"}}}
        (tmp_path / f"{vendor}.yaml").write_text(json.dumps(other))
    result = run("vendors", "--mappings", str(tmp_path))
    assert (result.exit_code, "\n\n" in result.stdout) == (0, False)


def test_what_is_to_be_set(run: Run) -> None:
    """Slices whose profile the cluster has to say are no devices."""
    assert re.search(
        "^mig-single .*\n.* devices +a device whose size is to be configured\n", run("vendors").stdout, re.MULTILINE
    )


def rows_of(table: str, *vendors: str) -> str:
    """The lines of some vendors."""
    lines, here = [], False
    for row in table.partition("\n\n")[0].splitlines():
        here = row.split()[0].rstrip(":") in vendors if not row.startswith(" ") else here
        if here:
            lines.append(f"{row}\n")
    return "".join(lines)


def test_a_document_is_a_start_for_ones_own(run: Run, tmp_path: Path) -> None:
    """What is printed is a mapping document again, and means the same: of every vendor."""
    known = sourced_policy(PolicyOptions()).policy.vendors
    for name, vendor in known.items():
        result = run("vendors", name)
        assert result.exit_code == 0
        assert result.stdout.startswith(f"# {vendor.source}\n")
        (tmp_path / f"{name}.yaml").write_text(result.stdout)
    assert {name: repr(each) for name, each in load_policy(tmp_path).vendors.items()} == {
        name: repr(each) for name, each in known.items()
    }


def test_configuration_that_is_no_text(run: Run, tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are an error at their line of their file, not a crash."""
    (bad := tmp_path / "bad.yaml").write_bytes(b"target: nvidia\n\xff")
    for options in (["--mappings", str(tmp_path)], ["--settings", str(bad)]):
        result = run("vendors", *options)
        assert (result.exit_code, result.stderr) == (1, f"error: {bad}:2: not UTF-8 text\n")


def test_an_extending_document_is_printed_whole(run: Run, tmp_path: Path) -> None:
    """With what it does not change, so that it can be taken for a whole one."""
    (tmp_path / "nvidia.yaml").write_text(
        "extends: nvidia\nabout: |\n  two\n  lines\nkeys: {gpucores: null}\ndefaults: {memory: 8000Mi}\nguard: []\n"
    )
    text = run("vendors", "nvidia", "--mappings", str(tmp_path)).stdout
    assert repr(vendor_of(text)) == repr(load_policy(tmp_path).vendors["nvidia"])


def test_a_table_fits_a_narrow_terminal() -> None:
    """No line is longer than it, and nothing is lost."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 50, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen([sys.executable, "-m", "webhook", "codes"], stdout=theirs, env=environment) as program:
        os.close(theirs)
        seen = b""
        # Reading fails when nobody has the terminal open any more.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65536):
                seen += part
    os.close(ours)
    assert program.returncode == 0
    table = seen.decode().replace("\r", "").splitlines()
    assert max(map(len, table)) <= 50
    assert {word for reason in Reason for word in explanation_of(reason).title.split()} <= set(" ".join(table).split())


def test_narrow_columns() -> None:
    """The widest cells are wrapped, and each line of a cell is below the one before."""
    rows = [("NAME", "TEXT"), ("a", "one two three four")]
    assert aligned(rows, 16) == ["NAME  TEXT\n", "a     one two\n      three four\n"]
    assert aligned(rows, 14) == ["NAME  TEXT\n", "a     one two\n      three\n      four\n"]
    assert aligned(rows, 80) == ["NAME  TEXT\n", "a     one two three four\n"]
    assert aligned([("KEY", "UNIT"), ("aliyun.com/gpu-mem", "one two")], 24) == [
        "KEY                 UNIT\n",
        "aliyun.com/gpu-mem  one\n                    two\n",
    ]


def test_json_of_documents(run: Run) -> None:
    """Whole documents, of all vendors or of one."""
    (one,) = json.loads(run("vendors", "nvidia", "-o", "json").stdout)
    assert (one["vendor"], one["document"]["vendor"]) == ("nvidia", "nvidia")
    assert one in json.loads(run("vendors", "-o", "json").stdout)


POLICY = load_policy()


def test_each_mapping_names_its_sources(run: Run) -> None:
    """Each document that describes another system names the source that it was checked against, and shows it."""
    assert {name for name, vendor in POLICY.vendors.items() if not vendor.sources} == {"neutral"}
    source, *_ = POLICY.vendors["volcano"].sources
    assert source.version is not None
    assert source.version in run("vendors", "volcano").stdout


def test_each_mapping_says_what_is_guarded() -> None:
    """Or why nothing is; and of each entry what reads it."""
    for name, vendor in POLICY.vendors.items():
        assert vendor.guarded or vendor.unguarded, name
        assert all(guard.named or guard.read_by for guard in vendor.guarded), name
