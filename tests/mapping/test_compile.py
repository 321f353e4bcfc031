"""What is wrong with a document is reported with its line, its path and what to write instead."""

import pytest

from tests.mapping.vendors import ACME, problems
from webhook.mapping.compile.probes import probe
from webhook.mapping.document.problem import MappingError
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy, load_policy

Mistake = tuple[str, str, int, str, str, str]
"""What is replaced by what; then line, path, a part of the message and a part of the hint."""

FORMS = ACME.partition("forms:\n")[2]
SCHEMA: list[Mistake] = [
    ("vendor: acme", "vendr: acme", 1, "vendr", "unknown key 'vendr'", "did you mean `vendor`"),
    ("family: acme\n", "", 1, "family", "the key 'family' is missing", ""),
    ("vendor: acme", "vendor: Acme", 1, "vendor", "not 'Acme'", ""),
    ("vendor: acme", "vendor: ", 1, "vendor", "string", ""),
    ("is: devices", "is: device", 4, "keys.gpu.is", "'device' is not one of", ""),
    ("is: devices", "is: [cores, x]", 4, "keys.gpu.is[1]", "'x' is not one of", ""),
    ("is: devices", "what: devices", 4, "keys.gpu.what", "unknown key 'what'", "known keys are"),
    ("is: cores", "is: cores, valus: 1..", 6, "keys.core.valus", "unknown key", "did you mean `values`"),
    ("is: cores", "is: cores, round: near", 6, "keys.core.round", "'near' is not one of", ""),
    ("is: cores", "is: cores, total: 1", 6, "keys.core.total", "boolean", ""),
    ("is: cores", "is: cores, list: maybe", 6, "keys.core.list", "boolean", ""),
    (f"forms:\n{FORMS}", "forms: []\n", 7, "forms", "is an empty list", "one entry"),
    ("name: share", "nam: share", 8, "forms[0].nam", "unknown key", "did you mean `name`"),
    ("devices: 1", "devices: 0", 8, "forms[0].absent.devices", "greater than or equal to 1", ""),
    ("devices: 1", "device: 1", 8, "forms[0].absent.device", "unknown key", "did you mean `devices`"),
    ("forms:", "defaults: {cores: 101}\nforms:", 7, "defaults.cores", "less than or equal to 100", ""),
    ("forms:", "defaults: {devices: -1}\nforms:", 7, "defaults.devices", "greater than or equal to 0", ""),
    ("forms:", "drop: [devices]\nforms:", 7, "drop[0]", "'devices' is not one of", ""),
    ("forms:", "place: {conflict: ask}\nforms:", 7, "place.conflict", "'ask' is not one of", ""),
    ("forms:", "place: {labels: {a b: x}}\nforms:", 7, "place.labels.a b", "a b", ""),
    ("forms:", "place: {labels: {a.b/c: x y}}\nforms:", 7, "place.labels.a.b/c", "x y", ""),
    ("forms:", "place: {annotations: {a b: x}}\nforms:", 7, "place.annotations.a b", "a b", ""),
    ("forms:", "place: {nodeSelector: {a/b/c: x}}\nforms:", 7, "place.nodeSelector.a/b/c", "a/b/c", ""),
    ("forms:", "place: {nodeSelector: {a.b/c: x y}}\nforms:", 7, "place.nodeSelector.a.b/c", "x y", ""),
    ("forms:", "place: {runtimeClassName: A}\nforms:", 7, "place.runtimeClassName", "A", ""),
    (
        "forms:",
        "place: {tolerations: [{keys: a}]}\nforms:",
        7,
        "place.tolerations[0].keys",
        "unknown key",
        "did you mean `key`",
    ),
    (
        "forms:",
        "place: {tolerations: [{operator: Is}]}\nforms:",
        7,
        "place.tolerations[0].operator",
        "is not one of",
        "",
    ),
    (
        "forms:",
        "place: {annotations: {vgpu-webhook.io/target: x}}\nforms:",
        7,
        "place.annotations.vgpu-webhook.io/target",
        "for users and this webhook only",
        "leave it out",
    ),
    (
        "forms:",
        "place: {annotations: {a.b/c: x}}\nowned: ['a.b/*']\nforms:",
        7,
        "place.annotations.a.b/c",
        "among `owned`",
        "",
    ),
    (
        "forms:",
        "place: {labels: {a.b/c: x}}\nowned: [{label: 'a.b/*'}]\nforms:",
        7,
        "place.labels.a.b/c",
        "among `owned`",
        "",
    ),
    ("forms:", "containers: two\nforms:", 7, "containers", "'two' is not one of", ""),
    ("forms:", "privileged: maybe\nforms:", 7, "privileged", "'maybe' is not one of", ""),
    ("forms:", "initContainers: refused\nforms:", 7, "initContainers", "is not one of", ""),
    ("forms:", "init_containers: served\nforms:", 7, "init_containers", "unknown key", "did you mean `initContainers`"),
    ("forms:", "inactive: 1\nforms:", 7, "inactive", "boolean", ""),
    ("forms:", "known: all\nforms:", 7, "known", "list", ""),
    ("forms:", "configMaps: 'a b'\nforms:", 7, "configMaps", "a b", ""),
    ("forms:", "configMaps: a.b/c\nowned: ['a.b/*']\nforms:", 7, "configMaps", "among `owned`", ""),
    ("forms:", "variables: {m: {value: [a]}}\nforms:", 7, "variables.m.value", "unknown key", "did you mean `values`"),
]
IN_KEYS: list[Mistake] = [
    ("resource: acme.com/gpu,", "", 4, "keys.gpu", "needs exactly one place", "write one of `resource`, `label`"),
    ("resource: acme.com/gpu", "resource: a.b/c, label: a.b/d", 4, "keys.gpu", "exactly one place", ""),
    ("resource: acme.com/gpu", "resource: []", 4, "keys.gpu.resource", "is an empty list", "one entry"),
    ("acme.com/gpu,", '"acme.com/{chip}",', 4, "keys.gpu.resource", "variable {chip} is not defined", "`variables`"),
    (
        "resource: acme.com/core,",
        "annotation: acme.com/core, total: true,",
        6,
        "keys.core.total",
        "needs `containers`",
        "one",
    ),
    (
        "resource: acme.com/core,",
        "label: acme.com/core, total: true,",
        6,
        "keys.core.total",
        "of its containers request",
        "`shared`, or `any`",
    ),
    ("  core:", "  cores:", 6, "keys.cores", "may not have the name of a dimension", "cores-key"),
    ("unit: 1Mi", "unit: 1Zi", 5, "keys.mem.unit", "Zi", "write a size"),
    ("unit: 1Mi", "unit: 0", 5, "keys.mem.unit", "0 is not above 0", ""),
    ("unit: 1Mi", "unit: -1Mi", 5, "keys.mem.unit", "not above 0", ""),
    ("unit: 1Mi", "unit: much%", 5, "keys.mem.unit", "'much' is not", ""),
    ("unit: 1Mi", "unit: null", 5, "keys.mem", "`unit: null` needs `why`", ""),
    (", unit: 1Mi", "", 5, "keys.mem", "a memory key needs a `unit`", "`1Mi`"),
    ("is: cores", "is: cores, unit: 1Mi", 6, "keys.core.unit", "only memory has a size", "`1%`"),
    ("is: cores", "is: cores, values: 5...9", 6, "keys.core.values", "is not a set of numbers", ""),
    ("is: cores", "is: cores, values: 9..5", 6, "keys.core.values", "'9..5' contains no number", ""),
    ("is: cores", "is: cores, values: 1..9 by 0", 6, "keys.core.values", "contains no number", ""),
    ("is: cores", "is: cores, step: 0", 6, "keys.core.step", "not above 0", ""),
    ("is: cores", "is: cores, step: x", 6, "keys.core.step", "not a Kubernetes quantity", ""),
    ("is: devices", "is: text, rowOf: profile", 4, "keys.gpu.rowOf", "variable 'profile' is not defined", ""),
    ("is: cores", "is: cores, ceiling: {of: mem}", 6, "keys.core.ceiling", "annotation with `is: other`", ""),
    (
        "forms:",
        "  top: {annotation: acme.com/top, is: other, written: quantity, ceiling: {of: memory, per: 1Mi}}\nforms:",
        7,
        "keys.top.ceiling.of",
        "no amount is called 'memory'",
        "gpu, mem, core, top",
    ),
    (
        "forms:",
        "  top: {annotation: acme.com/top, is: other, ceiling: {of: mem, per: 0}}\nforms:",
        7,
        "keys.top.ceiling.per",
        "0 is not above 0",
        "",
    ),
    ("is: devices", "is: container", 4, "keys.gpu", "needs `absent`", "`absent: first`"),
]
VARIABLES: list[Mistake] = [
    ("forms:", "variables: {m: {}}\nforms:", 7, "variables.m", "needs `values` or `rows`", ""),
    ("forms:", "variables: {m: {values: '['}}\nforms:", 7, "variables.m.values", "invalid regular expression", ""),
    (
        "forms:",
        "variables: {m: {rows: {}, others: '('}}\nforms:",
        7,
        "variables.m.others",
        "invalid regular expression",
        "",
    ),
    ("forms:", "variables: {m: {values: '(?P<m>a)'}}\nforms:", 7, "variables.m.values", "groups", ""),
    ("forms:", "variables: {m: {values: [a], write: b}}\nforms:", 7, "variables.m.write", "'b' is none of a", ""),
    ("forms:", "variables: {m: {rows: {a: {}}, write: b}}\nforms:", 7, "variables.m.write", "'b' has no row", "a"),
    ("forms:", "variables: {m: {rows: {a: {memory: x}}}}\nforms:", 7, "variables.m.rows.a.memory", "'x' is not", ""),
    ("forms:", "variables: {m: {rows: {a: {cores: 101}}}}\nforms:", 7, "variables.m.rows.a.cores", "101 is no", ""),
    (
        "forms:",
        "variables: {m: {rows: {a: {values: {mem: x}}}}}\nforms:",
        7,
        "variables.m.rows.a.values.mem",
        "not a set",
        "",
    ),
]
IN_FORMS: list[Mistake] = [
    ("name: share", "when: {gpus: 1}", 8, "forms[0].when.gpus", "no key is called 'gpus'", "keys are gpu, mem, core"),
    ("name: share", "when: {memory: 5}", 8, "forms[0].when.memory", "can be `absent` or `present`", "name a key"),
    ("name: share", "when: {gpu: many}", 8, "forms[0].when.gpu", "'many' is not a set of numbers", ""),
    ("name: share", "devices: {key: gpus, per: 1}", 8, "forms[0].devices.key", "no key is called 'gpus'", "gpu"),
    ("name: share", "devices: {key: core, per: 0}", 8, "forms[0].devices.per", "greater than or equal to 1", ""),
    ("name: share", "devices: 0", 8, "forms[0].devices", "less than one device", ""),
    ("name: share", "memory: most", 8, "forms[0].memory", "'most' is not", "write `all`"),
    ("name: share", "memory: -1", 8, "forms[0].memory", "below zero", ""),
    ("name: share", "cores: 101", 8, "forms[0].cores", "101 is not a percentage", ""),
    ("memory: all", "memory: some", 8, "forms[0].absent.memory", "'some' is not", ""),
    ("cores: unlimited", "cores: none", 8, "forms[0].absent.cores", "'none' is not", ""),
    ("name: share", "keys: {gpus: {}}", 8, "forms[0].keys.gpus", "no key is called 'gpus'", "gpu, mem, core"),
    ("name: share", "keys: {mem: {unit: 0}}", 8, "forms[0].keys.mem.unit", "not above 0", ""),
    ("name: share", "keys: {mem: {values: x}}", 8, "forms[0].keys.mem.values", "not a set of numbers", ""),
    ("name: share", "keys: {mem: {step: 0}}", 8, "forms[0].keys.mem.step", "not above 0", ""),
    ("forms:", "forms:\n- {name: share, when: {gpu: 9}}", 7, "forms", "two forms are called 'share'", ""),
    ("forms:", "forms:\n- {when: {gpu: 9}, deny: 'not {gpus}'}", 8, "forms[0].deny", "no key is called 'gpus'", "gpu"),
    ("forms:", "forms:\n- {when: {gpu: 9}, deny: x, devices: 1}", 8, "forms[0]", "has no other keys", "keep `when`"),
    (
        ACME,
        ACME.replace("  core: {resource: acme.com/core, is: cores}\n", "").replace(", cores: unlimited", ""),
        7,
        "forms[0]",
        "nothing defines cores",
        "add `cores:`",
    ),
]
BESIDE: list[Mistake] = [
    ("forms:", "defaults: {memory: lots}\nforms:", 7, "defaults.memory", "'lots' is not", "write `all`"),
    ("forms:", "owned: ['*']\nforms:", 7, "owned[0]", "matches every key", ""),
    ("forms:", "owned: ['a/{x}']\nforms:", 7, "owned[0]", "variable {x} is not defined", "`*`"),
    ("forms:", "hints: ['{x}/a']\nforms:", 7, "hints[0]", "variable {x} is not defined", ""),
    (
        ACME,
        ACME.replace("resource: acme.com/gpu", "label: acme.com/gpu") + "owned: [{label: 'acme.com/*'}]\n",
        9,
        "owned",
        "is the key 'gpu'",
        "",
    ),
    (
        "forms:",
        "shim: {limit: plugin, forms: [shares]}\nforms:",
        7,
        "shim.forms[0]",
        "no form is called 'shares'",
        "share",
    ),
    ("forms:", "guard: [{env: A}]\nforms:", 7, "guard[0]", "exactly one of `lifts`, `unless` and `from`", ""),
]
NO_CORES = ACME.replace("  core: {resource: acme.com/core, is: cores}\n", "")
FEW = "{name: few, when: {gpu: 1..2}, memory: all, cores: 100}"
PROBED: list[tuple[str, int, str, str]] = [
    (
        ACME.replace(
            FORMS,
            f"- {{when: {{gpu: [absent, '0..']}}, absent: {{memory: all, devices: 1, cores: unlimited}}}}\n{FORMS}",
        ),
        9,
        "forms[1]",
        "no keys reach the form 'share': an earlier one hides it",
    ),
    (f"{NO_CORES}defaults: {{cores: 30}}\n", 8, "defaults.cores", "no key of acme can express 30 %"),
    (
        ACME.replace(FORMS, f"- {FEW}\n- {{name: many, when: {{gpu: 3..}}, memory: all, cores: unlimited}}\n"),
        9,
        "forms[1]",
        "is read as 3 devices, whole, but cannot be written",
    ),
]


