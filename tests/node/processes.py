"""The processes of containers, as this machine sees them."""

from pathlib import Path

from tests.controlplane.client import Object


def processes_of(pod: Object, container: str) -> list[Path]:
    """Return the folders in `/proc` of a container's processes, the first one first."""
    statuses = [*pod["status"].get("initContainerStatuses", []), *pod["status"]["containerStatuses"]]
    [status] = [each for each in statuses if each["name"] == container]
    identity = status["containerID"].rpartition("/")[2]
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            groups = (process / "cgroup").read_text()
        except OSError:
            continue
        if identity in groups:
            found.append(process)
    return sorted(found, key=lambda process: int(process.name))


def process_of(pod: Object, container: str) -> Path:
    """Return that of the container's first process."""
    return processes_of(pod, container)[0]
