"""What becomes of the manifests of other projects, under several policies, side by side in `becomes.txt`.

A file has the shapes of one project: written here, reduced to what the webhook could read, never copied. `# source:` names
the repository, the file in it and the commit. ``--update-golden`` writes `becomes.txt` anew from what the code does now: read
the difference as the author of each manifest would. What must hold whatever is in it is tested apart.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.naming import each_of
from webhook import labels
from webhook.admission import decide
from webhook.cli.commands.preview import NextPod, next_pods, preview_pods
from webhook.cli.files import Manifest, read_stream
from webhook.cli.options import PolicyOptions
from webhook.cli.policy_source import sourced_policy
from webhook.cli.simulate import Simulated, SimulatedObject, simulate
from webhook.mapping.document import Document
from webhook.mapping.load import build_policy
from webhook.mapping.model.policy import SETTINGS, Policy
from webhook.patch import Operation
from webhook.pod import Pod
from webhook.reasons import Reason

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = sorted(HERE.glob("*.yaml"))
SOURCE = re.compile(r"# source: github\.com/([\w.-]+/[\w.-]+) [\w./-]+\.(?:yaml|yml|md|rst) @[0-9a-f]{12}")
POLICIES: Final[Mapping[str, Mapping[str, str]]] = {
    "whole": {"bareDevices": "whole"},
    "share": {"bareDevices": "share"},
    "volcano": {"bareDevices": "whole", "target": "volcano"},
    "kai": {"bareDevices": "whole", "target": "kai"},
}
"""What each changes in the values for HAMi."""
WHOLE: Final = ("whole", "volcano", "kai")
"""Policies under which a device count alone is whole devices."""


@dataclass(frozen=True, slots=True)
class Becomes:
    """What becomes of one document.

    Attributes:
        title: its name in messages.
        pods: its pods that request something, or that would be changed or denied.
        others: the number of its other pods.
        reports: what is said of it as not read, or not judged.
    """

    title: str
    pods: tuple[NextPod, ...]
    others: int
    reports: tuple[str, ...]

    def lines(self) -> Iterator[tuple[str, str]]:
        for pod in self.pods:
            reason = pod.text.partition("; VGW")[0]  # warnings follow
            why = f" ({reason})" if pod.outcome == "unchanged" else ""
            told = "; ".join(", ".join(texts) for texts in (pod.effects, pod.codes) if texts)
            yield pod.workload, f"{pod.outcome}{why}{': ' if told else ''}{told}"
        if self.others:
            yield self.title, "no request" if self.others == 1 else f"no request in {self.others} pods"
        for report in self.reports:
            yield self.title, report
        if not (self.pods or self.others or self.reports):
            yield self.title, "no pod"


@cache
def policy_of(name: str) -> Policy:
    """The policy of the values for HAMi with the changes of a name."""
    sourced = sourced_policy(PolicyOptions(values=(ROOT / "examples/values/hami.yaml",)))
    assert sourced.settings is not None
    return build_policy(sourced.mappings, Document(SETTINGS, {**sourced.settings.data, **POLICIES[name]}, {}))


@cache
def read(file: Path) -> tuple[list[Manifest], tuple[str, ...]]:
    """The documents of a file, and why others cannot be read."""
    found, problems = read_stream(file.read_bytes(), file.name)
    return found, tuple(problem.message for problem in problems)


@cache
def becomes(file: Path, name: str) -> tuple[Becomes, ...]:
    """What becomes of each document of a file under a policy, as ``vgpu-webhook preview -f`` has it."""
    policy = policy_of(name)
    manifests, problems = read(file)
    found = [Becomes("?", (), 0, (f"not read: {problem}",)) for problem in problems]
    for manifest in manifests:
        outcome = simulate([manifest], policy)
        found += [Becomes("?", (), 0, (f"not read: {error.message}",)) for error in outcome.errors]
        for each in outcome.objects:
            shown = preview_pods([*next_pods([each], policy)])
            found.append(Becomes(each.title, shown.pods, shown.others, tuple(text for _, text, _ in each.unjudged)))
    return tuple(found)


def block(file: Path) -> str:
    """What is in the golden file about a file: policies with the same result share a line."""
    lines: dict[str, dict[str, list[str]]] = {}
    for name in POLICIES:
        for each in becomes(file, name):
            for shape, told in each.lines():
                lines.setdefault(shape, {}).setdefault(told, []).append(name)
    text = [file.name]
    for shape, results in lines.items():
        text.append(f"  {shape}")
        for told, names in results.items():
            every = "all" if set(names) == set(POLICIES) else ", ".join(dict.fromkeys(names))
            text.append(f"    {every}: {told}")
    return "\n".join([*text, ""])


def test_what_becomes_of_each(*, update_golden: bool) -> None:
    """Of each shape under each policy: the outcome, its effects, and the codes of what is told."""
    text = "\n".join(map(block, FILES))
    golden = HERE / "becomes.txt"
    if update_golden:
        golden.write_text(text)
    assert text == golden.read_text()


def sources() -> Iterator[str]:
    """The project of each source."""
    for file in FILES:
        lines = [line for line in file.read_text().splitlines() if line.startswith("#")]
        assert lines, f"{file.name} names no source"
        assert file.read_text().startswith("# source: "), f"{file.name} does not begin with its source"
        for line in lines:
            match = SOURCE.fullmatch(line)
            assert match is not None, f"{file.name}: {line}"
            yield match[1]


def test_sources() -> None:
    """Each file begins with a source and has no other comment; there are enough projects and shapes."""
    assert len(set(sources())) >= 60
    assert sum(len(list(each.lines())) for file in FILES for each in becomes(file, "whole")) >= 100


COUNTS: Final = frozenset(
    {
        *("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi"),
        *("aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "birentech.com/gpu", "vastaitech.com/va"),
        *("cambricon.com/mlu", "nvshare.com/gpu"),
    }
)
"""Names of whole devices, by what the plugins that have them say."""
OTHER: Final = frozenset({"vpc.amazonaws.com/efa"})
"""What has a name with a slash here, but is no accelerator."""
OTHERS_OWN: Final = frozenset({"cambricon.com/mlu", "habana.ai/gaudi", "nvshare.com/gpu"})
"""Accelerators of systems that no mapping reads: their pods stay as they are, and nothing is said of them."""


def accelerators(amounts: Mapping[str, Any] | None) -> set[str]:
    """The accelerators in a list of resources: here, any name with a slash is one."""
    return {name for name, amount in (amounts or {}).items() if "/" in name and str(amount) != "0"} - OTHER


def requested(value: Any) -> Iterator[set[str]]:
    """The accelerators in each ``resources`` of a document, wherever it is."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: set[str] = set()
    for key, child in items:
        if key in {"limits", "requests"} and isinstance(child, dict):
            found |= accelerators(child)
        yield from requested(child)
    if found:
        yield found


