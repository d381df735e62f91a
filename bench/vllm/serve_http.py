#!/usr/bin/env python3
"""vLLM's HTTP servers against each other, with vLLM's own client: all servers live at once, one is asked at a time.

    python3 bench/vllm/serve_http.py --out OUT/vllm_http.jsonl --workloads conversation@8 conversation@16 --rounds 3

A workload becomes a trace for `vllm bench serve --dataset-name timed_trace`: an id is one token, so that levels of any
length are shared as they are, and its timestamps are the arrivals. Each round has other prompts, for a server's prefix
cache keeps those of the last one. The weights are vLLM's dummies: all keys weigh the same, which costs the same time.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

import drawn
import engine_options
import models
import pairing
import workloads
from measure import Clock, wait_for
from paired import Rows, of_gpu
from serve_client import Client
from vllm_engine import COMPILATIONS, CONFIGURATIONS, ENVIRONMENT

SUBJECT = "trunkline"
KEYS = (
    "mean_e2el_ms", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_tpot_ms", "p99_itl_ms", "output_throughput",
    "completed", "failed",
)  # fmt: skip
RATIOS = ("mean_tpot_ms", "p99_tpot_ms", "mean_ttft_ms", "mean_e2el_ms", "p99_itl_ms")


def trace_lines(workload: workloads.Workload) -> list[str]:
    """Rows of a timed trace, timestamps in seconds; ValueError for requests that wait for others."""
    if any(request.after for request in workload.requests):
        raise ValueError(f"{workload.name}: a trace has no requests that wait for others")
    return [
        json.dumps(
            {
                "timestamp": request.arrival_s,
                "input_length": len(request.prompt),
                "output_length": 256 if request.max_tokens == drawn.OPEN_END else request.max_tokens,
                "hash_ids": request.prompt,
            }
        )
        for request in sorted(workload.requests, key=lambda request: request.arrival_s)
    ]


def flags(configuration: str, compilation: str) -> list[str]:
    """The flags of `vllm serve` for the options that vllm_engine.py gives to LLM."""
    made = []
    for name, value in (CONFIGURATIONS[configuration][0] | COMPILATIONS[compilation]).items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            made.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            made += [flag, json.dumps(value) if isinstance(value, dict) else str(value)]
    return made


class Server:
    def __init__(
        self, given: argparse.Namespace, configuration: str, port: int, model: pathlib.Path, logs: pathlib.Path
    ):
        self.name, self.port, self.model = configuration, port, model
        self.environment = os.environ | ENVIRONMENT | CONFIGURATIONS[configuration][1]
        self.environment |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "PYTHONHASHSEED": "0"}
        self.environment["VLLM_CACHE_ROOT"] = f"{given.scratch}/{configuration}_cache"
        self.log_path = logs / f"serve_{configuration}.log"
        self.python, self.client_log = given.python, logs / f"client_{configuration}.log"
        self.begin_client()
        command = [
            given.python, "-m", "vllm.entrypoints.cli.main", "serve", str(model), "--load-format", "dummy", "--dtype",
            "bfloat16", "--max-model-len", str(drawn.CONTEXT), "--max-num-seqs", str(given.max_num_seqs),
            "--gpu-memory-utilization", "0.02", "--kv-cache-memory-bytes", str(int(given.kv_gib * 2**30)),
            "--tensor-parallel-size", str(given.tensor_parallel), "--kv-cache-dtype", given.kv_cache_dtype,
            "--host", "127.0.0.1", "--port", str(port),
            *flags(configuration, given.compilation),
        ]  # fmt: skip
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=self.environment
            )  # fmt: skip

    def begin_client(self) -> None:
        self.client = Client(self.python, self.environment, self.client_log)

    def wait(self, deadline: float) -> None:
        """Until it is healthy and its client there; RuntimeError where it ends or takes too long."""
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2)
                return self.client.wait(max(1.0, deadline - time.monotonic()))
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        tail = self.log_path.read_text(errors="replace")[-1500:]
        raise RuntimeError(f"the server of {self.name} is not healthy; its log ends with: {tail}")

    def measure(self, trace: pathlib.Path, requests: int, out: pathlib.Path, limit_s: float) -> dict:
        """The results of vLLM's client for one replay; RuntimeError where it fails."""
        result = out / f"{trace.stem}_{self.name}.json"
        arguments = [
            "--backend", "vllm", "--base-url", f"http://127.0.0.1:{self.port}", "--model", str(self.model),
            "--dataset-name", "timed_trace", "--dataset-path", str(trace), "--timed-trace-chunk-hash-size", "1",
            "--num-prompts", str(requests), "--percentile-metrics", "ttft,tpot,itl,e2el",
            "--metric-percentiles", "50,99", "--save-result", "--result-dir", str(out),
            "--result-filename", result.name, "--disable-tqdm", "--temperature", "0",
        ]  # fmt: skip
        if self.client.ended():
            self.begin_client()
            self.client.wait(limit_s)
        self.client.replay(arguments, out / f"client_{trace.stem}_{self.name}.log", limit_s)
        found = json.loads(result.read_text())
        return {key: found.get(key) for key in KEYS}

    def end(self) -> None:
        self.client.end()
        for sign, seconds in ((signal.SIGTERM, 8), (signal.SIGKILL, 5)):
            try:
                os.killpg(self.process.pid, sign)
                self.process.wait(seconds)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def row_of(found: dict[str, list[dict]], base: str, subject: str) -> dict:
    """The row of all rounds: means of the client's results, and ratios of pairs of rounds."""
    made: dict = {"served": {}, "ratios": {}}
    for name in (base, subject):
        values = {key: [result[key] for result in found[name] if result[key] is not None] for key in KEYS}
        made["served"][name] = {key: statistics.fmean(of) for key, of in values.items() if of}
    made["failures"] = {name: sum(result["failed"] or 0 for result in found[name]) for name in (base, subject)}
    for key in RATIOS:
        pairs = [(x[key], y[key]) for x, y in zip(found[base], found[subject], strict=True) if x[key] and y[key]]
        if pairs:
            made["ratios"][key] = pairing.ratio_of_pairs([a for a, _ in pairs], [b for _, b in pairs])
    main = made["ratios"].get("mean_tpot_ms", {"ratio": None, "ratio_lo": None, "ratio_hi": None, "pairs": 0})
    return {"baseline": base, "subject": subject, **main, "over": "rounds", "rounds": len(found[base]), **made}


