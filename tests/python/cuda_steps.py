"""Decode steps on a GPU for tests with torch, and their right answers."""

import unittest

import numpy as np
import trunkline
from oracle import attention as oracle

try:
    import torch
except ImportError:
    torch = None

HEADS, KV_HEADS, DIM, PAGE, PAGES = 8, 2, 128, 16, 256


def usable():
    return torch is not None and torch.cuda.is_available() and bool(trunkline.cuda_status())


def reason():
    return "torch is not installed" if torch is None else trunkline.cuda_status().reason or "torch sees no GPU"


class Step:
    """Requests of which the first few share a trunk of pages, and their tensors on the GPU."""

    def __init__(self, lengths, shared_pages, dtype="float16", seed=0):
        random = np.random.default_rng(seed)
        order = random.permutation(PAGES).tolist()
        trunk = [order.pop() for _ in range(shared_pages)]
        self.lengths = np.array(lengths, np.int32)
        self.rows = []
        for row, length in enumerate(lengths):
            count = -(-length // PAGE)
            begin = trunk[:count] if row % 3 else []
            self.rows.append(begin + [order.pop() for _ in range(count - len(begin))])
        self.table = np.full((len(lengths), max(map(len, self.rows)) + 2), 2**30, np.int32)
        for row, pages in enumerate(self.rows):
            self.table[row, : len(pages)] = pages
        torch.manual_seed(seed)
        kind = getattr(torch, dtype)
        self.q = torch.randn(len(lengths), HEADS, DIM, device="cuda").to(kind)
        self.kv = torch.randn(PAGES, 2, PAGE, KV_HEADS, DIM, device="cuda").to(kind)

    def csr(self):
        indptr = np.cumsum([0] + [len(pages) for pages in self.rows]).astype(np.int32)
        indices = np.array([page for pages in self.rows for page in pages], np.int32)
        last = ((self.lengths - 1) % PAGE + 1).astype(np.int32)
        return [torch.from_numpy(values) for values in (indptr, indices, last)]

    def right(self, q=None, **keywords):
        q, kv = (self.q if q is None else q).float().cpu().numpy(), self.kv.float().cpu().numpy()
        return oracle(q, kv[:, 0], kv[:, 1], self.rows, self.lengths, **keywords)


def made(step, **keywords):
    return trunkline.DecodeAttention(HEADS, KV_HEADS, DIM, PAGE, dtype=step.q.dtype, device="cuda", **keywords)


class CudaTest(unittest.TestCase):
    def compare(self, out, right, lse=None):
        tolerance = 2e-3 if out.dtype == torch.float16 else 1.6e-2
        np.testing.assert_allclose(out.float().cpu().numpy(), right[0], atol=tolerance, rtol=1e-2)
        if lse is not None:
            np.testing.assert_allclose(lse.cpu().numpy(), right[1], atol=2e-3, rtol=1e-3)
