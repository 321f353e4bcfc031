"""Pods with what was decided on them."""

import json
from fractions import Fraction
from typing import Any

from hypothesis import event
from hypothesis import strategies as st

from tests.fuzz.oracle.keys import Cluster
from tests.fuzz.oracle.meaning import Amounts
from tests.fuzz.oracle.reading import Read, read_pod
from tests.generators.pods import pods, sound_pods
from tests.generators.policies import Configured, contexts, policies
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Decision, decide
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.quantity import parse_quantity


class Admitted:
    """A pod, what was decided on it, and what is stored."""

    def __init__(self, pod: dict[str, Any], context: Context, configured: Configured) -> None:
        self.pod = pod
        self.context = context
        self.policy = configured.policy
        self.decision = decision_on(pod, context, self.policy)
        self.stored = apply_strictly(pod, self.decision.patch)
        self._shown = f"{json.dumps(pod)} in {context.namespace}, {configured}"

    def __repr__(self) -> str:
        return f"<{self._shown}: {self.decision.reason.name}>"

    def containers(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Every container as it was sent and as it is stored."""
        return list(zip(all_containers(self.pod), all_containers(self.stored), strict=True))

    @property
    def card(self) -> Fraction | None:
        """The bytes of the device that the pod selects; None where it selects none, or one that the settings do not know."""
        selected = (self.pod["spec"].get("nodeSelector") or {}).get("nvidia.com/gpu.product")
        size = self.policy.settings.cards.get(selected or "")
        return None if size is None else Fraction(parse_quantity(str(size)))

    def read(self, pod: dict[str, Any], container: dict[str, Any]) -> Read:
        """What the container requests by the vendors' documentation."""
        gpushare = self.policy.vendors["gpushare"]
        unit = gpushare.keys["gpu-mem"].unit
        assert isinstance(unit, int)
        owners = {} if gpushare.inactive else {"aliyun.com/gpu-mem": "gpushare"}
        reads = read_pod(pod, Cluster(owners, {"gpushare": unit}))
        return next(read for read in reads if read.name == container["name"])

    def amounts(self, pod: dict[str, Any], container: dict[str, Any]) -> Amounts | None:
        """What the container gets by the vendors' documentation, without anybody's defaults."""
        meaning = self.read(pod, container).meaning
        return None if meaning is None else meaning.amounts()


def all_containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Containers and init containers."""
    return [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]


def decision_on(pod: dict[str, Any], context: Context, policy: Policy) -> Decision:
    """The decision on a pod in JSON."""
    return decide(decode_pod(json.dumps(pod).encode()), context, policy)


@st.composite
def admissions(draw: st.DrawFn) -> Admitted:
    """A pod with the decision on it."""
    admitted = Admitted(
        draw(st.one_of(sound_pods(), sound_pods(), sound_pods(), pods())), draw(contexts()), draw(policies())
    )
    event(admitted.decision.reason.name)
    return admitted


def allowed() -> st.SearchStrategy[Admitted]:
    """Those that are not denied."""
    return admissions().filter(lambda each: each.decision.allowed)


def changed() -> st.SearchStrategy[Admitted]:
    """Those that are changed."""
    return admissions().filter(lambda each: bool(each.decision.patch))
