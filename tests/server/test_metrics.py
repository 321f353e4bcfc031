"""What is counted, in Prometheus' format."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.harness import AUTHORITY, LEAF, Server, call, get, pod, request, review, serving
from webhook.reasons import Reason
from webhook.server.limits import Phase
from webhook.server.metrics import MAX_NAMESPACES, OTHERS, Metrics

CLIENTS = """
import os, ssl, webhook.server
from aiohttp import connector
contexts = [context for _, context in sorted(vars(connector).items()) if isinstance(context, ssl.SSLContext)]
clients = [(each.verify_mode.name, each.check_hostname, each.cert_store_stats()["x509_ca"]) for each in contexts]
print((clients, os.environ.get("SSL_CERT_FILE")))
"""

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def samples(server: Server) -> Samples:
    """Give what Prometheus would read."""
    answer = await get(server, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.body.decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def reviews(outcome: str, reason: Reason, vendor: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Give the key of a counter of reviews."""
    return "vgpu_webhook_reviews_total", (("outcome", outcome), ("reason", reason.slug), ("vendor", vendor))


async def test_reviews_are_counted_by_outcome_reason_and_vendor() -> None:
    """Each review is counted once, with its time, its size and each of its notes; a bug and a refusal elsewhere."""
    body = review()
    async with serving() as server:
        for data in (
            request(body),
            request(body),
            request(review(obj=pod("deny"))),
            request(review(obj=pod("leave"))),
            request(review(operation="UPDATE")),
            request(review(obj=pod("bug"))),
            request(b"{"),
        ):
            await call(server, data)
        found = await samples(server)
    assert found[reviews("patched", Reason.CHANGED, "acme")] == 2
    assert found[reviews("denied", Reason.PRIVILEGED, "acme")] == 1
    assert found[reviews("untouched", Reason.NO_GPU_KEYS, "none")] == 1
    assert found[reviews("untouched", Reason.NOT_A_POD_CREATION, "none")] == 1
    assert found[reviews("failed", Reason.INTERNAL_ERROR, "none")] == 1
    of_team = (("outcome", "patched"), ("pod_namespace", "team"), ("reason", "changed"))
    assert found["vgpu_webhook_namespace_reviews_total", of_team] == 2
    assert sum(number for (name, _), number in found.items() if name == "vgpu_webhook_namespace_reviews_total") == 3
    assert found["vgpu_webhook_notes_total", (("reason", "image_path_assumed"),)] == 2
    assert found["vgpu_webhook_bugs_total", ()] == 1
    assert found["vgpu_webhook_http_errors_total", (("status", "400"),)] == 1
    assert found["vgpu_webhook_review_seconds_count", ()] == 6
    assert found["vgpu_webhook_body_bytes_count", ()] == 6
    assert found["vgpu_webhook_body_bytes_sum", ()] > 5 * len(body)
    assert found["vgpu_webhook_in_flight", ()] == 0


def test_namespaces_are_bounded() -> None:
    """Whoever makes namespaces without end does not fill the memory: all beyond a number are counted together."""
    metrics = Metrics()
    for number in range(MAX_NAMESPACES + 3):
        metrics.in_namespace((f"n{number}", "untouched", "would_change"))
    metrics.in_namespace(("n0", "untouched", "would_change"))
    text = metrics.text().decode()
    assert text.count("vgpu_webhook_namespace_reviews_total{") == MAX_NAMESPACES + 1
    assert f'pod_namespace="{OTHERS}",reason="would_change"}} 3.0' in text
    assert 'pod_namespace="n0",reason="would_change"} 2.0' in text


async def test_certificates_end_is_reported() -> None:
    """An alert can be set on the end of what is served."""
    async with serving() as server:
        found = await samples(server)
    not_after = found["vgpu_webhook_certificate_not_after_seconds", (("kind", "serving"),)]
    assert not_after == pytest.approx(LEAF.not_after.timestamp())


async def test_readiness_is_counted_as_it_is_answered() -> None:
    """The gauge says what `/readyz` says, for alerts on replicas that run and refuse."""
    async with serving() as server:
        assert (await get(server, "/readyz")).status == 200
        assert (await samples(server))["vgpu_webhook_ready", ()] == 1
        server.service.lifecycle.phase = Phase.DRAINING
        assert (await get(server, "/readyz")).status == 503
        assert (await samples(server))["vgpu_webhook_ready", ()] == 0


def test_no_authority_of_the_machine_is_held(tmp_path: Path) -> None:
    """Aiohttp loads none where it is imported, others may later; a client that names none is not let down to trust anybody."""
    file = tmp_path / "ca.crt"
    file.write_bytes(AUTHORITY.certificate_pem)
    for environment in ({"SSL_CERT_FILE": str(file)}, {}):
        printed = subprocess.check_output([sys.executable, "-c", CLIENTS], text=True, env=environment)
        clients, named = ast.literal_eval(printed)
        assert clients == [("CERT_NONE", False, 0), ("CERT_REQUIRED", True, 0)]
        assert named == environment.get("SSL_CERT_FILE")
