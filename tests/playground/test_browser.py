"""The page in a real browser: typing, mistakes, links, both color schemes, a narrow window, the keyboard alone, axe-core."""

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.parts import skip_part

from .browser import chromium, served, started

pytestmark = pytest.mark.browser

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: typed}}
spec:
  containers:
  - name: train
    resources:
      limits:
        {key}: {number}
"""
AXE = (resources.files("axe_playwright_python") / "axe.min.js").read_text()
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
PATIENCE = 60_000
"""Milliseconds until what is waited for has to be there."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser, once."""
    program = chromium()
    if program is None:
        skip_part("browser", "Chromium is not installed: see tests/node/install.sh")
    expect.set_options(timeout=PATIENCE)
    with started(program) as browser:
        yield browser


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The page of the command."""
    with served("playground", "--port", "0") as url:
        yield url


@pytest.fixture
def trouble() -> list[str]:
    """What the console of the page shows; a test that expects something clears it."""
    return []


@pytest.fixture
def page(browser: Browser, url: str, trouble: list[str]) -> Iterator[Page]:
    """The page, as it is opened first; at the end the console must be empty."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], base_url=url)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    opened(page, url)
    yield page
    context.close()
    assert trouble == []


def opened(page: Page, url: str) -> None:
    """Open the page, and wait for the first result."""
    page.goto(url)
    expect(page.get_by_role("article").first).to_be_visible()


def text_of(page: Page, tab: str) -> Locator:
    """The text of a tab."""
    return page.get_by_role("textbox", name=tab)


def violations(page: Page) -> list[str]:
    """What axe-core finds: every rule that it has, with the elements."""
    page.evaluate(f"{AXE}; undefined")
    found: dict[str, Any] = page.evaluate("axe.run(document)")
    return [f"{each['id']}: {[node['html'][:120] for node in each['nodes']]}" for each in found["violations"]]


def test_typing(page: Page) -> None:
    """A result is shown and announced while one types: changed, then denied with what to write, then changed."""
    status, manifest = page.get_by_role("status").first, text_of(page, "Manifest")
    expect(status).to_have_text("pod/vcuda-to-nvidia: changed, 1 warning")
    manifest.fill(POD.format(key="nvidia.com/gpumem", number=3000))
    expect(status).to_contain_text("pod/typed: changed")
    expect(page.locator(".diff .added").filter(has_text="schedulerName: hami-scheduler")).to_be_visible()
    expect(page.locator(".rows").first).to_contain_text("3000 MiB")
    expect(page.get_by_label("Example")).to_have_value("")
    manifest.fill(POD.format(key="nvidia.com/gpumemory", number=3000))
    expect(status).to_have_text("pod/typed: denied")
    denial = page.locator(".notice.denied")
    expect(denial).to_contain_text("VGW313")
    expect(denial.get_by_label("What to write instead")).to_contain_text("nvidia.com/gpumem: 3000")
    manifest.focus()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(POD.format(key="nvidia.com/gpumem", number=4000))
    expect(status).to_contain_text("pod/typed: changed")


def test_namespace_target_and_settings(page: Page) -> None:
    """Each of the other inputs changes the result."""
    manifest = text_of(page, "Manifest")
    manifest.fill(POD.format(key="tencent.com/vcuda-core", number=100))
    page.get_by_label("Translate to").select_option("nvidia")
    expect(page.locator(".diff")).to_contain_text("nvidia.com/gpu: '1'")
    manifest.fill(POD.format(key="nvidia.com/gpu", number=1))
    page.get_by_label("Translate to").select_option("")
    expect(page.get_by_role("status").first).to_contain_text("pod/typed: unchanged")
    page.get_by_role("tab", name="Settings").click()
    text_of(page, "Settings").fill("bareDevices: share")
    expect(page.locator(".diff")).to_contain_text("nvidia.com/gpumem: '5000'")
    page.get_by_role("tab", name="Namespace").click()
    text_of(page, "Namespace").fill("apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n")
    expect(page.get_by_role("status").first).to_contain_text("pod/typed: unchanged")
    labels = "{vgpu-webhook.io/inject: enabled, vgpu-webhook.io/mode: warn}"
    warn = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: default, labels: {labels}}}\n"
    text_of(page, "Namespace").fill(warn)
    expect(page.get_by_role("heading", name="pod/typed")).to_have_text("pod/typedunchangedmode warn")
    page.get_by_text("Labels and annotations of namespaces").click()
    expect(page.locator("#keys")).to_contain_text("vgpu-webhook.io/bare-devices")


def row(page: Page, line: int, tab: str = "manifest") -> Locator:
    """The line behind the text of a tab."""
    return page.locator(f"#panel-{tab} [data-line='{line}']")


