"""How far the work is: tqdm where it is installed, plain lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from typing import Any, Protocol

from ._errors import HeatsmoothWarning

log = logging.getLogger("heatsmooth")

#: Seconds between plain lines.
EVERY = 5.0


class Progress(Protocol):
    """Hears how far a piece of work is; an exception ends the work, which can be resumed."""

    def begin(self, what: str, total: int, done: int) -> None: ...
    def progress(self, done: int, note: str) -> None: ...
    def end(self) -> None: ...
    def note(self, text: str) -> None: ...
    def warning(self, text: str) -> None: ...


class Quiet:
    """Warnings only."""

    def begin(self, what: str, total: int, done: int) -> None:
        pass

    def progress(self, done: int, note: str) -> None:
        pass

    def end(self) -> None:
        pass

    def note(self, text: str) -> None:
        log.info(text)

    def warning(self, text: str) -> None:
        warnings.warn(text, HeatsmoothWarning, stacklevel=4)


class Lines(Quiet):
    """A line on stderr every few seconds."""

    def __init__(self) -> None:
        self.what, self.total, self.told = "", 0, 0.0

    def begin(self, what: str, total: int, done: int) -> None:
        self.what, self.total, self.told = what, total, time.monotonic()

    def progress(self, done: int, note: str) -> None:
        if time.monotonic() - self.told >= EVERY:
            self.told = time.monotonic()
            print(f"{self.what}: {done}/{self.total} {note}".rstrip(), file=sys.stderr)

    def note(self, text: str) -> None:
        print(text, file=sys.stderr)


class Bar(Quiet):
    """A bar of tqdm, in a notebook or a terminal."""

    def __init__(self, tqdm: Any) -> None:
        self.tqdm, self.bar = tqdm, None

    def begin(self, what: str, total: int, done: int) -> None:
        self.bar = self.tqdm(total=total, initial=done, unit=f" {what}", leave=False)

    def progress(self, done: int, note: str) -> None:
        if self.bar is not None:
            self.bar.update(done - self.bar.n)
            if note:
                self.bar.set_postfix_str(note, refresh=False)

    def end(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def note(self, text: str) -> None:
        self.tqdm.write(text)


def in_notebook() -> bool:
    """Whether IPython shows rich output."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def chosen(progress: bool | Progress | None) -> Progress:
    """Who hears about progress: unless something is said, whoever can see it."""
    if progress is None:
        progress = in_notebook() or (sys.stderr is not None and sys.stderr.isatty())
    if progress is False:
        return Quiet()
    if progress is not True:
        return progress
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return Lines()
    return Bar(tqdm)
