"""The policy: who owns a name, who may be translated to whom, and that the same documents are the same policy."""

import json

from tests.mapping.vendors import ACME, policy
from webhook.admission import Context, Namespace, decide
from webhook.mapping.document.settings import Settings
from webhook.mapping.load import load_policy, vendors_with
from webhook.mapping.model.policy import compile_policy, shared_names
from webhook.pod import decode_pod
from webhook.reasons import Reason

OTHER = ACME.replace("vendor: acme", "vendor: other").replace("acme.com", "other.com")


def test_names_that_two_patterns_match_are_refused() -> None:
    """A pod with a name that patterns of two vendors match is denied, and the denial names both."""
    document = (
        "vendor: {0}\nfamily: x\nvariables: {{m: {{values: '{1}'}}}}\n"
        "keys: {{w: {{resource: 'x.io/{{m}}-gpu', is: devices}}}}\nforms: [{{name: whole, memory: all, cores: 100}}]\n"
    )
    found = policy(document.format("one", "[a-m]+"), document.format("two", "[m-z]+"))
    outcomes = {}
    for name in ("x.io/a-gpu", "x.io/m-gpu", "x.io/z-gpu"):
        sent = {"spec": {"containers": [{"name": "c", "resources": {"limits": {name: "1"}}}]}}
        context = Context(Namespace("team", {"vgpu-webhook.io/inject": "enabled"}))
        outcomes[name] = decide(decode_pod(json.dumps(sent).encode()), context, found).reason
    assert outcomes == {
        "x.io/a-gpu": Reason.ALREADY_RIGHT,
        "x.io/m-gpu": Reason.AMBIGUOUS_NAME,
        "x.io/z-gpu": Reason.ALREADY_RIGHT,
    }


def test_owner_decides_who_is_in_force() -> None:
    """The setting puts one vendor in force and the other inactive; its remaining keys are known as such."""
    usual = load_policy()
    assert usual.resources.owners("aliyun.com/gpu-mem")[0].vendor == "aliyun"
    assert usual.inactive == {}
    chosen = policy(settings="owners: {aliyun.com/gpu-mem: gpushare}\n")
    assert chosen.resources.owners("aliyun.com/gpu-mem")[0].vendor == "gpushare"
    assert chosen.labels.owners("aliyun.com/gpu-count") == ()
    owner, disputed = chosen.inactive["aliyun.com/gpu-core.percentage"]
    assert (owner.vendor, disputed) == ("aliyun", "aliyun.com/gpu-mem")
    assert {owner.vendor for owner, _ in chosen.inactive.values()} == {"aliyun"}


def test_what_takes_long_is_made_before_the_first_pod() -> None:
    """In a policy for use; of the many that are only tried while documents are combined, it is never made."""
    assert {"near", "read_keys"} <= vars(policy(ACME)).keys()
    assert "near" not in vars(compile_policy(vendors_with({}), Settings(), ""))


def test_who_stands_by_without_a_dispute_owns_nothing() -> None:
    """A name that nobody in force uses is nobody's key, and no near miss of itself."""
    renamed = policy("extends: nvidia\nkeys: {gpu: {resource: a.example/gpu}}\n")
    assert "nvidia.com/gpu" not in renamed.inactive
    assert renamed.near.find("nvidia.com/gpu") is None
    chosen = policy(settings="owners: {nvidia.com/gpu: whole}\n")
    assert {name for _, name in chosen.inactive.values()} == {"nvidia.com/gpu"}
    assert chosen.inactive["nvidia.com/gpumem"][0].vendor == "nvidia"


def test_names_with_variables_are_looked_up() -> None:
    """Listed names by dictionary, patterns below their prefix; each binds what its variables stand for."""
    found = policy(
        "vendor: m\nfamily: x\nvariables: {model: {values: '[a-z0-9]+_[0-9]+g', write: a10_24g}}\n"
        "keys: {c: {resource: 'm.io/{model}_cgpu', is: devices}}\nforms: [{name: whole, memory: all, cores: 100}]\n"
    )
    assert found.resources.owners("m.io/v100_16g_cgpu")[0].binding == (("model", "v100_16g"),)
    assert found.resources.owners("m.io/v100_cgpu") == ()
    assert found.resources.owners("iluvatar.ai/MR-V100.vMem")[0].binding == (("chip", "MR-V100"),)
    assert found.resources.owners("iluvatar.ai/MR-V200.vMem") == ()


def test_digest_is_that_of_the_documents() -> None:
    """12 hex digits; the same for the same documents in any order, another for any change, built-in ones included."""
    plain, again = load_policy().digest, policy(settings="{}").digest
    assert plain == again
    assert len(plain) == 12
    assert set(plain) <= set("0123456789abcdef")
    assert policy(ACME, OTHER).digest == policy(OTHER, ACME).digest
    digests = {
        plain,
        policy(ACME).digest,
        policy("extends: vcuda\nabout: x\n").digest,
        policy(settings="target: nvidia\n").digest,
    }
    assert len(digests) == 4


def test_usual_settings_say_nothing_new() -> None:
    """A setting written as it is anyway does not change the policy's digest."""
    assert policy(settings="nodeName: deny\nsmallestMemory: 256Mi\n").digest == load_policy().digest


def test_shared_names_are_listed() -> None:
    """Each with its active vendor and the others, in alphabetical order; what one vendor alone has is not shared."""
    own = "family: x\nforms: [{name: whole, memory: all, cores: 100}]\n"
    texts = [
        f"vendor: first\n{own}keys: {{b: {{resource: x.io/b, is: devices}}, a: {{resource: x.io/a, is: devices}}}}\n",
        f"vendor: second\ninactive: true\n{own}keys: {{b: {{resource: x.io/b, is: devices}}}}\n",
    ]
    found = [shared for shared in shared_names(policy(*texts)) if shared.name.startswith("x.io/")]
    assert [(shared.name, shared.owner, shared.others) for shared in found] == [("x.io/b", "first", ("second",))]