@pytest.mark.parametrize("text, line, path, message", PROBED, ids=[each[3] for each in PROBED])
def test_what_cannot_be_meant_is_found_by_probes(text: str, line: int, path: str, message: str) -> None:
    """A form that is never reached, a default without a key, a request that is read but never written back."""
    found = [problem for problem in problems(text) if where(problem.path) == path]
    assert found[0].line == line
    assert any(message in problem.message for problem in found)


def test_built_in_documents_pass_their_probes() -> None:
    """They are probed here, once and for all, not at every start."""
    loaded = load_policy()
    for vendor in loaded.vendors.values():
        assert probe(vendor, loaded.largest_card) == []


@pytest.mark.parametrize(
    "mistake", [*SCHEMA, *IN_KEYS, *VARIABLES, *IN_FORMS, *BESIDE], ids=lambda each: f"{each[3]}: {each[4]}"
)
def test_mistake_is_reported_with_its_place(mistake: Mistake) -> None:
    """The problem names the line and the path, and where there is one, what to write instead."""
    old, new, line, path, message, hint = mistake
    assert old in ACME
    found = {where(problem.path): problem for problem in reversed(problems(ACME.replace(old, new, 1)))}
    assert path in found
    problem = found[path]
    assert (problem.source, problem.line) == ("0.yaml", line)
    assert message in problem.message
    assert hint in (problem.hint or str(problem))


