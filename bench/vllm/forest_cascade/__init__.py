"""Our port of Forest Cascade Attention (FCA), a rival that benchmarks compare with. Nothing else uses it.

The method is snowflakedb/ArcticInference's, `arctic_inference/vllm/attention` at commit a6e2fa3788 (its README at
84636e6936), read for the method; no code is copied. Results must be named "our port of FCA", never FCA.

The original, by its head after the FlashAttention backend of vLLM 0.14.1: decode requests are sorted by their page ids,
on the host, and cut into groups, one level of them, by a recursive split at the minima of the common prefixes. One
FlashAttention call has a sequence for each group, non-causal: the queries of the group's requests over the pages that
all of them share. A second call has each request's other pages. merge_attn_states joins both by their LSEs. Queries are
gathered in the groups' order and results are scattered back, in each layer. Neither call has scheduler metadata made
ahead. It needs 8 requests, at most 16 query tokens each, groups of 2, one shared page, a quarter of the requests in
groups, at most 256 groups; no decode context parallelism; piecewise CUDA graphs. By its comments, the model runner
replays full graphs for batches that are too small (that patch was not read).

The port keeps the two calls, the merge and these thresholds, and differs in the following:
- Groups are optimal: no other single level saves more tokens (groups.py). The original's split is greedy.
- build() does not wait for the GPU. The page table is copied to the host without a wait, groups are found in the copy
  of a step before, and the GPU compares each group's pages in the table of this step (layout.py, step.py). A group
  that does not hold any more has no prefix in that step: results are right, whatever became of the batch. The
  original waits some ten times a step.
- Both calls have scheduler metadata, as vLLM's other calls do. Where no suffix is long, it is not split.
- Where each group's requests are neighbours in the batch, nothing is gathered or scattered.
- Grouping must save a minimum of bytes a layer (limits.py), because a second call and a merge cost time.
- One query token a request: steps with drafts, like prefill and mixed steps, are vLLM's.
- No full CUDA graphs at all. That costs batches below 8 requests, which the original replays whole: do not compare
  there.
- No sliding windows, sinks or ALiBi: vLLM's kernel runs such layers.
"""
