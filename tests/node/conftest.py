"""The one node of a test run, and the product installed on it."""

from collections.abc import Iterator

import pytest

from tests.controlplane.fixtures import Built
from tests.deploy.charts import Chart, chart
from tests.parts import skip_part

from . import images, programs, small_images
from .cluster import Cluster, stand_ins
from .load import delete_pods
from .pods import Pods
from .releases import OPTED_IN, TEAM, Release, namespace

REPOSITORY, _, TAG = images.PRODUCT_IMAGE.rpartition(":")
IMAGE = ("--set", f"image.repository={REPOSITORY},image.tag={TAG}")
LIBRARY = ("--set", f"shim.installer.image.repository={small_images.LIBRARY},shim.installer.image.tag=v1")


@pytest.fixture(scope="session")
def cluster(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of one node that has the product's image and those of the tests."""
    reason = programs.why_not()
    if reason:
        skip_part("node", f"no node can be started here: {reason}")
    found = built(programs.find)
    archives = built(lambda: [*small_images.all_images(), images.product_image()])
    started = Cluster(found, tmp_path_factory.mktemp("node"))
    try:
        for archive in archives:
            started.load(archive)
        started.start_scheduler(stand_ins())
        started.serve_devices()
        yield started
    finally:
        started.__exit__()


@pytest.fixture(scope="session")
def helm(built: Built) -> Chart:
    """The chart, by Helm 3."""
    return built(chart)


@pytest.fixture(scope="session")
def any_release(helm: Chart, cluster: Cluster) -> Release:
    """The one release of the cluster, in whatever state tests have left it; and a namespace that has opted in."""
    namespace(cluster, TEAM, OPTED_IN)
    return Release(helm, cluster, (*IMAGE, *LIBRARY))


@pytest.fixture
def release(any_release: Release) -> Release:
    """The release, installed with the chart's defaults and the images' names, well and registered."""
    any_release.ensure()
    any_release.serving(TEAM)
    return any_release


@pytest.fixture(scope="session")
def all_pods(cluster: Cluster) -> Pods:
    """Pods of the namespace that has opted in."""
    return Pods(cluster, TEAM)


@pytest.fixture
def pods(all_pods: Pods) -> Iterator[Pods]:
    """The same for one test: at its end they go."""
    yield all_pods
    delete_pods(all_pods.cluster)
