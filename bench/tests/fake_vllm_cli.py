#!/usr/bin/env python3
"""Stands in for the interpreter that has vLLM: its version, `serve` that is healthy, a client that counts a trace.

FAKE_HTTP holds words: "CONFIG:refuses" (the server ends at once), "fails" (a replay does), "ends" (the client does),
"hangs" (the first replay does).
"""

import http.server
import json
import os
import pathlib
import runpy
import sys
import time
import types


class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def option(name, arguments):
    return arguments[arguments.index(name) + 1]


class Parser:
    def parse_args(self, arguments):
        return arguments


def replay(arguments):
    if "fails" in os.environ.get("FAKE_HTTP", "").split():
        raise ValueError("no such dataset")
    rows = [json.loads(line) for line in pathlib.Path(option("--dataset-path", arguments)).read_text().splitlines()]
    assert len(rows) == int(option("--num-prompts", arguments))
    print(f"{len(rows)} requests")
    folder = pathlib.Path(option("--result-dir", arguments))
    with open(folder / "pids.txt", "a") as pids:
        pids.write(f"{os.getpid()}\n")
    if "hangs" in os.environ.get("FAKE_HTTP", "").split() and not (folder / "hung").exists():
        (folder / "hung").touch()
        time.sleep(60)
    twice = 1 if option("--base-url", arguments).endswith(os.environ["FAKE_PORT"]) else 2
    keys = ("mean_e2el_ms", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_tpot_ms", "p99_itl_ms")
    found = dict.fromkeys(keys, 6.0 / twice) | {"output_throughput": 9.0, "completed": len(rows), "failed": 0}
    (folder / option("--result-filename", arguments)).write_text(json.dumps(found))


def client(script):
    """The script, with vLLM's modules as it uses them."""
    if "ends" in os.environ.get("FAKE_HTTP", "").split():
        sys.exit("no module")
    serve = types.SimpleNamespace(add_cli_args=lambda parser: None, main=replay)
    sys.modules["vllm.benchmarks.serve"] = serve
    sys.modules["vllm.utils.argparse_utils"] = types.SimpleNamespace(FlexibleArgumentParser=Parser)
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


def main():
    faults = os.environ.get("FAKE_HTTP", "").split()
    ours = "CUSTOM" in sys.argv
    if sys.argv[1] == "-c":
        print("INFO of an import\n0.26.0 2.11.0")
    elif sys.argv[1].endswith("serve_client.py"):
        client(sys.argv[1])
    else:
        if f"{'trunkline' if ours else 'default'}:refuses" in faults:
            sys.exit("no memory")
        http.server.HTTPServer(("127.0.0.1", int(option("--port", sys.argv))), Healthy).serve_forever()


if __name__ == "__main__":
    main()
