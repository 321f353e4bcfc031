"""A mapping that would send ordinary pods to the webhook is not in order, nor is one with more names than conditions hold."""

from importlib import resources

from tests.cluster.gpu_pods import keys_of, ordinary_pods, resources_of
from tests.mapping.vendors import ACME, policy, problems, vendor
from tests.naming import each_of
from webhook.mapping.document import parse
from webhook.mapping.load import builtin, load_policy
from webhook.mapping.model.compiling import BESIDE, MOST, Capacity, MatchLoad
from webhook.mapping.model.vendor import LetsThrough

(ORDINARY,) = parse((resources.files("webhook.mapping") / "ordinary.yaml").read_text(), "")
NATIVE = ["cpu", "memory", "ephemeral-storage", "pods", "hugepages-2Mi", "attachable-volumes-csi-x"]
OF_KUBERNETES = ["kubernetes.io/x", "batch.kubernetes.io/x", "k8s.io/x", "node.k8s.io/x"]


@each_of("name", [*NATIVE, *OF_KUBERNETES, "gpu", "C.example/x", "-/x", "/x"])
def test_no_device(name: str) -> None:
    """As a key, as a spelling among others, by a variable, in `match`."""
    values = f"variables: {{x: {{values: ['{name}']}}}}\n"
    for text, line in (
        (ACME.replace("acme.com/gpu", name), 4),
        (ACME.replace("acme.com/gpu", f"[acme.com/gpu, '{name}']"), 4),
        (ACME.replace("acme.com/gpu", '"{x}"') + values, 4),
        (ACME + f"match: {{resources: ['{name}']}}\n", 9),
    ):
        assert {problem.line for problem in problems(text)} == {line}, text


@each_of(
    "key",
    [
        "{x}/gpu",
        "{x}.com/gpu",
        "a{x}/gpu",
        "{x}",
        "{x}.k8s.io/gpu",
        "{x}etes.io/gpu",
        "k{x}8s.io/gpu",
        "acme.{x}/gpu",
        "{x}gpu",
    ],
)
@each_of("place", ["resource", "label", "annotation"])
def test_no_pattern_without_a_domain(key: str, place: str) -> None:
    """What a variable may be in the place of the domain is not known."""
    text = ACME.replace("resource: acme.com/gpu", f"{place}: '{key}'") + "variables: {x: {values: '[a-z./]+'}}\n"
    assert {(problem.path[:2], problem.line) for problem in problems(text)} == {(("keys", "gpu"), 4)}


@each_of("key", ["app", "a", "gpu", "release", "pod-template-hash", "app.kubernetes.io/name", "istio.io/rev"])
@each_of("place", ["label", "annotation"])
def test_no_key_of_ordinary_pods(key: str, place: str) -> None:
    """As a key, and as a twin."""
    for text in (
        ACME.replace("resource: acme.com/gpu", f"{place}: {key}"),
        ACME.replace("resource: acme.com/gpu", f"{place}: acme.com/gpu, requestKey: {key}"),
    ):
        assert [(problem.path, problem.line) for problem in problems(text)] == [(("keys", "gpu", place), 4)]


@each_of(
    "key",
    ["*a*", "a*", "app*", "job-*", "*/x", "*.com/x", "*a/x", "kubectl.kubernetes.io/*", "*.kubernetes.io/x", "istio.io/r*",
     "*.istio.io/*", "pod-template-*", "prometheus.io/*", "controller*", "*-hash", "*netes.io/n*", "app*netes.io/name",
     "*s.io/n*", "k*8s.io/x"],
)  # fmt: skip
@each_of("place", ["owned: ['{}']", "owned: [{{label: '{}'}}]", "match: {{keys: ['{}']}}"])
def test_no_broad_mark(key: str, place: str) -> None:
    """A mark lets pods through, and is taken away from them."""
    found = problems(ACME + place.format(key) + "\n")
    assert {problem.line for problem in found} == {9}


@each_of(
    "prefix", ["c", "a", "", "acme.com", "*", "acme.com/*", "nvidia.com/g'", "*.com/", "kubernetes.io/", "x.k8s.io/g"]
)
def test_no_prefix_without_a_domain(prefix: str) -> None:
    """A prefix has a whole domain, and stars stand for nothing in it."""
    (found,) = problems(ACME + f'match: {{resources: [acme.com/g, "{prefix}"]}}\n')
    assert (found.path, found.line) == (("match", "resources", 1), 9)


@each_of("name", ORDINARY.data["resources"])
def test_no_domain_of_other_devices(name: str) -> None:
    """Nor a prefix that takes them in; beside them a mapping may be, with `match`."""
    domain = name.partition("/")[0]
    (found,) = problems(ACME.replace("acme.com/gpu", f"{domain}/new-gpu"))
    assert (found.path, found.line) == (("keys", "gpu", "resource"), 4)
    assert f"{domain}/* would hold back pods" in found.message
    assert "match: {resources:" in str(found.hint)
    policy(ACME.replace("acme.com/gpu", f"{domain}/new-gpu") + f"match: {{resources: [{domain}/new-, acme.com/]}}\n")
    assert problems(ACME + f"match: {{resources: [{name[:-1]}]}}\n")


def test_what_ordinary_pods_carry_is_known() -> None:
    """All that the pods of our samples carry."""
    never = {"windows", "mirror", "beside-gpus"}
    pods = [pod for pod in ordinary_pods() if pod["metadata"]["name"] not in never]
    for key in {key for pod in pods for key in keys_of(pod)}:
        text = ACME.replace("resource: acme.com/gpu", f"label: {key}")
        assert key in ORDINARY.data["keys"] or "/" in key or problems(text), key
    for name in {name for pod in pods for name in resources_of(pod)}:
        assert problems(ACME + f"match: {{resources: [{name}]}}\n"), name


