"""The files of `deploy/` that are made from others are up to date; and what they say of each other is true."""

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

import click
import jsonschema
import pytest
import yaml

import webhook
from deploy.generate import CHART
from deploy.generate.examples import EXAMPLES, examples
from deploy.generate.picture import PICTURES, pictures
from deploy.generate.schema import values_schema
from deploy.generate.table import DEFAULTS, defaults, readme, values
from webhook.cli import main
from webhook.cli.policy_source import mistakes
from webhook.mapping.load import builtin

from .charts import ROOT, VALUES

SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def test_schema_and_readme_are_up_to_date() -> None:
    """`make docs` would change nothing."""
    assert (CHART / "values.schema.json").read_text() == values_schema(), "run make docs"
    assert (CHART / "README.md").read_text() == readme(), "run make docs"
    assert DEFAULTS.read_text() == defaults(), "run make docs"
    assert EXAMPLES.read_text() == examples(), "run make docs"


def test_pictures_are_up_to_date() -> None:
    """They show what the webhook does, one per color scheme, and load nothing."""
    found = pictures()
    assert found == {path.name: path.read_text() for path in PICTURES.glob("*.svg")}, "run make docs"
    readme = (ROOT / "README.md").read_text()
    for name, text in found.items():
        assert f"docs/images/{name}" in readme
        assert all(f">{line}<" in text for line in ("tencent.com/vcuda-memory: 16", "nvidia.com/gpumem: 4096"))
        assert not re.search(r"href|url\(|@import|<script", text)


def test_defaults_and_value_sets_satisfy_the_schema() -> None:
    """Each by itself: Helm looks at both together."""
    validator = jsonschema.Draft7Validator(SCHEMA)
    validator.check_schema(SCHEMA)
    for given in (yaml.safe_load((CHART / "values.yaml").read_text()), *VALUES.values()):
        validator.validate(given)


ODD: tuple[Any, ...] = (0, -1, 1.5, 10**9, "", "x", "5", True, [], [0], ["x"], [{}], {}, {"x": 1})
"""Values of every type, legal in some places."""


def test_the_command_rejects_what_helm_rejects() -> None:
    """`check` knows every keyword of the schema, for each value of the chart; settings and mappings have models."""
    given = yaml.safe_load((CHART / "values.yaml").read_text())
    validator, judged = jsonschema.Draft7Validator(SCHEMA), set()

    def judge(changed: dict[str, Any]) -> None:
        rejected = [*validator.iter_errors(changed)]
        assert bool([*mistakes(changed, given)]) == bool(rejected), changed
        judged.add(bool(rejected))

    def compare(path: tuple[str, ...], below: Mapping[str, Any]) -> None:
        for key, inner in below.items():
            where = (*path, key)
            if where[0] in {"settings", "mappings"}:
                continue
            for odd in ODD:
                judge(functools.reduce(lambda value, name: {name: value}, reversed(where), odd))
            if isinstance(inner, dict):
                compare(where, inner)

    compare((), given)
    for secret in ({}, *({"secretName": odd} for odd in ODD)):
        judge({"certificates": {"mode": "secret", **secret}})
    assert judged == {True, False}


def test_every_value_is_in_the_schema() -> None:
    """The schema has each value of values.yaml, and no other."""

    def leaves(node: dict[str, object], path: str = "") -> set[str]:
        found: set[str] = set()
        for key, value in node.items():
            assert isinstance(value, dict)
            inner = value.get("properties") if path + key not in named else None
            found |= leaves(inner, f"{path}{key}.") if isinstance(inner, dict) else {path + key}
        return found

    named = {value.name for value in values()}
    assert leaves(SCHEMA["properties"]) == named | {"global"}


def test_mappings_are_checked_by_the_code_s_own_schema() -> None:
    """The built-in mappings, whole, and their changes are values; what the webhook would reject is none."""
    validator = jsonschema.Draft7Validator(SCHEMA)
    for built_in in builtin().values():
        document = built_in.data
        validator.validate({"mappings": {document["vendor"]: document}})
        changes = {key: document[key] for key in ("place", "shim") if key in document}
        validator.validate({"mappings": {document["vendor"]: changes}})
        validator.validate({"mappings": {"other": {"extends": document["vendor"], **changes}}})
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({"mappings": {document["vendor"]: {**document, "kesy": {}}}})


def test_chart_has_the_version_of_the_program() -> None:
    """The image of that tag is what the chart was made for."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == webhook.__version__


def test_metrics_of_rules_and_dashboard_exist() -> None:
    """Every metric that an alert or a panel requests is in the webhook's table, or one of the API server's counts."""
    text = (ROOT / "docs/reference.md").read_text()
    known = set(re.findall(r"^\| `(vgpu_webhook_\w+)` \|", text, re.MULTILINE))
    panels = json.loads((CHART / "files/dashboard.json").read_text())
    rules = (CHART / "templates/monitoring/prometheusrule.yaml").read_text()
    metrics = set(re.findall(r"\b(?:vgpu_webhook|apiserver)_\w+", json.dumps(panels) + rules))
    histograms = {f"{name}_bucket" for name in known if name.endswith(("_seconds", "_bytes"))}
    counts = {f"apiserver_admission_webhook_{what}_count" for what in ("rejection", "fail_open")}
    assert metrics <= known | histograms | counts | {"apiserver_internal_error"}
    assert len({panel["id"] for panel in panels["panels"]}) == len(panels["panels"])


def test_options_in_the_chart_are_the_program_s() -> None:
    """Every option that the Deployment may give is one of `serve`."""
    given = set(re.findall(r"- (--[a-z-]+)", (CHART / "templates/deployment.yaml").read_text()))
    serve = main.get_command(click.Context(main), "serve")
    assert serve is not None
    known = {option for parameter in serve.params for option in parameter.opts}
    assert {"--service", "--registration"} <= given
    assert given <= known
