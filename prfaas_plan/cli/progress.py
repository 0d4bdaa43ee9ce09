"""Progress of long work, on the error stream of a terminal and nowhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]

_PATIENCE_S = 1.0
"""Work shorter than this shows nothing."""


@contextmanager
def progress_bar(what: str, *, quiet: bool = False) -> Iterator[Callable[[float, float], None] | None]:
    """Give a function ``report(done, total)`` that draws a bar on work over a second; ``None`` if nobody sees it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    started = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, visible=False)

        def report(done: float, total: float) -> None:
            if time.monotonic() - started > _PATIENCE_S:
                bar.update(task, completed=done, total=total, visible=True)

        yield report
