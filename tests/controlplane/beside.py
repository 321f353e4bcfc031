"""Work in threads beside a test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], None], threads: int = 1) -> Iterator[None]:
    """Have work done until the end of the block: it is given the event that says so, and has two minutes to end then."""
    over = threading.Event()
    running = [threading.Thread(target=work, args=(over,), daemon=True) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in running:
            thread.join(120)
    assert not any(thread.is_alive() for thread in running), "it goes on after two minutes"
