"""The image that the chart's pods run: which one, and what Helm says where nobody says which."""

import pytest

import webhook
from deploy.generate import CHART
from tests.depth import one_in
from tests.yaml_text import load_yaml_all

from .charts import NAMESPACE, RELEASE, Chart, HelmError, one, pod_of

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600)]


def image(chart: Chart, values: str, *arguments: str) -> str:
    """The webhook's image with a file of values, and options."""
    where = [
        "--namespace",
        NAMESPACE,
        "--kube-version",
        chart.kubernetes,
        "--set",
        "shim.mode=plugin,settings.bareDevices=share",
    ]
    options = ["--values", "-", "--set", "image.repository=registry.example/vgpu-webhook", *arguments]
    printed = chart.run("template", RELEASE, str(chart.folder), *where, *options, text=values)
    objects = list(load_yaml_all(printed))
    found: str = pod_of(one(objects, "Deployment"))["containers"][0]["image"]
    return found.removeprefix("registry.example/vgpu-webhook:")


@pytest.mark.parametrize("tag", one_in(3, ["0123", "1", "0", "1e3", "20261122", "v1", "1.10", "true"]))
def test_any_tag_can_be_set(helm: Chart, helm4: Chart, tag: str) -> None:
    """`--set image.tag=1` is a number to Helm: the tag is what was written, as with `--set-string`."""
    for chart in (helm, helm4):
        if tag != "true":
            assert image(chart, "{}", "--set", f"image.tag={tag}") == tag
        assert image(chart, "{}", "--set-string", f"image.tag={tag}") == tag
        assert image(chart, f"image: {{tag: '{tag}'}}") == tag


@pytest.mark.parametrize("tag", ["1", "0", "20261122"])
def test_a_number_in_a_file_is_a_tag(helm: Chart, helm4: Chart, tag: str) -> None:
    """Digits stay digits, however many."""
    for chart in (helm, helm4):
        assert image(chart, f"image: {{tag: {tag}}}") == tag


@pytest.mark.parametrize("tag", ["1.1", "true"])
def test_what_is_no_text_and_no_whole_number_is_refused(helm: Chart, tag: str) -> None:
    """Of 1.10 in a file Helm sees 1.1, another tag: it has to be quoted."""
    with pytest.raises(HelmError, match=r"/image/tag': got \w+, want string or integer|image.tag"):
        image(helm, f"image: {{tag: {tag}}}")


@pytest.mark.parametrize("values", ["image: {tag: null}", "image: {tag: ''}", "{}"])
def test_no_tag_is_the_charts_version(helm: Chart, helm4: Chart, values: str) -> None:
    """A null is what removes a value of an earlier file."""
    for chart in (helm, helm4):
        assert image(chart, values) == webhook.__version__


@pytest.mark.parametrize("tag, problem", [("20261122123456789", "maximum"), ("-1", "minimum")])
def test_numbers_that_helm_changes_are_refused(helm: Chart, helm4: Chart, tag: str, problem: str) -> None:
    """Of 17 digits Helm rounds the last ones: it would be another image. Quoted they are a text."""
    for chart in (helm, helm4):
        with pytest.raises(HelmError, match=rf"/image/tag': {problem}"):
            image(chart, f"image: {{tag: {tag}}}")
        assert image(chart, f"image: {{tag: '{tag}'}}") == tag


def test_image_of_the_installer_is_required_where_there_is_one(helm: Chart, helm4: Chart) -> None:
    """Nobody has to name an image that no pod has."""
    nameless = {"image": {"repository": ""}}
    for chart in (helm, helm4):
        for shim in ({"mode": "plugin", "installer": nameless}, {"installer": {"enabled": False, **nameless}}):
            assert not [each for each in chart.render({"shim": shim}) if each["kind"] == "DaemonSet"]
        with pytest.raises(HelmError, match=r"shim\.installer\.image\.repository is empty"):
            chart.render({"shim": {"installer": nameless}})


def test_chart_is_true_when_it_is_published() -> None:
    """A release sets the repository in values.yaml alone: no other file may say that there is no image."""
    for file in CHART.rglob("*"):
        assert file.is_dir() or "published yet" not in file.read_text(), file


def test_tag_of_the_installer_can_be_a_number(helm: Chart, helm4: Chart) -> None:
    """It is the version of the library, too."""
    for chart in (helm, helm4):
        objects = chart.render({"shim": {"installer": {"image": {"tag": 20261122}}}})
        container = pod_of(one(objects, "DaemonSet"))["containers"][0]
        assert container["image"].endswith(":20261122")
        assert {"name": "VERSION", "value": "20261122"} in container["env"]


def test_image_has_to_be_named(helm: Chart, helm4: Chart) -> None:
    """The chart has no image by default: one sentence says what to do, before anything is created."""
    for chart in (helm, helm4):
        with pytest.raises(HelmError) as refused:
            chart.run("template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--kube-version", chart.kubernetes)
        sentences = [line for line in str(refused.value).splitlines() if "image.repository is not set" in line]
        assert len(sentences) == 1
        assert sentences[0].endswith("write --set image.repository=registry.example/vgpu-webhook")
