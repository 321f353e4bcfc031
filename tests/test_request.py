"""The canonical request: what is whole, what is settled, how it is reported."""

import pytest

from webhook.request import ALL, UNLIMITED, Percent, Request, Size

MIB = 1024**2


@pytest.mark.parametrize(
    "request_, whole, settled, text",
    [
        (Request(), False, False, "? devices, each with unspecified memory, unspecified cores"),
        (Request(1), False, False, "1 device, each with unspecified memory, unspecified cores"),
        (Request(2, ALL, ALL), True, True, "2 devices, whole"),
        (Request(None, ALL, ALL), True, False, "? devices, whole"),
        (Request(1, ALL, UNLIMITED), False, True, "1 device, each with memory 100 %, cores no limit"),
        (Request(1, Size(3000 * MIB), ALL), False, True, "1 device, each with memory 3000 MiB, cores 100 %"),
        (Request(3, Percent(50), Percent(30)), False, True, "3 devices, each with memory 50 %, cores 30 %"),
        (Request(1, UNLIMITED, UNLIMITED), False, True, "1 device, each with memory no limit, cores no limit"),
    ],
)
def test_whole_settled_and_formatted(request_: Request, whole: bool, settled: bool, text: str) -> None:  # noqa: FBT001
    """A whole device is all of memory and cores, without a flag; settled is what leaves nothing open."""
    assert (request_.whole, request_.settled, str(request_)) == (whole, settled, text)
