"""A pod of `examples/` → the picture of README.md: what it requests as written and as stored, light and dark."""

import json
import subprocess
import sys
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import yaml

from deploy.generate import DEPLOY
from webhook.labels import STATUS
from webhook.mapping.load import builtin

PICTURES: Final = DEPLOY.parent / "docs" / "images"
_ROOT: Final = DEPLOY.parent
_POD: Final = "examples/pods/10-vcuda-to-nvidia.yaml"
_VALUES: Final = "examples/values/hami.yaml"
_WIDTH, _BOX, _LINE, _TOP = 840, 325, 22, 64


@dataclass(frozen=True)
class _Colors:
    text: str
    quiet: str
    box: str
    border: str
    old: str
    new: str


_SCHEMES: Final = {
    "light": _Colors("#1f2328", "#59636e", "#f6f8fa", "#d1d9e0", "#b3261e", "#116329"),
    "dark": _Colors("#f0f6fc", "#9198a1", "#151b23", "#3d444d", "#ff9492", "#7ee787"),
}


def pictures() -> dict[str, str]:
    """Return the picture for each color scheme, by the name of its file."""
    written = yaml.safe_load((_ROOT / _POD).read_text())
    command = [sys.executable, "-m", "webhook", "mutate", "-f", _POD, "--values", _VALUES, "-o", "json"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, check=True)  # noqa: S603
    stored = json.loads(done.stdout)
    [read] = json.loads(stored["metadata"]["annotations"][STATUS])["containers"].values()
    source, target = (builtin()[read[each]].data["sources"][0]["system"] for each in ("vendor", "target"))
    request = (
        f"{read['request']['devices']} device",
        f"{read['request']['memory'].removesuffix('Mi')} MiB",
        f"{read['request']['cores']} of its cores",
    )
    sides = (f"Written for {source}", _lines(written)), (f"Stored for {target}", _lines(stored))
    return {f"share-{scheme}.svg": _svg(colors, sides, request) for scheme, colors in _SCHEMES.items()}


def _lines(pod: dict[str, Any]) -> list[str]:
    """The YAML that says what the pod requests, and of whom."""
    spec = pod["spec"]
    [container] = spec["containers"]
    limits = {name: int(amount) for name, amount in container["resources"]["limits"].items()}
    shown = {key: spec[key] for key in ("schedulerName",) if key in spec} | {"resources": {"limits": limits}}
    return yaml.safe_dump(shown, sort_keys=False).splitlines()


def _svg(colors: _Colors, sides: tuple[tuple[str, list[str]], ...], request: tuple[str, ...]) -> str:
    height = _TOP + _LINE * max(len(lines) for _, lines in sides) + 12
    parts = []
    for index, (title, lines) in enumerate(sides):
        left = index * (_WIDTH - _BOX)
        parts += [
            f'<text class="t" x="{left}" y="18">{escape(title)}</text>',
            f'<rect x="{left + 0.5}" y="32.5" width="{_BOX - 1}" height="{height - 33}" rx="6"/>',
        ]
        others = sides[1 - index][1]
        for number, line in enumerate(lines):
            kind = "s" if line in others else "on"[index]
            indent = len(line) - len(line.lstrip())
            place = f'x="{left + 14 + 8 * indent}" y="{_TOP + _LINE * number}"'
            parts.append(f'<text class="{kind}" {place}>{escape(line.lstrip())}</text>')
    middle = _WIDTH // 2
    start, end, at = _BOX + 12, _WIDTH - _BOX - 12, height // 2 + 4
    parts += [
        f'<text class="t m" x="{middle}" y="{at - 14}">vgpu-webhook</text>',
        f'<path d="M{start} {at}H{end}m-8 -6 8 6-8 6"/>',
        *(
            f'<text class="q m" x="{middle}" y="{at + 22 + 18 * number}">{escape(each)}</text>'
            for number, each in enumerate(request)
        ),
    ]
    body = "\n".join(parts)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">
<style>
text {{ font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: {colors.text} }}
.t {{ font: 600 14px system-ui, sans-serif }}
.q {{ font: 13px system-ui, sans-serif; fill: {colors.quiet} }}
.m {{ text-anchor: middle }}
.s {{ fill: {colors.quiet} }}
.o {{ fill: {colors.old} }}
.n {{ fill: {colors.new} }}
rect {{ fill: {colors.box}; stroke: {colors.border} }}
path {{ fill: none; stroke: {colors.quiet}; stroke-width: 1.5 }}
</style>
{body}
</svg>
"""
