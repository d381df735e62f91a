"""generate_batch, Transformers' continuous batching, with shared prefixes read once."""

from __future__ import annotations

import functools
import logging
import threading
import weakref
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.generation.continuous_batching.model_runner import ModelRunner

from ... import Support, errors, supports
from ..._arguments import flag, number
from ..engine import Counters, Engine, Settings, Shadow, leave
from .batch_steps import Batch, BatchSteps
from .full_attention import refusal
from .paged_cache import windowed_layers
from .versions import RELEASES

logger = logging.getLogger("trunkline.transformers")
_NAME = "trunkline_batch"

# The step that runs in this thread, and the name of the engine's attention function.
_running: ContextVar[tuple[BatchSteps, str] | None] = ContextVar("trunkline_batch_step", default=None)
_enabled: Batches | None = None


class Batches:
    """What enable() gives: generate_batch runs on Trunkline until disable(), or to the end of a `with`."""

    def __init__(self, settings: Settings) -> None:
        self._engine = Engine("Transformers", logger, settings, kernel="attention")
        self._of_runner: weakref.WeakKeyDictionary[Any, BatchSteps | None] = weakref.WeakKeyDictionary()
        self._runs: dict[str, list[tuple[Counters, Shadow | None]]] = {}  # by the model's class
        self._theirs = ModelRunner.compute_batch
        self._on = True
        self._lock = threading.Lock()

        @functools.wraps(self._theirs)
        def compute_batch(runner: Any, model: Any, batch_data: Batch) -> None:
            self._compute(runner, model, batch_data)

        self._ours = ModelRunner.compute_batch = compute_batch

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Counters of all runs since enable(), by the model's class; integrations/engine/counters.py explains each. A
        decode row is a request in a step; kv_tokens would be read without sharing, kv_tokens_read were. In shadow mode
        with the comparison."""
        with self._lock:
            return {name: _summed(runs) for name, runs in self._runs.items()}

    def disable(self) -> None:
        """Gives generate_batch its own attention back; a run that is under way goes on with it."""
        global _enabled
        if not self._on:
            return
        self._on = False  # where another package has wrapped ours, it stays, and passes on
        if ModelRunner.compute_batch is self._ours:
            ModelRunner.compute_batch = self._theirs
        with self._lock:
            for runner in list(self._of_runner):
                _drop_graphs(runner)
            self._of_runner.clear()
        if _enabled is self:
            _enabled = None

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *_: object) -> None:
        self.disable()

    def _compute(self, runner: Any, model: Any, batch: Batch) -> None:
        steps = self._steps_of(runner, model) if self._on else None
        by_table = batch["block_table"] is not None
        in_graph = bool(runner.use_cuda_graph_decode if by_table else runner.use_cuda_graph_varlen)
        stream = getattr(runner.inputs_and_outputs, "compute_stream", None)
        if steps is None or not steps.begin(batch, stream, in_graph=in_graph, counted=not _warms_up(runner)):
            self._theirs(runner, model, batch)
            return
        config = model.config.get_text_config()
        name = config._attn_implementation
        token = _running.set((steps, name))
        try:
            config._attn_implementation = _NAME
            self._theirs(runner, model, batch)
        finally:
            config._attn_implementation = name
            _running.reset(token)
        replayed = in_graph and steps.layers == 0
        if not replayed and (not steps.layers or steps.layers % steps.num_layers):
            raise errors.UnsupportedError(
                f"{steps.layers} layers of {type(model).__name__} called AttentionInterface; expected: all "
                f"{steps.num_layers}"
            )
        if steps.steps is not None:
            steps.steps.look()

    def _steps_of(self, runner: Any, model: Any) -> BatchSteps | None:
        with self._lock:  # managers run on threads of their own
            if runner not in self._of_runner:
                self._of_runner[runner] = self._made(runner, model)
            return self._of_runner[runner]

    def _made(self, runner: Any, model: Any) -> BatchSteps | None:
        name = type(model).__name__
        layers = [f"{name}.{layer}" for layer in range(model.config.get_text_config().num_hidden_layers)]
        reason = _refusal(model)
        if reason is None and windowed_layers(runner.cache):
            reason = "its cache has sliding windows"
        if reason is None and model.device.type == "cuda" and not runner.cb_config.max_blocks_per_request:
            reason = "its decode steps have no block tables; they need flash attention, and max_blocks_per_request > 0"
        if reason is not None:
            leave(self._engine, layers, reason)
            return None
        made = BatchSteps(self._engine, model, runner, layers)
        if made.steps is None:
            return None
        _drop_graphs(runner)  # of a manager that is older than enable()
        self._runs.setdefault(name, []).append((made.steps.counters, made.steps.shadow))
        return made


def enable(*, shadow: bool = False, log_seconds: float = 60.0, gain_rule: bool = False) -> Batches:
    """Runs the attention of generate_batch, and of ContinuousBatchingManager, on Trunkline, for all models of this
    process, until disable(); it may be used by `with`. Called again, it begins anew.

    Scheduler, prefix cache and KV cache are Transformers' own: requests share pages where it has
    allow_block_sharing, by prompts that begin alike and by num_return_sequences. Trunkline reads shared pages once. On
    a CPU it runs prefill, too; on a GPU the decode steps of a flash attention implementation, also in graphs. Models
    whose layers do not all have full attention are left to Transformers; the log says so, and supports_batches.
    UnsupportedError for releases of Transformers whose continuous batching is not known.

    shadow: both run, results are compared, and Transformers' are served. log_seconds: between lines of counters; 0:
    none. gain_rule: steps go to Transformers while sharing saves too little.
    """
    settings = Settings(
        "on", flag(shadow, "shadow"), number(log_seconds, "log_seconds", 0.0), flag(gain_rule, "gain_rule")
    )
    refused = RELEASES.refusal(RELEASES.installed())
    if refused is not None:
        raise errors.UnsupportedError(refused)
    disable()
    global _enabled
    _enabled = Batches(settings)
    return _enabled


def disable() -> None:
    """Undoes enable(). Nothing happens where it is not on."""
    if _enabled is not None:
        _enabled.disable()


def statistics() -> dict[str, dict[str, Any]]:
    """Batches.statistics() of what is enabled; empty where nothing is."""
    return {} if _enabled is None else _enabled.statistics()


def supports_batches(model: Any) -> Support:
    """Whether generate_batch of a model runs on Trunkline, or the reason why not."""
    reason = RELEASES.refusal(RELEASES.installed()) or _refusal(model)
    if reason is not None:
        return Support(False, reason)
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    return supports(heads, kv_heads, head_dim, 256, dtype=model.dtype, device=model.device)


def _refusal(model: Any) -> str | None:
    reason = refusal(model)
    if reason is None and model.device.type not in ("cpu", "cuda"):
        reason = f"{type(model).__name__} is on {model.device.type}; supported: cpu, cuda"
    if reason is None and getattr(model, "_device_mesh", None) is not None:
        reason = f"{type(model).__name__} is split over devices; supported: one"
    return reason


def _attend(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None = None, **options: Any
) -> tuple[Any, None]:
    """As AttentionInterface has it."""
    running = _running.get()
    if running is None:
        raise errors.UnsupportedError(f"attention {_NAME!r} runs within a step of generate_batch alone")
    steps, name = running
    if steps.steps is None or steps.steps.shadow is None:
        return steps.attend(module, query, key, value, scaling, options), None
    config = module.config
    config._attn_implementation = name  # its flash attention looks the function up by it
    try:
        theirs, _ = AttentionInterface()[name](module, query, key, value, attention_mask, scaling=scaling, **options)
    finally:
        config._attn_implementation = _NAME
    steps.compare(module, query, scaling, theirs)
    return theirs, None


# torch.compile must not look into it: it hands addresses to a library.
AttentionInterface.register(_NAME, torch.compiler.disable(_attend))


def _summed(runs: list[tuple[Counters, Shadow | None]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for counters, shadow in runs:
        for name, count in {**asdict(counters), "kv_bytes_saved": counters.kv_bytes_saved}.items():
            found[name] = count if name in ("layers", "kv_bytes_per_token") else found.get(name, 0) + count
        if shadow is not None:
            report, before = shadow.report(), found.get("shadow", {})
            sums = {name: before.get(name, 0) + report[name] for name in ("compared", "beyond", "non_finite")}
            found["shadow"] = {**report, **sums, "most": max(report["most"], before.get("most", 0))}
    return found


def _ios(runner: Any) -> list[Any]:
    """The prepared inputs: on a GPU two pairs of them where it prepares a step while another runs."""
    pairs = getattr(runner.inputs_and_outputs, "io_pairs", None)
    if pairs is None:
        return [runner.inputs_and_outputs]
    return [io for pair in pairs for io in (pair.host_io, pair.device_io)]


def _drop_graphs(runner: Any) -> None:
    """Graphs keep the kernels that they were captured with: without them the engine captures anew."""
    for io in _ios(runner):
        io.graphs = type(io.graphs)()


def _warms_up(runner: Any) -> bool:
    """Whether the prepared step is one of made-up requests."""
    ios = runner.inputs_and_outputs
    pairs = getattr(ios, "io_pairs", None)
    requests = (ios if pairs is None else pairs[ios.current_pair].host_io).requests_in_batch
    return bool(requests) and str(requests[0].state.request_id).startswith("__warmup_")
