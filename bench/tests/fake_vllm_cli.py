#!/usr/bin/env python3
"""Stands in for the interpreter that has vLLM: its version, `serve` that is healthy, `bench serve` that counts a trace.

FAKE_HTTP holds words: "CONFIG:refuses" (the server ends at once), "fails" (the client does).
"""

import http.server
import json
import os
import pathlib
import sys


class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


def main():
    faults = os.environ.get("FAKE_HTTP", "").split()
    ours = "CUSTOM" in sys.argv
    if sys.argv[1] == "-c":
        print("INFO of an import\n0.26.0 2.11.0")
    elif "bench" in sys.argv:
        if "fails" in faults:
            sys.exit(1)
        rows = [json.loads(line) for line in pathlib.Path(option("--dataset-path")).read_text().splitlines()]
        assert len(rows) == int(option("--num-prompts"))
        twice = 1 if option("--base-url").endswith(os.environ["FAKE_PORT"]) else 2
        keys = ("mean_e2el_ms", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_tpot_ms", "p99_itl_ms")
        found = dict.fromkeys(keys, 6.0 / twice) | {"output_throughput": 9.0, "completed": len(rows), "failed": 0}
        (pathlib.Path(option("--result-dir")) / option("--result-filename")).write_text(json.dumps(found))
    else:
        if f"{'trunkline' if ours else 'default'}:refuses" in faults:
            sys.exit("no memory")
        http.server.HTTPServer(("127.0.0.1", int(option("--port"))), Healthy).serve_forever()


if __name__ == "__main__":
    main()