def selected(page: Page) -> str:
    """What is selected in the text that has the focus."""
    text: str = page.evaluate(
        "document.activeElement.value.slice(document.activeElement.selectionStart, document.activeElement.selectionEnd)"
    )
    return text


def test_findings_are_at_their_lines(page: Page) -> None:
    """In the text and in the result, which leads there, also with keys alone."""
    comments = "# a\n" * 100
    text_of(page, "Manifest").fill(f"{comments}{POD.format(key='nvidia.com/gpumemory', number=3000)}{comments}")
    link = page.locator(".notice.denied").get_by_role("button", name="line 109")
    link.focus()
    page.keyboard.press("Enter")
    expect(text_of(page, "Manifest")).to_be_focused()
    assert selected(page) == "        nvidia.com/gpumemory: 3000"
    expect(row(page, 109)).to_have_class("error")
    expect(row(page, 109)).to_be_in_viewport()
    assert (row(page, 109).get_attribute("data-finding") or "").startswith("VGW313: nvidia.com/gpumemory is not")
    text_of(page, "Manifest").fill(POD.format(key="nvidia.com/gpumem", number=3000))
    expect(page.locator(".editor .error")).to_have_count(0)
    expect(page.locator("#panel-manifest .warning")).to_have_count(1)
    page.get_by_role("tab", name="Settings").click()
    text_of(page, "Settings").fill("\nbareDevices: maybe\n")
    expect(row(page, 2, "settings")).to_have_class("error")


def test_mistakes(page: Page) -> None:
    """A mistake is shown with its line, and a click goes there."""
    text_of(page, "Manifest").fill("apiVersion: v1\nkind: Pod\nmetadata: [\n")
    problem = page.locator("#problems button")
    expect(problem).to_contain_text("manifest, line")
    expect(page.get_by_role("status").first).to_have_text("1 problem")
    text_of(page, "Manifest").fill("")
    expect(page.get_by_role("status").first).to_have_text("Nothing is written yet.")
    page.get_by_role("tab", name="Mappings").click()
    text_of(page, "Mappings").fill("vendor: x\nkeys: 1\n")
    page.get_by_role("tab", name="Manifest").click()
    problem.filter(has_text="mappings, line 2").first.click()
    expect(text_of(page, "Mappings")).to_be_focused()
    assert selected(page) == "keys: 1"


def test_a_server_that_is_gone(page: Page, trouble: list[str]) -> None:
    """The page says so, and goes on as soon as it is back."""
    page.route("**/answer", lambda route: route.abort())
    text_of(page, "Manifest").fill(POD.format(key="nvidia.com/gpu", number=1))
    expect(page.get_by_role("status").first).to_contain_text("No answer")
    page.unroute("**/answer")
    text_of(page, "Manifest").fill(POD.format(key="nvidia.com/gpumem", number=3000))
    expect(page.get_by_role("status").first).to_contain_text("pod/typed: changed")
    assert [text for text in trouble if "ERR_FAILED" not in text] == []
    trouble.clear()


def test_a_link_carries_the_state(page: Page, browser: Browser, url: str) -> None:
    """Another browser shows the same; what the link carries is in no request, neither as it is nor in a header."""
    text_of(page, "Manifest").fill(POD.format(key="tencent.com/vcuda-core", number=100))
    page.get_by_label("Translate to").select_option("iluvatar")
    page.get_by_role("tab", name="Settings").click()
    before = page.locator("#policy").text_content() or ""
    text_of(page, "Settings").fill("bareDevices: share # größer ☃")
    expect(page.locator("#policy")).not_to_have_text(before)  # else the answer replaces what is announced next
    button = page.get_by_role("button", name="Copy link")
    expect(button).to_have_accessible_description("opens only on your machine")
    expect(page.get_by_text("opens only on your machine")).to_be_visible()
    button.click()
    expect(page.get_by_role("status").first).to_contain_text("The link is copied.")
    expect(page.get_by_role("status").first).to_contain_text("opens only on your machine")
    link: str = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{url}#")
    with browser.new_context() as context:
        other = context.new_page()
        sent: list[str] = []
        other.on(
            "request", lambda request: sent.append(f"{request.url} {request.all_headers()} {request.post_data or ''}")
        )
        opened(other, link)
        for field in ("manifest", "namespace", "target", "settings", "mappings"):
            assert other.locator(f"#{field}").input_value() == page.locator(f"#{field}").input_value(), field
        assert sent
        assert [line for line in sent if link.partition("#")[2] in line] == []


