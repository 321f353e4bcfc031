"""``vgpu-webhook registration``."""

import base64
from pathlib import Path
from typing import Any

import yaml

from tests.cli.conftest import Run
from tests.cluster.gpu_pods import DOCUMENTS
from webhook.cluster.registration.wanted import KINDS, ServiceReference, Site, registration, wanted_by
from webhook.mapping.load import load_policy

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def configurations(run: Run, *arguments: str) -> list[dict[str, Any]]:
    """What it prints."""
    return list(yaml.safe_load_all(run("registration", *arguments).stdout))


def test_it_is_what_the_webhook_would_write(run: Run, tmp_path: Path) -> None:
    """The output is what the webhook writes, without the annotation that only the webhook maintains."""
    authority = tmp_path / "ca.crt"
    authority.write_text(PEM)
    result = run("registration", "--service", "gpu/webhook", "--ca-file", str(authority))
    assert result.exit_code == 0
    site = Site(ServiceReference("gpu", "webhook"), PEM.encode(), "gpu")
    expected = [registration(wanted_by(load_policy(), kind), site) for kind in KINDS]
    assert list(yaml.safe_load_all(result.stdout)) == expected
    for configuration in expected:
        assert base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"]) == PEM.encode()


def test_addresses_of_both(run: Run) -> None:
    """They differ in the last part of the path."""
    for arguments, given in (
        (("--service", "gpu/webhook"), ""),
        (("--url", "https://gpu.example/mutate"), "https://gpu.example"),
        (("--url", "https://gpu.example/at/mutate"), "https://gpu.example/at"),
    ):
        for document, path in zip(configurations(run, *arguments), ("/mutate", "/validate"), strict=True):
            config = document["webhooks"][0]["clientConfig"]
            if "url" in config:
                assert config == {"url": f"{given}{path}"}
            else:
                assert config == {"service": {"namespace": "gpu", "name": "webhook", "port": 443, "path": path}}


def test_validation_switched_off(run: Run, tmp_path: Path) -> None:
    """A configuration without webhooks, so that one of before is replaced by it."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("validation: []\n")
    mutating, validating = configurations(run, "--service", "gpu/webhook", "--settings", str(settings))
    assert len(mutating["webhooks"]) == 2
    assert validating["webhooks"] == []


def test_the_same_policy_gives_the_same_bytes(run: Run) -> None:
    """So that nothing shows in a diff where nothing changed."""
    arguments = ("registration", "--url", "https://gpu.example/mutate", "--mappings", str(DOCUMENTS))
    printed = run(*arguments).stdout
    assert printed == run(*arguments).stdout
    assert "\n          'volcano.sh'\n" in printed


def test_the_own_namespace(run: Run) -> None:
    """The Service's, unless another is specified; with a URL it is unknown."""
    printed = {
        ("--service", "gpu/webhook"): ["gpu"],
        ("--service", "gpu/webhook", "--release-namespace", "other"): ["other"],
        ("--url", "https://gpu.example/mutate", "--release-namespace", "other"): ["other"],
        ("--url", "https://gpu.example/mutate"): [],
    }
    for arguments, own in printed.items():
        webhook = configurations(run, *arguments)[0]["webhooks"][0]
        names = webhook["namespaceSelector"]["matchExpressions"][1]["values"]
        assert sorted({*own, "kube-node-lease", "kube-system"}) == names
