"""The releases of vLLM that the plug-in knows."""

from __future__ import annotations

from ..engine import Releases
from ..engine.releases import release as release

RELEASES = Releases("vllm", "vLLM", first=(0, 26), last=(0, 33))
RUN = (0, 26)  # the release that is tested by running models; the others, by import and registration
installed, refusal = RELEASES.installed, RELEASES.refusal
