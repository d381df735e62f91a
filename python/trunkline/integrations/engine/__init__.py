"""The layer between Trunkline and a serving engine. It knows no engine: an adapter describes one to it.

docs/guides/engines.md writes an adapter.

`refusal` says whether Trunkline can run a group of layers. `DecodeSteps` then decides which steps it runs, plans each
once, runs each layer, counts, and in shadow mode compares. Arrays are numpy's or torch's.
"""

from .arrays import Arrays, NumpyArrays, TorchArrays
from .beside_prefill import PrefillRule
from .capability import LayerFacts, refusal, supports
from .counters import Counters, Groups
from .gain_switch import GainRule
from .making import leave, make_steps, takes_layers
from .registration import register
from .releases import Releases
from .rows import leading_decode_rows
from .settings import Settings, from_environment
from .shadow import Shadow
from .snapshot import TableSnapshot
from .steps import DecodeSteps, Engine
from .tables import CsrTables, DenseTables, Tables, TokenTables

__all__ = [
    "Arrays",
    "Counters",
    "CsrTables",
    "DecodeSteps",
    "DenseTables",
    "Engine",
    "GainRule",
    "Groups",
    "LayerFacts",
    "NumpyArrays",
    "PrefillRule",
    "Releases",
    "Settings",
    "Shadow",
    "TableSnapshot",
    "Tables",
    "TokenTables",
    "TorchArrays",
    "from_environment",
    "leading_decode_rows",
    "leave",
    "make_steps",
    "refusal",
    "register",
    "supports",
    "takes_layers",
]
