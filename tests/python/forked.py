"""Runs a function in a forked child and returns the result as text, with a time limit."""

from __future__ import annotations

import os
import pickle
import select
import signal


def in_child(use, seconds=30):
    """The result of use() in a forked child, or "<type of exception>: <text>", or "hangs"."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            told = use()
        except BaseException as error:  # none may leave the child's part
            told = f"{type(error).__name__}: {error}"
        os.write(writing, pickle.dumps(told))
        os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], seconds)
    told = os.read(reading, 65536) if ready else None
    os.close(reading)
    if not ready:
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if not ready:
        return "hangs"
    return pickle.loads(told) if told else f"ended with {status}"