def measure(name: str, given: argparse.Namespace, servers: dict[str, Server], clock: Clock) -> list[dict]:
    found: dict[str, list[dict]] = {server: [] for server in servers}
    longest = 0.0
    for round_number in range(given.rounds):
        if clock.left() < 1.1 * longest:
            break
        began = time.monotonic()
        workload = workloads.build(name, given.seed + round_number, given.seconds)
        trace = given.logs / f"{name.replace('@', '_')}_{round_number}.jsonl"
        trace.write_text("\n".join(trace_lines(workload)) + "\n")
        results = {}
        for server in pairing.turn_order(list(servers), round_number):
            results[server] = servers[server].measure(trace, len(workload.requests), given.logs, given.limit_s)
        for server, result in results.items():
            found[server].append(result)
        trace.unlink()
        longest = max(longest, time.monotonic() - began)
    subject = SUBJECT if SUBJECT in servers else list(servers)[-1]
    shared = {"workload": name, "kind": "http", "about": workload.about, "requests": len(workload.requests)}
    return [shared | row_of(found, base, subject) for base in servers if base != subject]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", nargs="+", default=["default", SUBJECT])
    parser.add_argument("--workloads", nargs="+", default=["conversation@8", "conversation@16", "toolagent@8"])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="file that rows are appended to")
    parser.add_argument("--logs", type=pathlib.Path, help="folder; beside --out unless given")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--trees", type=json.loads, default={}, help="hashes of source folders, as JSON")
    parser.add_argument("--budget-s", type=float, default=480.0, help="no workload begins after this, start included")
    parser.add_argument("--begin-after", type=pathlib.Path, help="file; nothing is measured before it is there")
    parser.add_argument("--start-limit-s", type=float, default=180.0)
    engine_options.add_to(parser)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10.0, help="of arrivals")
    parser.add_argument("--limit-s", type=float, default=90.0, help="of one replay")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if "forest" in given.configs:
        raise SystemExit("--configs forest: servers start processes in which the port of FCA is not registered")
    given.workloads = workloads.names_of(given.workloads)
    given.logs = given.logs or given.out.parent
    given.logs.mkdir(parents=True, exist_ok=True)
    return given


def main() -> int:
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    clock = Clock(given.budget_s)
    shape = models.shape_of(given.model, given.layers)
    model = models.write_model(pathlib.Path(given.scratch) / "served_model", shape)
    models.write_tokenizer(model, shape)
    versions = "import torch, vllm; print(vllm.__version__, torch.__version__)"
    shown = subprocess.run([given.python, "-c", versions], capture_output=True, text=True, check=False).stdout.split()
    common = {
        "model": given.model, "dtype": "bf16", "layers": shape["num_hidden_layers"], "compilation": given.compilation,
        "kv_gib": given.kv_gib, "tensor_parallel": given.tensor_parallel,
        "kv_cache_dtype": given.kv_cache_dtype, "commit": given.commit, **given.trees,
        "device": of_gpu("name"), "driver": of_gpu("driver_version"),
        "vllm": shown[-2] if len(shown) > 1 else None, "torch": shown[-1] if shown else None,
        "command": f"bench/vllm/serve_http.py {engine_options.told(given)}--workloads " + " ".join(given.workloads),
    }  # fmt: skip
    rows, failed, servers = Rows(given.out, common), 0, {}
    try:
        for place, name in enumerate(given.configs):
            servers[name] = Server(given, name, given.port + place, model, given.logs)
        deadline = time.monotonic() + given.start_limit_s
        for server in servers.values():
            server.wait(deadline)
        wait_for(given.begin_after)
        for name in given.workloads:
            if clock.left() < 20:
                print(f"no time left for {name}")
                continue
            try:
                for row in measure(name, given, servers, clock):
                    rows.add(row)
            except (RuntimeError, ValueError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                rows.add({"workload": name, "kind": "error", "error": str(error)[:3000]})
        return 1 if failed else 0
    except RuntimeError as error:
        rows.add({"workload": "start", "kind": "error", "error": str(error)[:3000]})
        return 1
    finally:
        for server in servers.values():
            server.end()


if __name__ == "__main__":
    sys.exit(main())
