"""vLLM's own client, `vllm bench serve`, kept alive between replays: its import takes as long as a replay.

Each line on stdin is a JSON object, `arguments` of the command and `log`, a file for what it prints; the answer is a
line on stdout, {} or an `error`.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading

READY = "ready"


class Client:
    """The client in a process of its own; `environment` as its server's."""

    def __init__(self, python: str, environment: dict[str, str], log: pathlib.Path):
        with open(log, "a") as errors:
            self.process = subprocess.Popen(
                [python, str(pathlib.Path(__file__).resolve())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, text=True, env=environment,
            )  # fmt: skip

    def wait(self, limit_s: float) -> None:
        """Until it is imported; RuntimeError where it ended or takes longer, after which it is no more."""
        if self.line(limit_s) != READY:
            self.end()
            raise RuntimeError(f"the client did not start within {limit_s:.0f} s; its log says why")

    def replay(self, arguments: list[str], log: pathlib.Path, limit_s: float) -> None:
        """RuntimeError where the client fails, or ends or takes longer, after which it is no more."""
        try:
            self.process.stdin.write(json.dumps({"arguments": arguments, "log": str(log)}) + "\n")
            self.process.stdin.flush()
            answer = self.line(limit_s)
        except BrokenPipeError:
            answer = ""
        if not answer:
            self.end()
            raise RuntimeError(f"the client ended, or did not answer within {limit_s:.0f} s")
        if error := json.loads(answer).get("error"):
            raise RuntimeError(f"the client failed: {error}")

    def line(self, limit_s: float) -> str:
        """Its next, or "" where it ended; it is ended where it takes longer."""
        timer = threading.Timer(limit_s, self.process.kill)
        timer.start()
        try:
            return self.process.stdout.readline().strip()
        finally:
            timer.cancel()

    def ended(self) -> bool:
        return self.process.poll() is not None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def take_pipes() -> tuple:
    """Commands and answers, apart from what the engine's modules and their children read and print."""
    commands, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return commands, answers


def answer_all() -> None:
    commands, answers = take_pipes()
    from vllm.benchmarks.serve import add_cli_args, main
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    print(READY, file=answers, flush=True)
    for line in commands:
        asked, answer = json.loads(line), {}
        with open(asked["log"], "w") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            try:
                main(parser.parse_args(asked["arguments"]))
            except (Exception, SystemExit) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    answer_all()
