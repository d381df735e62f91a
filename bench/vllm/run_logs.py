"""The lines of a run's logs that are kept beside its rows: how engines started, their choices, results of clients."""

import pathlib
import re

KEPT = re.compile(
    r"non-default args|Using Attention|FlashAttention version|Graph captur|GPU KV cache size|Asynchronous scheduling|"
    r"Chunked prefill|Application startup|Resolved architecture|\] Trunkline, |^no time left|\bERROR\b|^Traceback|^\{"
)
LEFT_OUT = re.compile(r"\[transformers\]|^Namespace")
SCRATCH = re.compile(r"/tmp/[\w/.-]*")  # where models and caches were
CLIENT_RESULT = "Serving Benchmark Result"  # from here on all lines of a client's log
PROCESS = re.compile(r"\(\w+ pid=\d+\) ")
LONGEST = 700


def kept(path: pathlib.Path) -> list[str]:
    found, of_client = [f"== {path.name}"], False
    for line in path.read_text(errors="replace").splitlines():
        line = PROCESS.sub("", line)
        of_client = of_client or CLIENT_RESULT in line
        if of_client or (KEPT.search(line) and not LEFT_OUT.search(line)):
            line = line.replace(str(path.parent.resolve()), "OUT")
            found.append(SCRATCH.sub("SCRATCH", line)[:LONGEST])
    return found


def text_of(paths: list[pathlib.Path]) -> str:
    return "\n".join(line for path in paths for line in kept(path)) + "\n"
