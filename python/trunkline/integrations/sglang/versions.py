"""The releases of SGLang that the plug-in knows."""

from __future__ import annotations

from ..engine import Releases

# The hooks of attention backends change between releases, so those between are refused: of these three the signatures
# are recorded. No model was run in any of them yet.
RELEASES = Releases("sglang", "SGLang", first=(0, 5, 12), last=(0, 5, 23), only=((0, 5, 12), (0, 5, 17), (0, 5, 23)))
installed, refusal = RELEASES.installed, RELEASES.refusal
