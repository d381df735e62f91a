"""The releases of vLLM that the plug-in knows."""

from __future__ import annotations

from ..engine import Releases
from ..engine.releases import release as release

# Models were run in 0.26 and 0.33; of the others the signatures are recorded.
RELEASES = Releases("vllm", "vLLM", first=(0, 24), last=(0, 33), run=((0, 26), (0, 33)))
PACKED = (0, 26)  # the first whose KV cache has K and V of a token side by side
installed, refusal = RELEASES.installed, RELEASES.refusal


def kv_layout() -> str:
    """The order of a cache's dimensions: "HND", packed as [pages, Hkv, P, 2 d]; before 0.26 "NHD", as
    [pages, 2, P, Hkv, d]. Strides are the engine's in both."""
    found = release(installed() or "")
    return "NHD" if found is not None and found < PACKED else "HND"