def in_pod(pod: Pod) -> list[set[str]]:
    """The accelerators of each container that requests any."""
    lists = [
        container.resources
        for container in (*pod.spec.containers, *(pod.spec.init_containers or ()))
        if container.resources
    ]
    names = [accelerators(each.limits) | accelerators(each.requests) for each in lists]
    return [each for each in names if each]


def objects(file: Path, name: str) -> Iterator[tuple[Manifest, Simulated]]:
    """Each document of a file, with what is simulated of it."""
    for manifest in read(file)[0]:
        yield manifest, simulate([manifest], policy_of(name))


def shown_of(each: SimulatedObject, name: str) -> Iterator[Pod]:
    """The pods of an object that a preview shows."""
    shown = {pod.workload for pod in next_pods([each], policy_of(name)) if pod.listed}
    for part in each.pods:
        if (f"{each.title}, {part.path}" if len(each.pods) > 1 else each.title) in shown:
            yield part.pod


@each_of("name", POLICIES)
def test_never_silence(name: str) -> None:
    """Each list of resources with an accelerator is judged with its pod, or reported as not judged."""
    silent = set()
    for file in FILES:
        for manifest, found in objects(file, name):
            told = len(found.errors) + sum(len(each.unjudged) for each in found.objects)
            judged = [names for each in found.objects for pod in shown_of(each, name) for names in in_pod(pod)]
            everywhere = list(requested(manifest.data))
            if told == 0 and len(judged) < len(everywhere):
                silent |= set().union(*everywhere)
    assert silent == OTHERS_OWN


def written(patch: Sequence[Operation]) -> Iterator[tuple[str, str]]:
    """Each key that a patch writes, with its value; not the status that describes it."""
    for operation in patch:
        key, value = operation["path"].rpartition("/")[2].replace("~1", "/"), operation.get("value")
        pairs = value.items() if isinstance(value, dict) else [(key, value)]
        yield from ((key, str(text)) for key, text in pairs if not key.startswith(labels.PREFIX))


def privileged(pod: Pod) -> bool:
    """Whether any container is, with devices or without."""
    everyone = (*(pod.spec.init_containers or ()), *pod.spec.containers)
    return any(each.security_context is not None and each.security_context.privileged for each in everyone)


@pytest.mark.parametrize("name", WHOLE)
def test_whole_devices_stay_whole(name: str) -> None:
    """A pod with device counts alone never gets less than all memory, whatever is written for it, nor is it denied.

    Except for a privileged container, by whatever webhook it goes to: HAMi's denies each pod with devices and such a one.
    """
    policy, seen = policy_of(name), 0
    for each in (each for file in FILES for _, found in objects(file, name) for each in found.objects):
        for part in each.pods:
            pod = part.pod
            names = in_pod(pod)
            if not names or not all(len(keys) == 1 and keys <= COUNTS for keys in names):
                continue
            seen += 1
            decision = decide(pod, part.context, policy)
            if decision.denial is not None:
                assert (decision.reason, privileged(pod)) == (Reason.PRIVILEGED, True), each.title
                continue
            if any(finding.reason is Reason.SCHEDULER_KEPT for finding in decision.warnings):
                assert not decision.patch, f"{each.title} is written for a scheduler that it does not get"
            for key, text in written(decision.patch):
                if re.search("mem|fraction|cores|ratio", key):
                    assert (text, re.search("percentage|cores", key) is not None) == ("100", True), (each.title, key)
    assert seen >= 50


@each_of("name", POLICIES)
def test_what_requests_nothing_is_left_alone(name: str) -> None:
    """Device plugins, drivers, exporters and workloads of CPUs stay as they are, privileged or not."""
    seen = 0
    for file in FILES:
        for each in becomes(file, name):
            seen += each.others
        for _, found in objects(file, name):
            for part in (part for each in found.objects for part in each.pods):
                if not in_pod(part.pod) and not part.pod.metadata.annotations:
                    assert not decide(part.pod, part.context, policy_of(name)).patch
    assert seen >= 20


def test_what_cannot_be_read() -> None:
    """Only files without an object of Kubernetes, or templates that are no YAML, cannot be read, and each says so."""
    unread = {file.stem for file in FILES if any(each.title == "?" for each in becomes(file, "whole"))}
    texts = {file: file.read_text() for file in FILES}
    assert unread == {
        file.stem
        for file, text in texts.items()
        if "{{" in text or any("\nkind: " not in document for document in text.split("\n---\n"))
    }
