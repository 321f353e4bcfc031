"""Which webhooks serve a scheduler's pods, as their administrators may have configured them."""

from functools import partial

from . import hami, kai
from .koordinator import koordinator
from .pod import Json, StandIn
from .vgpu_manager import vgpu_manager
from .volcano import volcano

STAND_INS: dict[str, dict[str, StandIn]] = {
    "hami-scheduler": {
        "hami": hami.hami,
        "hami, overwriteEnv": partial(hami.hami, configured=hami.Configured(overwrite_env=True)),
        "hami, gpuCorePolicy: disable": partial(hami.hami, configured=hami.Configured(core_policy="disable")),
        "hami, runtimeClassName": partial(hami.hami, configured=hami.Configured(runtime_class="nvidia")),
    },
    "kai-scheduler": {
        "kai": kai.kai,
        "kai, HAMi-core": partial(kai.kai, configured=kai.Configured(hami_core=True, block=True)),
        "kai, NvFractions": partial(kai.kai, configured=kai.Configured(fractions=True)),
        "kai, NvFractions with NRI": partial(
            kai.kai, configured=kai.Configured(fractions=True, visible_devices=False, runtime_class="")
        ),
    },
    "koord-scheduler": {"koordinator": koordinator, "koordinator, profile": partial(koordinator, profile=True)},
    "volcano": {"volcano": volcano, "volcano, gate": partial(volcano, group=False, gate=True)},
    "vgpu-scheduler": {
        "vgpu-manager": partial(vgpu_manager, runtime_class="nvidia"),
        "vgpu-manager, DRA": partial(vgpu_manager, claims=True),
    },
}
"""By the scheduler that mappings place pods with, so that another mapping of the same system is in at once."""


def stand_ins(scheduler: str | None) -> dict[str, StandIn]:
    """The stand-ins of the system with this scheduler; none for one that has no webhook of its own."""
    return STAND_INS.get(scheduler or "", {})


def nobody(pod: Json) -> Json:
    """In place of a webhook where a system has none."""
    return pod
