"""Notes on the pods in manifests: what admission records without a warning."""

from collections import Counter
from collections.abc import Iterator

from webhook.admission import Context, Decision, decide
from webhook.cli.manifests.manifest import Manifest, ManifestError
from webhook.cli.manifests.simulate import SimulateOptions, simulate
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod
from webhook.reasons import Reason


def pod_notes(manifests: list[Manifest], policy: Policy) -> Iterator[str]:
    """Return a line for each file with notes on its pods: their codes, and how many containers each concerns."""
    found: dict[str, Counter[Reason]] = {}
    options = SimulateOptions(opt_in=policy.settings.opt_in_label)
    for manifest in manifests:
        reasons = found.setdefault(manifest.source, Counter())

        def decided(pod: Pod, context: Context, reasons: Counter[Reason] = reasons) -> Decision:
            decision = decide(pod, context, policy)
            reasons.update(note.reason for note in decision.notes)
            return decision

        try:
            simulate([manifest], decided, options)
        except ManifestError:
            continue  # other commands report it: `check` examines documents
    for source, reasons in found.items():
        if reasons:
            counts = (f"{reason.code} ({reason.value.title}) in {_counted(times)}" for reason, times in reasons.items())
            yield f"{source}: {', '.join(counts)}"


def _counted(containers: int) -> str:
    return f"{containers} container{'' if containers == 1 else 's'}"
