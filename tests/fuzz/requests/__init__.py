"""Requests in the terms of every vendor, legal for the most part, as their users write them."""

from collections.abc import Callable, Mapping

from tests.fuzz.draw import Draw
from tests.fuzz.requests import accelerators, clouds, schedulers
from tests.fuzz.requests.ask import Ask, cards


def count_alone(resource: str) -> Callable[[Draw, str], Ask]:
    """Requests that are a count and nothing else."""
    return lambda draw, name: Ask({resource: cards(draw)}, {}, {})


VENDORS: Mapping[str, Callable[[Draw, str], Ask]] = {
    "nvidia": schedulers.nvidia,
    "aliyun": clouds.aliyun,
    "gpushare": clouds.aliyun,
    "vcuda": clouds.vcuda,
    "qgpu": clouds.qgpu,
    "baidu": clouds.baidu,
    "volcano": schedulers.volcano,
    "volcano-legacy": schedulers.volcano_legacy,
    "cce": clouds.cce,
    "vke": clouds.vke,
    "koordinator": schedulers.koordinator,
    "elastic-gpu": schedulers.elastic,
    "nano-gpu": schedulers.nano,
    "intel": schedulers.intel,
    "vgpu-manager": schedulers.vgpu_manager,
    "iluvatar": accelerators.iluvatar,
    "mthreads": accelerators.mthreads,
    "metax": accelerators.metax,
    "hygon": accelerators.hygon,
    "amd": accelerators.amd,
    "kunlun": accelerators.kunlun,
    "enflame": accelerators.enflame,
    "cambricon": accelerators.cambricon,
    "ascend": accelerators.ascend,
    "neuron": accelerators.neuron,
    "biren": count_alone("birentech.com/gpu"),
    "vastai": count_alone("vastaitech.com/va"),
    "whole": count_alone("nvidia.com/gpu"),
    "timeslicing": count_alone("nvidia.com/gpu.shared"),
    "mig": schedulers.mig,
    "kai": schedulers.kai,
    "nvfractions": schedulers.nvfractions,
    "tensor-fusion": schedulers.tensor_fusion,
    "neutral": schedulers.neutral,
}
NAMES = tuple(VENDORS)
