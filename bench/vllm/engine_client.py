"""The driver's end of engine_worker.py: starts a worker, asks it, and never waits for it without a limit."""

import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import time


class WorkerError(RuntimeError):
    """A command failed; the worker lives on unless `dead`."""

    def __init__(self, text: str, dead: bool = False):
        super().__init__(text)
        self.dead = dead


class EngineClient:
    def __init__(self, name: str, command: list[str], log: pathlib.Path, environment: dict[str, str] | None = None):
        """Starts the worker; `command` gets --reply-fd. Use `started` before anything else."""
        self.name, self.log_path = name, log
        reading, writing = os.pipe()
        with open(log, "w") as log_file:
            self.process = subprocess.Popen(
                [*command, "--reply-fd", str(writing)], stdin=subprocess.PIPE, stdout=log_file, stderr=log_file,
                pass_fds=[writing], start_new_session=True, env={**os.environ, **(environment or {})},
            )  # fmt: skip
        os.close(writing)
        self.replies: int | None = reading
        self.rest, self.number = b"", 0
        self.dead = False

    def started(self, limit_s: float) -> dict:
        """The engine's first reply, which describes it."""
        return self.reply(0, time.monotonic() + limit_s)

    def ask(self, command: str, within_s: float, **arguments) -> dict:
        """The result; WorkerError where the command fails; where the process ends or is late, it is dead, too."""
        if self.dead:
            raise WorkerError(f"{self.name} is dead", dead=True)
        self.number += 1
        line = json.dumps({"id": self.number, "command": command, **arguments}) + "\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except OSError as error:
            raise self.end(f"cannot be asked: {error}") from error
        return self.reply(self.number, time.monotonic() + within_s)

    def reply(self, number: int, deadline: float) -> dict:
        while True:
            found = json.loads(self.line(deadline))
            if found["id"] != number:
                continue
            if not found["ok"]:
                raise WorkerError(f"{self.name}: {found['error']}\n{found.get('trace', '')}")
            return found["result"]

    def line(self, deadline: float) -> bytes:
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self.replies], [], [], max(left, 0))
            if not ready:
                raise self.end("did not reply in time")
            part = os.read(self.replies, 1 << 20)
            if not part:
                raise self.end(f"ended; its log ends with: {self.tail()}")
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def tail(self, size: int = 1500) -> str:
        return self.log_path.read_text(errors="replace")[-size:] if self.log_path.exists() else ""

    def end(self, why: str) -> WorkerError:
        self.kill()
        return WorkerError(f"{self.name} {why}", dead=True)

    def kill(self) -> None:
        """Ends the worker's whole process group."""
        self.dead = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        if self.replies is not None:
            os.close(self.replies)
            self.replies = None

    def quit(self, limit_s: float = 10.0) -> None:
        if not self.dead:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self.process.stdin.write(b'{"id": -1, "command": "quit"}\n')
                self.process.stdin.close()
                self.process.wait(limit_s)
        self.kill()
