"""What a cell of the matrix promises about any request of its source."""

from collections.abc import Callable

from webhook.cli.matrix_pages import limits
from webhook.mapping.matrix import Cell, Rendering
from webhook.request import Request


def promises(cell: Cell) -> Callable[[Request], set[Rendering]]:
    """The outcomes that the cell's sign, with its limits, permits for a request; all for a cell without limits."""
    written = {each.outcome for each in cell.tried if each.outcome.written}
    written |= {Rendering.EXACT} if Rendering.ROUNDS in written else set()
    if cell.outcome is not Rendering.CONDITIONAL:
        return lambda _: written or {Rendering.DENIED}
    chosen = limits(cell).values()
    if not chosen:
        return lambda _: {*written, Rendering.DENIED}
    return lambda request: written if all(within(request) for within in chosen) else {Rendering.DENIED}
