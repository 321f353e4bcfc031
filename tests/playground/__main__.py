"""``python -m tests.playground`` takes the screenshots of docs/cli.md anew, in both color schemes."""

import sys

from playwright.sync_api import ViewportSize, expect

from .browser import ROOT, chromium, served, started

FOLDER = ROOT / "docs" / "images"
SCHEMES = ("light", "dark")
SIZE = ViewportSize(width=1200, height=760)
EXAMPLE = "vcuda to nvidia"


def main() -> None:
    """Write them; end with what to install where there is no browser."""
    program = chromium()
    if program is None:
        sys.exit("error: Chromium is not installed: run tests/node/install.sh")
    FOLDER.mkdir(exist_ok=True)
    with served("playground", "--port", "0") as url, started(program) as browser:
        for scheme in SCHEMES:
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]  # one of two
            page.goto(url)
            page.get_by_label("Example").select_option(label=EXAMPLE)
            expect(page.get_by_role("article")).to_contain_text("pod/vcuda-to-nvidia")
            page.screenshot(path=FOLDER / f"playground-{scheme}.png")
            page.close()


if __name__ == "__main__":
    main()
