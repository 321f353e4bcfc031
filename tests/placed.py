"""The fields of a container by which the kubelet puts something at a path that a pod chooses."""

from typing import Any, Final

FIELDS: Final = ("volumeMounts", "volumeDevices", "terminationMessagePath")

ROUNDABOUT: Final = (
    "/proc/self/root",
    "/proc/1/cwd",
    "/proc/thread-self/root/proc/self/root",
    "/dev/fd/7",
    "/var/run/..",
)
"""Ways to any path that the text of the path does not tell: through links of the image, or a folder of processes."""


def put_at(path: str) -> dict[str, dict[str, Any]]:
    """What puts something at a path, by field; the volume is called ``own``."""
    return {
        "volumeMounts": {"volumeMounts": [{"name": "own", "mountPath": path}]},
        "volumeDevices": {"volumeDevices": [{"name": "own", "devicePath": path}]},
        "terminationMessagePath": {"terminationMessagePath": path},
    }
