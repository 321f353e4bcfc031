"""What nobody would see in a text is replaced, wherever a text leaves."""

import datetime as dt
import io
import json
import unicodedata

import pytest

from tests.decided import decided
from webhook.admission import Context, Namespace
from webhook.cli.terminal import wrapped
from webhook.cluster.events import Subject, event_of
from webhook.reasons import Finding, Reason
from webhook.review import encode_answer
from webhook.server.logs import make_logger
from webhook.text import shown

HIDDEN = (
    *"\x00\x07\n\x1b\x7f\x85\x9f\u061c\u200b\u200d\u200e\u200f\u2028\u2029\u2060\ufeff\u00ad\u3164\U000e0041",
    *map(chr, range(0x202A, 0x202F)),
    *map(chr, range(0x2066, 0x206A)),
)
OPTED_IN = Context(Namespace("team", {"vgpu-webhook.io/inject": "enabled"}))


@pytest.mark.parametrize("sign", HIDDEN, ids=ascii)
def test_hidden_characters_are_replaced(sign: str) -> None:
    """Each by a character that is seen."""
    assert shown(f"a{sign}b") == "a�b"


def test_every_control_and_format_character_is_replaced() -> None:
    """What Unicode calls control, separator of lines, or mark of direction."""
    for point in range(0x110000):
        sign = chr(point)
        directed = unicodedata.bidirectional(sign) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
        if directed or unicodedata.category(sign) in {"Cc", "Zl", "Zp", "Cs"}:
            assert shown(sign) == "�", hex(point)


def test_texts_that_are_seen_stay() -> None:
    """Of any language."""
    text = "container häß 世界 שלום мир 😀: nvidia.com/gpu=\u00a01 …"
    assert shown(text) == text


@pytest.mark.parametrize("sign", ["\u202e", "\u2028", "\x85", "\u061c"], ids=ascii)
@pytest.mark.parametrize("mode", ["enforce", "warn", "audit"])
def test_no_answer_contains_them(sign: str, mode: str) -> None:
    """Denials, warnings, audit annotations: all that a review is answered with, except the pod's own keys in the patch."""
    name = f"ma{sign}in"
    context = Context(Namespace("team", {"vgpu-webhook.io/inject": "enabled", "vgpu-webhook.io/mode": mode}))
    for limits in ({"nvidia.com/gpumemm": "1"}, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}):
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": name, "resources": {"limits": limits}}]}}
        answer = encode_answer("u", decided(pod, context=context))
        assert sign not in answer.decode()
        response = json.loads(answer)["response"]
        assert sign not in json.dumps(response, ensure_ascii=False)
        assert "�" in json.dumps(response, ensure_ascii=False)


def test_nor_does_a_log_line_an_event_or_a_terminal() -> None:
    """Names are logged as they are sent, and documents are quoted."""
    text = "a\u202eb\u2028c"
    file = io.BytesIO()
    make_logger("info", file).info("review", pod=text)
    assert json.loads(file.getvalue())["pod"] == "a�b�c"
    subject = Subject("v1", "ConfigMap", "team", "name", "uid", "")
    assert event_of(subject, "Warning", "Reason", text, dt.datetime.now(dt.UTC))["message"] == "a�b�c"
    assert wrapped(text, 0) == ["a�b�c"]
    assert Finding(Reason.TOO_MANY, text, "m\u2066n").sentence == "container m�n: a�b�c"
