"""Work in threads beside a test."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], None], threads: int = 1) -> Iterator[None]:
    """Run `work` in threads until the end of the block; its argument is the event that ends it, within two minutes."""
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


def together(work: Callable[[int], object], count: int) -> None:
    """Run `work` many times, several at once; its argument is the number of the run."""
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(work, range(count)):
            pass
