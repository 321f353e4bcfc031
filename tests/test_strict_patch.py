"""The applier of the tests refuses what some other applier would take."""

from typing import Any

import pytest

from tests.strict_patch import PatchError, apply_strictly


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/missing/key", "value": 1},
        {"op": "add", "path": "/list", "value": []},
        {"op": "add", "path": "/map", "value": {}},
        {"op": "add", "path": "/list/2", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "replace", "path": "/list/1", "value": 1},
        {"op": "remove", "path": "/none"},
        {"op": "remove", "path": "/list/-"},
        {"op": "remove", "path": "/text/0"},
        {"op": "test", "path": "/text", "value": "t"},
        {"op": "copy", "path": "/list/0", "from": "/text"},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "/m~2", "value": 1},
    ],
)
def test_the_strict_applier_is_strict(operation: Any) -> None:
    """It refuses whatever some applier, or the API server, could refuse or some user regret."""
    with pytest.raises(PatchError):
        apply_strictly({"list": [0], "map": {}, "text": "t"}, [operation])
