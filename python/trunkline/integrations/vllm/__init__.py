"""vLLM's decode attention on Trunkline, by one flag: `vllm serve MODEL --attention-backend CUSTOM`.

vLLM finds the package by its entry point (group vllm.general_plugins) in every process. Decode rows go to Trunkline,
prefill and all that Trunkline does not do to vLLM's FlashAttention, which the backend is made of.
docs/guides/vllm.md tells how to switch it on, verify it, measure it and switch it off. The environment decides:

- TRUNKLINE_VLLM: "custom" (the default: for --attention-backend CUSTOM), "override" (in place of FLASH_ATTN, without
  a flag), "off".
- TRUNKLINE_VLLM_SHADOW=1: every layer runs both kernels and compares them; vLLM's result is served.
- TRUNKLINE_VLLM_LOG_SECONDS: seconds between log lines of counters, 60 by default; 0: none.
- TRUNKLINE_VLLM_GAIN_RULE=1: steps go to vLLM while sharing saves too little, where no graphs of whole steps are.
- TRUNKLINE_VLLM_INVARIANT=1: decode attention gives a request the same bits in any batch.
- TRUNKLINE_VLLM_FP8_KV=1: decode rows of layers with an fp8 KV cache are Trunkline's, too.
"""

from __future__ import annotations

from .registration import register
from .settings import statistics

__all__ = ["register", "statistics"]
