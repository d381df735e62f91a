"""Tries an installed wheel: results against plain attention, and what it says of CUDA.

python scripts/try_wheel.py ON|OFF, from another folder than the repository; ON: the wheel has CUDA in it.
"""

import sys

import numpy as np
import trunkline


def expected(q: np.ndarray, cache: np.ndarray, table: list[list[int]], lengths: list[int]) -> np.ndarray:
    """Attention in float64, a query token a request; heads of K and V are each for two query heads."""
    out = np.empty(q.shape)
    for row, length in enumerate(lengths):
        tokens = cache[table[row]].reshape(-1, *cache.shape[2:])[:length].astype(float)
        for head in range(q.shape[1]):
            keys = tokens[:, head // 2]
            weights = np.exp(keys @ q[row, head].astype(float) / np.sqrt(q.shape[2]))
            out[row, head] = weights @ keys / weights.sum()
    return out


def main() -> None:
    with_cuda = sys.argv[1:] == ["ON"]
    random = np.random.default_rng(1)
    q = random.standard_normal((3, 4, 64)).astype(np.float16)
    cache = random.standard_normal((12, 16, 2, 64)).astype(np.float16)
    table, lengths = [[3, 8, 1], [3, 8, 5], [3, 8, 9]], [40, 48, 33]
    found = trunkline.decode_attention(q, cache, cache, table, lengths)
    difference = float(np.abs(found - expected(q, cache, table, lengths)).max())
    assert difference < 2e-3, f"results are off by {difference}"
    status = trunkline.cuda_status()
    without = "CUDA is not built into" in status.reason
    assert without != with_cuda, f"a wheel with CUDA {sys.argv[1:]} says: {status.reason}"
    print(f"trunkline {trunkline.version()}: results are within {difference:.1e}; CUDA: {status.reason or 'usable'}")


if __name__ == "__main__":
    main()
