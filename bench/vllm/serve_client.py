"""vLLM's own client, `vllm bench serve`, kept alive between replays: its import takes as long as a replay.

Each line on stdin is a JSON object, `arguments` of the command and `log`, a file for what it prints; the answer is a
line on stdout, {} or an `error`.
"""

import contextlib
import json
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

    def wait(self) -> None:
        """Until it is imported; RuntimeError where it ended."""
        if self.line() != READY:
            raise RuntimeError("the client did not start; its log says why")

    def replay(self, arguments: list[str], log: pathlib.Path, limit_s: float) -> None:
        """RuntimeError where the client fails or takes longer, after which it is no more."""
        timer = threading.Timer(limit_s, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps({"arguments": arguments, "log": str(log)}) + "\n")
            self.process.stdin.flush()
            answer = self.line()
        except BrokenPipeError:
            answer = ""
        finally:
            timer.cancel()
        if not answer:
            raise RuntimeError(f"the client ended within {limit_s:g} s without an answer")
        if error := json.loads(answer).get("error"):
            raise RuntimeError(f"the client failed: {error}")

    def ended(self) -> bool:
        return self.process.poll() is not None

    def line(self) -> str:
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def answer_all() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # to which vLLM logs from its import on
    from vllm.benchmarks.serve import add_cli_args, main
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    print(READY, file=answers, flush=True)
    for line in sys.stdin:
        asked, answer = json.loads(line), {}
        with open(asked["log"], "w") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            try:
                main(parser.parse_args(asked["arguments"]))
            except (Exception, SystemExit) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    answer_all()
