"""SGLang's decode attention on Trunkline, by one flag: `sglang serve --attention-backend trunkline`.

SGLang finds the package by its entry point (group sglang.srt.plugins) in every process. Decode rows go to Trunkline,
prefill and all that Trunkline does not do to SGLang's fa3 backend, of which the backend is a subclass.
docs/guides/sglang.md tells how to switch it on, verify it, measure it and switch it off. The environment decides:

- TRUNKLINE_SGLANG: "flag" (the default: for --attention-backend trunkline), "override" (in place of fa3, without a
  flag), "off".
- TRUNKLINE_SGLANG_SHADOW=1: every layer runs both kernels and compares them; SGLang's result is served.
- TRUNKLINE_SGLANG_LOG_SECONDS: seconds between log lines of counters, 60 by default; 0: none.
- TRUNKLINE_SGLANG_GAIN_RULE=1: steps go to SGLang while sharing saves too little, where no graphs of decode steps are.
- TRUNKLINE_SGLANG_INVARIANT=1: decode attention gives a request the same bits in any batch.
- TRUNKLINE_SGLANG_FP8_KV=1: decode rows of layers with an fp8 KV cache are Trunkline's, too.
"""

from __future__ import annotations

from .registration import register
from .settings import statistics

__all__ = ["register", "statistics"]
