"""Near misses: what somebody surely meant to be a key."""

from hypothesis import given
from hypothesis import strategies as st

from tests.mapping.vendors import ACME, policy
from tests.naming import each_of
from webhook.mapping.load import load_policy
from webhook.mapping.model.near_misses import NearMiss, distance

BUILT_IN = load_policy()


@each_of(
    "name, meant, sure",
    [
        ("nvidia.com/gpumemory", "nvidia.com/gpumem", True),
        ("nvidia.com/gpumems", "nvidia.com/gpumem", True),
        ("nvidia.com/gpumen", "nvidia.com/gpumem", True),
        ("nvidia.com/gpmuem", "nvidia.com/gpumem", True),
        ("nvidia.com/gpucore", "nvidia.com/gpucores", True),
        ("nvidia.com/gpu-cores", "nvidia.com/gpucores", True),
        ("nvidia.com/gpumem-percent", None, None),
        ("nvidia.com/gpumem-percentages", "nvidia.com/gpumem-percentage", True),
        ("nvidia.com/GPUMEM", None, None),
        ("nvidia.com/gpus", "nvidia.com/gpu", True),
        ("nvidia.com/gp", "nvidia.com/gpu", True),
        ("nvidia.com/gpuxy", "nvidia.com/gpu", False),
        ("nvidia.com/gpumem2", "nvidia.com/gpumem", True),
        ("nvidia.com/gpumemx-per", None, None),
        ("aliyun.com/gpu-memory", "aliyun.com/gpu-mem", True),
        ("aliyun.com/gpu-core.percent", None, None),
        ("tencent.com/vcuda-cores", "tencent.com/vcuda-core", True),
        ("tencent.com/vcuda-meomry", "tencent.com/vcuda-memory", True),
        ("iluvatar.ai/MR-V100-vgpus", "iluvatar.ai/MR-V100-vgpu", True),
        ("iluvatar.ai/MR-V100.vmem", "iluvatar.ai/MR-V100.vMem", True),
        ("nvidia.com/pgpu", None, None),
        ("nvidia.com/gpu.shared", None, None),
        ("nvidia.com/rdma", None, None),
        ("nvidia.com/", None, None),
        ("nvidia.com", None, None),
        ("nvidia.comx/gpumem", "nvidia.com/gpumem", True),
        ("nvida.com/gpu", "nvidia.com/gpu", True),
        ("nvidia.cmo/gpucores", "nvidia.com/gpucores", True),
        ("nvidai.co/gpumem", "nvidia.com/gpumem", False),
        ("nvida.com/rdma", None, None),
        ("arm.com/gpu", None, None),
        ("example.com/gpumem", None, None),
        ("gpumem", None, None),
    ],
)
def test_near_misses_of_built_in_keys(name: str, meant: str | None, sure: bool | None) -> None:  # noqa: FBT001
    """Within two edits, or begun by a key and up to three letters longer; a domain likewise, before a name that is a key."""
    found = BUILT_IN.near.find(name)
    assert found == (None if meant is None or sure is None else NearMiss(meant, sure))


@each_of("name", ["hami.io/no-use-npu-uuid", "hami.io/use-gpu-uuid"])
def test_a_hint_of_a_pattern_is_no_near_miss(name: str) -> None:
    """However near it is to another hint."""
    assert BUILT_IN.near.find_in_metadata(name) is None


@each_of(
    "name, meant",
    [
        ("huawei.com/Ascend910B3-memry", "huawei.com/Ascend910B3-memory"),
        ("huawei.com/Ascned910B3-memory", "huawei.com/Ascend910B3-memory"),
        ("huawei.com/Ascend910B4-1-memry", "huawei.com/Ascend910B4-1-memory"),
        ("huawei.com/Ascend310P-cores", "huawei.com/Ascend310P-core"),
        ("iluvatar.ai/BI-V100.vMemory", "iluvatar.ai/BI-V100.vMem"),
        ("iluvatar.ai/vcuda-memry", "iluvatar.ai/vcuda-memory"),
        ("hygon.com/hcumen", "hygon.com/hcumem"),
        ("hygon.com/dcunums", "hygon.com/dcunum"),
        ("huawei.com/Ascend910b3", "huawei.com/Ascend910B3"),
        ("nvidia.com/mig-1g10gb", "nvidia.com/mig-1g.10gb"),
    ],
)
def test_a_correction_keeps_the_variable_part(name: str, meant: str) -> None:
    """What names the hardware stays as it is."""
    assert BUILT_IN.near.find(name) == NearMiss(meant, sure=True)


@each_of(
    "name, template, choices",
    [
        ("huawei.com/Ascend901B2", "huawei.com/Ascend{chip}", "910B2, "),
        ("huawei.com/Ascend910B31", "huawei.com/Ascend{chip}", "910B3, "),
        ("huawei.com/Ascend910-memory", "huawei.com/Ascend{chip}-memory", "910A, 910B, "),
        ("iluvatar.ai/BMR-V100.vMem", "iluvatar.ai/{chip}.vMem", "MR-V100, "),
        ("iluvatar.ai/bMR-V100.vMem", "iluvatar.ai/{chip}.vMem", "MR-V100, "),
        ("hygon.com/ccunum", "hygon.com/{generation}num", "dcu, hcu"),
    ],
)
def test_other_hardware_is_never_suggested(name: str, template: str, choices: str) -> None:
    """Where the variable part is what nobody knows, what is known is listed, and nothing is the correction."""
    found = BUILT_IN.near.find(name)
    assert found is not None
    assert (found.meant, found.sure) == (template, True)
    assert ", ".join(found.choices).startswith(choices)
    assert found.suggestion.startswith(f"known are {template}, with {choices}")