@pytest.mark.parametrize("fragment", ["x", "%%%", "e30", "q1YqSS0uUbJSAgA", "A" * 5000])
def test_a_broken_link(page: Page, url: str, fragment: str) -> None:
    """It is reported, and nothing else happens."""
    page.goto(f"{url}#{fragment}")
    expect(page.get_by_role("status").first).to_contain_text("The link cannot be read")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible(page: Page, scheme: Any) -> None:
    """No violation of any rule of axe-core, contrast included; the colors are those of the scheme."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    background = {"light": "rgb(246, 247, 248)", "dark": "rgb(18, 21, 23)"}
    assert page.evaluate(BACKGROUND) == background[scheme]
    assert violations(page) == []
    page.get_by_label("Example").select_option(label="misspelled")
    expect(page.locator(".notice.denied")).to_be_visible()
    page.get_by_role("tab", name="Settings").click()
    text_of(page, "Settings").fill("target: [")
    expect(page.locator("#problems button").first).to_be_visible()
    assert violations(page) == []
    page.get_by_role("tab", name="Namespace").click()
    page.get_by_text("Labels and annotations of namespaces").click()
    assert violations(page) == []


@pytest.mark.parametrize("width", [320, 360])
def test_narrow(page: Page, width: int) -> None:
    """At 320 px (WCAG 1.4.10) nothing is cut off or has to be scrolled to from the side, except code and tables."""
    page.set_viewport_size({"width": width, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for control in page.locator("button:visible, select:visible, textarea:visible").all():
        box = control.bounding_box()
        if control.evaluate("element => element.closest('.scroll') === null"):
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
    assert violations(page) == []


def test_keyboard_alone(page: Page) -> None:
    """Everything is reached by Tab in the order of the page, and used by keys; the focus can be seen."""
    order = ["share", "example", "target", "tab-manifest", "manifest"]
    for identity in order:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == identity
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="Settings")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Manifest")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Mappings")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("kind: Pod\napiVersion: v1\n")
    page.keyboard.press("Tab")  # a text area is no trap
    assert page.evaluate("document.activeElement.id") != "manifest"


ELEMENTS = "document.querySelectorAll('script, img, svg').length"
SHOWN = """new Promise((done) => {
  const observer = new MutationObserver(done);
  for (const name of ["problems", "result"]) observer.observe(document.getElementById(name), { childList: true });
})"""
"""Comes true with the next answer that is shown."""

HOSTILE = ["<script>window.hacked=1</script>", "<img src=x onerror=window.hacked=1>", '"><svg onload=window.hacked=1>']


def hostile_pod(text: str) -> dict[str, Any]:
    """A pod with a text in every field that may show up."""
    quantities = {f"nvidia.com/gpu{text}": text, "nvidia.com/gpumem": text, "nvidia.com/gpu": 1}
    container = {
        "name": text,
        "image": text,
        "command": [text],
        "env": [{"name": text, "value": text}, {"name": "LD_PRELOAD", "value": text}],
        "resources": {"limits": quantities, "requests": {text: text}},
        "volumeMounts": [{"name": text, "mountPath": text}],
    }
    annotations = {text: text, "vgpu-webhook.io/target": text, "vgpu-webhook.io/status": text}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": text, "labels": {text: text}, "annotations": annotations, text: text},
        "spec": {
            "schedulerName": text,
            "nodeName": text,
            "nodeSelector": {text: text},
            "containers": [container],
            "initContainers": [{**container, "resources": {}}],
            "volumes": [{"name": text, text: {text: text}}],
            text: text,
        },
    }


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_shown_as_texts(page: Page, text: str) -> None:
    """In every field and in every input, alone and together: no element is made of it, and nothing runs."""
    pod = hostile_pod(text)
    harmless = {**hostile_pod("x"), "metadata": {"name": text, "annotations": {text: text}}}
    harmless["spec"] = {"containers": [{"name": text, "image": text, "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    before = page.evaluate(ELEMENTS)
    manifests = (pod, harmless, {"kind": text, "apiVersion": text}, {text: text})
    documents = (
        *(("Manifest", manifest) for manifest in (*map(json.dumps, manifests), f"{text}: [")),
        ("Namespace", f'kind: "{text}'),
        ("Mappings", f"vendor: '{text}'"),
        ("Settings", f"'{text}': 1"),
    )
    for tab, document in documents:
        page.get_by_role("tab", name=tab).click()
        page.evaluate(f"window.shown = {SHOWN}; undefined")
        text_of(page, tab).fill(document)
        page.evaluate("window.shown")
        assert page.evaluate(ELEMENTS) == before
    expect(page.locator("#problems")).to_contain_text(text[:10])
    assert page.evaluate("window.hacked") is None