def where(path: tuple[str | int, ...]) -> str:
    """A path as messages show it."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def test_all_mistakes_at_once() -> None:
    """Whoever writes a document is not sent back for each mistake."""
    text = ACME.replace("unit: 1Mi", "unit: 0").replace("is: cores", "is: cores, values: x")
    assert [where(problem.path) for problem in problems(text)] == ["keys.mem.unit", "keys.core.values"]


def test_mistakes_of_all_documents_at_once() -> None:
    """One bad document does not hide another's mistakes."""
    found = problems(ACME.replace("unit: 1Mi", "unit: 0"), "extends: nvidia\ndefault: {}\n", settings="targets: x\n")
    assert sorted((problem.source, where(problem.path)) for problem in found) == [
        ("0.yaml", "keys.mem.unit"),
        ("1.yaml", "default"),
        ("settings.yaml", "targets"),
    ]


def test_variables_are_in_keys() -> None:
    """What the device plugin sets is a key's number, or nothing that is known."""
    (problem,) = problems("extends: aliyun\nenvironment: {A: gpu-memory}\n")
    assert (problem.path, problem.message) == (("environment", "A"), "no key is called 'gpu-memory'")


def test_patterns_of_labels_of_nodes_are_checked() -> None:
    """The one that cannot be read is named; a label that no node can have is none."""
    sign = "extends: aliyun\nsharedNames: [{resource: nvidia.com/gpu, nodes: {%s}, instead: rename it}]\n"
    (problem,) = problems(sign % "a.example/b: '(?i)x'")
    assert problem.path == ("sharedNames", 0, "nodes", "a.example/b")
    assert "the pattern '(?i)x' only" in problem.message
    (problem,) = problems(sign % "a/b/c: x")
    assert problem.path[:3] == ("sharedNames", 0, "nodes")