@each_of(
    "name, template",
    [
        ("huawei.com/Ascend910A5", "huawei.com/Ascend{chip}"),
        ("huawei.com/Ascend910B1", "huawei.com/Ascend{chip}"),
        ("huawei.com/Ascend310B", "huawei.com/Ascend{chip}"),
        ("huawei.com/Ascend950", "huawei.com/Ascend{chip}"),
        ("huawei.com/Ascend910B5-memory", "huawei.com/Ascend{chip}-memory"),
        ("iluvatar.ai/MR-V200.vMem", "iluvatar.ai/{chip}.vMem"),
    ],
)
def test_hardware_that_a_configuration_may_add_is_not_denied(name: str, template: str) -> None:
    """However near it is to what is known: a chip differs from others in one letter, too."""
    found = BUILT_IN.near.find(name)
    assert found is not None
    assert (found.meant, found.sure) == (template, False)
    assert found.suggestion.startswith(f"known are {template}, with ")


def test_choices_are_listed_in_part() -> None:
    """Names with many rows list those that are most like them."""
    found = BUILT_IN.near.find("nvidia.com/mig-1g.5gbb")
    assert found is not None
    assert found.suggestion == (
        "known are nvidia.com/mig-{profile}, with 1g.5gb, 1g.35gb, 1g.45gb, 1g.6gb, 1g.5gb.me, 1g.10gb, 1g.12gb, 1g.18gb … "
        f"({len(found.choices)} in all)"
    )


@each_of(
    "name, meant",
    [
        ("memory-share", "gpumem"),
        ("memory-percent", "gpumem-percentage"),
        ("core-percent", "gpucores"),
        ("cores-of-all", "gpucores"),
        ("device-count", "gpu"),
    ],
)
def test_what_a_name_beside_keys_of_a_vendor_is_for(name: str, meant: str) -> None:
    """A percentage of memory only where the name says so."""
    assert BUILT_IN.near.find(f"nvidia.com/{name}", ["nvidia"]) == NearMiss(f"nvidia.com/{meant}", sure=False)


def test_prefixes_and_known_names_of_a_mapping() -> None:
    """A mapping narrows where it looks, and names what belongs to others."""
    near = policy(f"{ACME}match: {{resources: [acme.com/g]}}\nknown: ['acme.com/gpu-*']\n").near
    assert near.find("acme.com/gpus") == NearMiss("acme.com/gpu", sure=True)
    assert near.find("acme.com/gpu-x") is None
    assert near.find("acme.com/cor") is None


@each_of(
    "name, meant, sure",
    [
        ("acme.com/gpu-memory-gb", "acme.com/gpu-memory", True),
        ("acme.com/gpu-memry", "acme.com/gpu-memory", True),
        ("acme.com/gpu-mermoy", "acme.com/gpu-memory", False),
        ("acme.com/gpu-memory", None, None),
        ("acme.com/gpu-memory-of-another", None, None),
        ("acme.com/gpu-memoryless", None, None),
        ("acme.cmo/gpu-memory", "acme.com/gpu-memory", True),
        ("acme.com/tiee", None, None),
        ("other.example/gpu-memry", None, None),
        ("acme.com/gpu-meow", None, None),
        ("acme.com/node-pol", "acme.com/node-pool", True),
        ("gpu-fracton", "gpu-fraction", False),
        ("app", None, None),
    ],
)
def test_near_misses_of_labels_and_annotations(name: str, meant: str | None, sure: bool | None) -> None:  # noqa: FBT001
    """Long ones only, within two edits or three more letters; surely within one, below a domain; none that is known."""
    keys = "  size: {annotation: acme.com/gpu-memory, is: other}\n  tier: {label: acme.com/tier, is: text}\n"
    keys += "  pool: {label: acme.com/node-pool, is: text}\n"
    known = 'known: [{annotation: acme.com/gpu-memoryless, advice: "no key"}]\n'
    found = policy(ACME.replace("forms:", f"{keys}forms:") + known).near.find_in_metadata(name)
    assert found == (None if meant is None or sure is None else NearMiss(meant, sure))


@each_of(
    "left, right, edits",
    [
        ("", "", 0),
        ("a", "", 1),
        ("", "ab", 2),
        ("abc", "abc", 0),
        ("abc", "abd", 1),
        ("abc", "acb", 1),
        ("abcd", "badc", 2),
        ("gpumem", "gpmuem", 1),
        ("ca", "abc", 3),
    ],
)
def test_distance(left: str, right: str, edits: int) -> None:
    """Insertions, deletions, substitutions, and swaps of neighbours."""
    assert distance(left, right) == distance(right, left) == edits


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_distance_is_bounded_by_the_lengths(left: str, right: str) -> None:
    """At least the difference, at most the longer one; 0 for the same only."""
    found = distance(left, right)
    assert [distance(left, right, most) for most in range(5)] == [min(found, most + 1) for most in range(5)]
    assert abs(len(left) - len(right)) <= found <= max(len(left), len(right))
    assert (found == 0) == (left == right)
