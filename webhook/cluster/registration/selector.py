"""Label selectors, as the API server evaluates them (``metav1.LabelSelector``)."""

from collections.abc import Mapping
from typing import Any


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a selector matches labels; an empty one matches everything.

    A term that cannot be parsed matches: the API server would not have stored it.
    """
    equal = selector.get("matchLabels") or {}
    terms = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in equal.items()) and all(_holds(term, labels) for term in terms)


def _holds(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = str(term.get("key")), term.get("values") or ()
    match term.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return True