@pytest.mark.parametrize(
    "text,message",
    [
        ("defaults: {memory: 8000}", "a bare number is ambiguous"),
        ("defaults: {memory: 100m}", "less than 1Mi"),
        ("defaults: {memory: unlimited}", "not a Kubernetes quantity"),
        ("defaults: {memory: 2Ti}", "no device has 2 TiB"),
        ("defaults: {devices: 5000}", "no node has 5000 devices"),
        ("keys: {gpumem: {resource: nvidia.com/gpu}}", "is already the key 'gpu'"),
        ('place: {scheduler: ""}', "at least 1 character"),
    ],
)
def test_documents_that_would_deny_or_starve_every_pod_are_refused(text: str, message: str) -> None:
    """A mistake in a mapping is reported when it is loaded, not to every pod."""
    with pytest.raises(MappingError, match=message):
        build_policy(parse(f"extends: nvidia\n{text}\n", "nvidia.yaml"))


CLAIMS = """\
vendor: acme
family: acme
claim: {driver: gpu.acme.com, class: share.acme.com, distinct: uuid}
keys:
  count: {claim: count, is: devices}
  mem: {claim: memory, is: memory, unit: 1Mi}
forms:
- {name: share, absent: {devices: 1, memory: all, cores: unlimited}}
"""