def test_what_is_specific_is_in_order() -> None:
    """Domains of the vendor, a part of a domain that varies, long names without one; and every built-in mapping."""
    policy(
        ACME.replace("acme.com/gpu", "'{zone}.acme.com/gpu'").replace("acme.com/core", "acme/core")
        + "variables: {zone: {values: '[a-z]+'}}\n"
        "owned: ['acme.com/*', '*acme.com/mark*', acme-assigned, 'ACME_COM_GPU_*', {label: 'acme.com/{zone}-x'}]\n"
        "match: {resources: [acme.com/g, acme/c], keys: ['acme.com/own-*', 'acme.com/*', acme-assigned]}\n"
    )
    assert load_policy().vendors.keys() == builtin().keys()


def keys(count: int) -> str:
    """A list of so many keys of 53 characters."""
    return "[" + ", ".join(f"acme.com/{'k' * 40}{number:04}" for number in range(count)) + "]"


PATTERNS = "[" + ", ".join(f"'acme.com/{number}-*'" for number in range(40)) + "]"
PREFIXES = "[" + ", ".join(f"acme.com/g{number}" for number in range(33)) + "]"


@each_of(
    "more, path, number",
    [
        (f"match: {{keys: {keys(500)}}}", "match.keys", "30578 characters"),
        (f"match: {{keys: {PATTERNS}}}", "match.keys", "of patterns"),
        (f"match: {{resources: {PREFIXES}}}", "match.resources", "33 entries"),
        (f"match: {{keys: {keys(2000)}}}", "match.keys", "2000 entries"),
        (f"owned: {keys(500)}", "owned", "characters"),
    ],
)
def test_more_names_than_a_document_may_have(more: str, path: str, number: str) -> None:
    """Told with the number, where most of them stand."""
    (found,) = problems(f"{ACME}{more}\n")
    assert ".".join(map(str, found.path)) == path
    assert number in found.message
    assert found.line


def test_room_for_all() -> None:
    """Names that are there already cost nothing; what is too much is left out, and the next may fit."""
    room = Capacity()
    many = LetsThrough(keys=tuple(f"a.io/{n:05}" for n in range(2000)))
    assert room.take(many) == ""
    assert room.take(many) == ""
    beyond = room.take(LetsThrough(keys=tuple(f"b.io/{n:05}" for n in range(4000))))
    assert f"characters of a match condition, more than {MOST.characters}" in beyond
    assert room.take(LetsThrough(keys=("c.io/x",), prefixes=("c.io/",))) == ""
    assert "prefixes" in room.take(LetsThrough(prefixes=tuple(f"d.io/{n}" for n in range(33))))
    assert "patterns" in room.take(LetsThrough(resources=tuple(f"e.io/{n}-*" for n in range(500))))


def test_what_a_pattern_takes() -> None:
    """Its letters count twice: among the listed names, as a key and as a resource, and as it is written in an expression."""
    names = LetsThrough(keys=("a.io/*",))
    listed, written = 2 * (len("a.io/*") + BESIDE), len("a[.]io/.*") + 1
    assert Capacity(MatchLoad(listed + written, written, 0)).take(names) == ""
    assert "characters of a match condition" in Capacity(MatchLoad(listed + written - 1, written, 0)).take(names)
    assert "characters of patterns" in Capacity(MatchLoad(listed + written, written - 1, 0)).take(names)
    room = Capacity(MatchLoad(listed + written, written, 0))
    assert [room.take(names), room.take(names)] == ["", ""]
    assert f"{2 * (listed + written)} characters" in room.take(LetsThrough(keys=("b.io/*",)))


def test_prefixes_that_are_there_cost_nothing() -> None:
    """Whichever document had them, the last or an earlier one."""
    first, second = (LetsThrough(prefixes=(f"{domain}.io/x",)) for domain in "ab")
    room = Capacity(MatchLoad(2 * (len("a.io/x") + BESIDE), 0, 2))
    assert [room.take(each) for each in (first, second, first, second)] == [""] * 4


def test_more_documents_than_conditions_hold() -> None:
    """The one that no longer fits is reported: the last."""
    texts = [f"{ACME}owned: {keys(300)}\n".replace("acme", f"acme{number}") for number in range(5)]
    policy(*texts[:3])
    assert {(problem.source, problem.path, problem.line) for problem in problems(*texts)} == {("4.yaml", (), 1)}


def test_one_prefix_of_a_domain() -> None:
    """However many resource names there are below it, and none of a domain that varies."""
    varies = ACME.replace("acme.com/core", "'{zone}.acme.com/core'") + "variables: {zone: {values: '[a-z]+'}}\n"
    assert vendor(varies).lets_through.prefixes == ("acme.com/",)


def test_patterns_of_another_system_send_no_pod() -> None:
    """There is little room for them; whole names do."""
    names = '{resource: other.example/gpu, advice: write another}, {resource: "other.example/*", advice: write another}'
    through = policy(f"{ACME}known: [{names}]\n").vendors["acme"].lets_through.resources
    assert "other.example/gpu" in through
    assert "other.example/*" not in through


def test_no_name_of_ordinary_pods_as_one_of_another_system() -> None:
    """Below a domain that others share, too."""
    name = ORDINARY.data["resources"][0]
    (found,) = problems(f"{ACME}known: [{{resource: {name}, advice: nobody reads it}}]\n")
    assert found.message == f"{name} would hold back pods without a GPU"
