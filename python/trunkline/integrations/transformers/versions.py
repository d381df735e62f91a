"""The releases of Transformers whose continuous batching the adapter knows."""

from __future__ import annotations

from ..engine import Releases

# Between minor releases the paged cache changes, names of attention functions, and arguments of layers. In these two,
# tests run models on the CPU.
RELEASES = Releases("transformers", "Transformers", first=(5, 17), last=(5, 24), only=((5, 17), (5, 24)))
