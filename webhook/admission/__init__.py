"""The steps from a pod to a decision: eligibility, survey, reading, defaults, translation, placement, shim, status.

`decide` is a pure function: no I/O, no clock, no globals. The server, the command line and every test call the same one.
A step that denies the pod raises `Denied`.
"""

from webhook.admission.decision import Context, Decision, Namespace
from webhook.admission.engine import decide

__all__ = ["Context", "Decision", "Namespace", "decide"]
