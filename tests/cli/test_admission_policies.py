"""``vgpu-webhook admission-policies``."""

from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Run
from webhook import __version__
from webhook.admission_policies import guard_objects, hide_objects
from webhook.mapping.load import load_policy

SETTINGS = "target: nvidia\nbareDevices: whole\n"


def test_it_prints_what_is_asked_for(run: Run, tmp_path: Path) -> None:
    """A guard, hidden devices, or both, of the chart's values as of settings."""
    settings, values = tmp_path / "settings.yaml", tmp_path / "values.yaml"
    settings.write_text(SETTINGS)
    values.write_text("settings: {target: hami, bareDevices: whole}\nshim: {mode: plugin}\n")
    policy = load_policy(settings=settings)
    guard, hide = guard_objects(policy, __version__, "Audit"), hide_objects(policy, __version__)
    for options, expected in (
        (("--guard", "Audit"), guard),
        (("--hide",), hide),
        (("--guard", "Audit", "--hide"), guard + hide),
    ):
        result = run("admission-policies", *options, "--settings", str(settings))
        assert list(yaml.safe_load_all(result.stdout)) == expected
    of_chart = list(yaml.safe_load_all(run("admission-policies", "--hide", "--values", str(values)).stdout))
    assert [each["spec"] for each in of_chart] == [each["spec"] for each in hide]


@pytest.mark.parametrize(
    "options, message",
    [
        ((), "--guard Deny, Warn or Audit, --hide, or both"),
        (
            ("--guard", "Deny", "--hide"),
            "error: --hide: no policy can be made for built-in mappings and default settings: set `target`",
        ),
        (("--guard", "deny!"), "'deny!' is not one of"),
    ],
)
def test_what_cannot_be_printed(run: Run, options: tuple[str, ...], message: str) -> None:
    """Nothing is printed, and the message says what to write."""
    result = run("admission-policies", *options)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""


def test_a_target_for_which_nothing_is_known(run: Run, tmp_path: Path) -> None:
    """No variable hides devices of this hardware."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("target: intel\n")
    result = run("admission-policies", "--hide", "--settings", str(settings))
    assert (result.exit_code, "its mapping has nothing for it" in result.stderr) == (1, True)