@pytest.mark.parametrize(
    "old, new, path, message",
    [
        ("claim: {driver", "about: none\nnone: {driver", "none", "unknown key 'none'"),
        ("claim: memory", "resource: acme.com/mem", "keys.mem", "has keys with `claim`, and no others"),
        ("claim: {driver: gpu.acme.com, class: share.acme.com, distinct: uuid}\n", "", "keys.count", "has keys with"),
        ("claim: memory, is: memory", "claim: count, is: memory", "keys.mem", "a count of devices, and capacities"),
        ("claim: memory", "claim: memory, total: true", "keys.mem", "for each device, in a known unit"),
        ("class: share", "class: Share", "claim.class", "Share"),
        ("unit: 1Mi}", "unit: 1Mi, counted: false}", "keys.mem.counted", "no variable of the shim has {memory}"),
        ("is: devices}", "is: devices, counted: false}", "keys.count", "only a capacity is not `counted`"),
        ("distinct: uuid", "partitions: acmi", "claim.partitions", "no vendor with claims is called 'acmi'"),
        ("distinct: uuid", "partitions: mig", "claim.partitions", "no vendor with claims is called 'mig'"),
        ("forms:", "  name: {claim: name, is: text}\nforms:", "keys.name", "whose value a row or an annotation names"),
        ("unit: 1Mi}", "unit: 1Mi, replace: {a: b}}", "keys.mem", "only an attribute has `replace`"),
        ("unit: 1Mi}", "unit: 1Mi, selects: uuid}", "keys.mem", "only an attribute has `replace`"),
        ("forms:", "defaults: {memory: 1Gi}\nforms:", "defaults", "nothing is filled in"),
    ],
)
def test_what_claims_cannot_mean(old: str, new: str, path: str, message: str) -> None:
    """Of a document that is valid otherwise: other keys beside claims, totals, and what could never apply."""
    assert build_policy(parse(CLAIMS, "claims")).vendors["acme"].claim is not None
    assert old in CLAIMS
    found = problems(CLAIMS.replace(old, new, 1))
    assert any(where(each.path) == path and message in each.message for each in found), found
