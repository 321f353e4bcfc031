"""The image that the chart's pods run: which one, and what Helm says where nobody says which."""

import pytest

import webhook
from deploy.generate import CHART
from tests.yaml_text import load_yaml_all

from .charts import Chart, one, pod_of
from .helm import HelmError

pytestmark = pytest.mark.controlplane

SHIM = ("--set", "shim.mode=plugin,settings.bareDevices=share")
REPOSITORY = ("--set", "image.repository=registry.example/vgpu-webhook")


def image(chart: Chart, values: str, *arguments: str) -> str:
    """The webhook's image with a file of values, and options."""
    objects = list(load_yaml_all(chart.template(*SHIM, *REPOSITORY, *arguments, text=values)))
    found: str = pod_of(one(objects, "Deployment"))["containers"][0]["image"]
    return found.removeprefix("registry.example/vgpu-webhook:")


@pytest.mark.parametrize(
    "values, arguments, tag",
    [
        *(("{}", ["--set", f"image.tag={tag}"], tag) for tag in ("0123", "1", "0", "1e3", "v1", "1.10")),
        *(("{}", ["--set-string", f"image.tag={tag}"], tag) for tag in ("0123", "1", "1.10", "true")),
        *((f"image: {{tag: '{tag}'}}", [], tag) for tag in ("0123", "1e3", "true", "20261122123456789", "-1")),
        ("image: {tag: 0}", [], "0"),
        ("image: {tag: 20261122}", [], "20261122"),
        *((values, [], webhook.__version__) for values in ("image: {tag: null}", "image: {tag: ''}", "{}")),
    ],
)
def test_tag_is_what_was_written(helm: Chart, values: str, arguments: list[str], tag: str) -> None:
    """`--set image.tag=1` is a number to Helm; null, which removes what an earlier file says, is the chart's version."""
    assert image(helm, values, *arguments) == tag


@pytest.mark.parametrize(
    "tag, problem",
    [
        # Of 1.10 in a file Helm sees 1.1, another tag; of 17 digits it rounds the last ones: quoted they are a text.
        ("1.1", "': got number, want integer or string"),
        ("true", "': got boolean, want integer or string"),
        ("20261122123456789", "': maximum"),
        ("-1", "': minimum"),
    ],
)
def test_what_helm_would_change_is_refused(helm: Chart, tag: str, problem: str) -> None:
    """It would be another image."""
    with pytest.raises(HelmError, match=f"/image/tag{problem}"):
        image(helm, f"image: {{tag: {tag}}}")


@pytest.mark.long
def test_helm_4_reads_the_same_tags(helm4: Chart) -> None:
    """Numbers in options and files."""
    assert image(helm4, "{}", "--set", "image.tag=20261122") == image(helm4, "image: {tag: 20261122}") == "20261122"
    with pytest.raises(HelmError, match="/image/tag': maximum"):
        image(helm4, "image: {tag: 20261122123456789}")


def test_image_of_the_installer_is_required_where_there_is_one(helm: Chart) -> None:
    """Nobody has to name an image that no pod has; a number as its tag is the version of the library, too."""
    nameless = {"image": {"repository": ""}}
    for shim in ({"mode": "plugin", "installer": nameless}, {"installer": {"enabled": False, **nameless}}):
        assert not [each for each in helm.render({"shim": shim}) if each["kind"] == "DaemonSet"]
    with pytest.raises(HelmError, match=r"shim\.installer\.image\.repository is empty"):
        helm.render({"shim": {"installer": nameless}})
    objects = helm.render({"shim": {"installer": {"image": {"tag": 20261122}}}})
    container = pod_of(one(objects, "DaemonSet"))["containers"][0]
    assert container["image"].endswith(":20261122")
    assert {"name": "VERSION", "value": "20261122"} in container["env"]


def test_chart_is_true_when_it_is_published() -> None:
    """A release sets the repository in values.yaml alone: no other file may say that there is no image."""
    for file in CHART.rglob("*"):
        assert file.is_dir() or "published yet" not in file.read_text(), file


def test_image_has_to_be_named(helm: Chart) -> None:
    """The chart has no image by default: one sentence says what to do, before anything is created."""
    with pytest.raises(HelmError) as refused:
        helm.template()
    sentences = [line for line in str(refused.value).splitlines() if "image.repository is not set" in line]
    assert len(sentences) == 1
    assert sentences[0].endswith("write --set image.repository=registry.example/vgpu-webhook")
