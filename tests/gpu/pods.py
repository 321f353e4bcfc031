"""The pods: golden cases, so that what `mutate` stores is known to be what stands there; and what was promised to whom."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

CASES: Final = Path(__file__).parents[1] / "cases"


@dataclass(frozen=True, slots=True)
class Container:
    """A container with a share of one device: in MiB, and in percent of the cores if there is a limit of them.

    `mounts` are paths with the name of a folder of its state, or none for that of the library.
    """

    vendor: str
    case: str
    name: str
    memory: int
    cores: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, str | None] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.case}/{self.name}"


_PROMISED: Final = (
    Container("nvidia", "nvidia-sizes-from-the-api-server", "main", 3000, 30),
    Container("nvidia", "preload-of-the-user", "main", 3000),
    Container("vcuda", "vcuda-to-nvidia", "main", 4096, 50),
    Container("iluvatar", "iluvatar-to-nvidia", "main", 16384, 50),
    Container("aliyun", "aliyun-two-containers", "one", 8192),
    Container("aliyun", "aliyun-two-containers", "two", 4096),
    Container("gpushare", "owner-gpushare", "main", 8192),
    Container("tensor-fusion", "keys-of-the-request-are-no-hints", "a", 4096),
    Container("koordinator", "summed-requests-alike", "a", 4096),
    Container("koordinator", "summed-requests-alike", "b", 4096),
    Container("kai", "copy-names-the-container", "second", 1024),
    Container("volcano", "belongings-kept", "main", 4096),
)
"""What the vendor's units mean, counted by hand: 16 blocks of 256 MiB are 4096 MiB."""


def containers() -> tuple[Container, ...]:
    """Return them with the environment and the mounts that are stored."""
    return tuple(_stored(each) for each in _PROMISED)


def _stored(promised: Container) -> Container:
    pod: Any = yaml.safe_load((CASES / promised.case / "expected.yaml").read_text())
    [container] = [each for each in pod["spec"]["containers"] if each["name"] == promised.name]
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    environment = {each["name"]: each.get("value", "") for each in container["env"]}
    mounts = {
        each["mountPath"]: each["subPath"] if "emptyDir" in volumes[each["name"]] else None
        for each in container["volumeMounts"]
    }
    return replace(promised, environment=environment, mounts=mounts)
