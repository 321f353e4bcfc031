"""What a run prints: the figures, and for each broken rule the first pod that breaks it, ready to be tried by hand."""

import json
from collections.abc import Iterator

from tests.fuzz.generate import Case
from tests.fuzz.judge import Tally, judge
from tests.fuzz.policies import SETUPS
from tests.fuzz.trial import NAMESPACE

SHOWN = 30
"""Kinds of findings of which a pod is shown."""


def figures(tally: Tally, seconds: float) -> str:
    """The one line of a run."""
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in tally.outcomes.most_common())
    speed = tally.pods / seconds if seconds else 0
    return (
        f"{tally.pods:,} pods: {counts}; {100 * tally.judged:.1f} % of the denials judged; "
        f"{sum(tally.findings.values()):,} findings of {len(tally.findings)} kinds; "
        f"{speed:,.0f} pods a second"
    )


def reproductions(tally: Tally, seed: int) -> Iterator[str]:
    """Each kind of finding with the first pod that has it, the most frequent first."""
    from tests.fuzz.generate import case_of

    for (rule, vendor), count in tally.findings.most_common(SHOWN):
        number = tally.first[rule, vendor]
        case = case_of(seed, number)
        found = [each for each in judge(case, closely=True)[1] if (each.rule, each.vendor) == (rule, vendor)]
        detail = found[0].detail if found else "not seen again: does the decision depend on what was decided before?"
        title = f"## {rule}" + (f" ({vendor})" if vendor else "")
        yield f"{title}: {count:,} times, first in pod {number} of seed {seed}\n{detail}\n{manifest(case)}"


def manifest(case: Case) -> str:
    """A case as commands of a shell; JSON is YAML, too."""
    namespace = {"name": NAMESPACE, "labels": case.labels, "annotations": case.annotations}
    pod = {**case.pod, "metadata": {**case.pod["metadata"], "namespace": NAMESPACE}}
    documents = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": namespace},
        {"apiVersion": "v1", "kind": "Pod", **pod},
    ]
    setup = SETUPS[case.setup]
    lines, options = [], ""
    for option, text in (("mappings", setup.mappings.strip()), ("settings", setup.settings)):
        if text and text != "{}":
            lines.append(f"cat > {option}.yaml <<'END'\n{text}\nEND")
            options += f" --{option} {option}.yaml"
    lines.append(f"vgpu-webhook mutate{options} -o diff -f - <<'END'")
    lines.extend(f"--- {json.dumps(document, ensure_ascii=False)}" for document in documents)
    user = f"# as user {case.user}\n" if case.user else ""
    return f"# policy: {setup.name}\n{user}" + "\n".join(lines) + "\nEND\n"
