"""Facts about this machine, threads, and the machine profiles that planning needs (docs/guides/tuning.md)."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _abi, _direct
from ._arguments import c_string, choice, instance, int32, utf8
from ._arguments import path as path_bytes
from ._library import Handle, NotCopied, c, check, new, text_by
from ._tensors import device_of, dtype_name, dtype_number

_ISAS = {_abi.ISA_PORTABLE: "portable", _abi.ISA_AVX2: "avx2", _abi.ISA_AVX512: "avx512"}
KERNELS = {"auto": _abi.KERNELS_AUTO, "portable": _abi.KERNELS_PORTABLE, "hopper": _abi.KERNELS_HOPPER}


def shape_struct(
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim: int,
    page_size: int,
    dtype: object,
    device: object,
    kv_dtype: object = None,
) -> _abi.Shape:
    return new(
        _abi.Shape,
        q_heads=int32(num_qo_heads, "num_qo_heads"),
        kv_heads=int32(num_kv_heads, "num_kv_heads"),
        head_dim_qk=int32(head_dim, "head_dim"),
        page_size=int32(page_size, "page_size"),
        q_dtype=dtype_number(dtype),
        kv_dtype=0 if kv_dtype is None else dtype_number(kv_dtype, "kv_dtype"),
        device=device_of(device)[0],
    )


@dataclass(frozen=True)
class Support:
    """Whether something can be run, and if not, why. True or False as a condition."""

    ok: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.ok


def _support(status: int) -> Support:
    if status == _abi.UNSUPPORTED:
        return Support(False, c.trunkline_last_error().decode())
    check(status)
    return Support(True)


def supports(
    num_qo_heads: int,
    num_kv_heads: int,
    head_dim: int,
    page_size: int = 16,
    *,
    dtype: object = "float16",
    device: object = "cpu",
    kv_dtype: object = None,
) -> Support:
    """Whether this build runs a shape here. kv_dtype: of K and V; None: that of Q, `dtype`.

    >>> import trunkline
    >>> bool(trunkline.supports(32, 8, 128))
    True
    >>> print(trunkline.supports(32, 8, 80).reason)
    head_dim_qk and head_dim_v are 80; supported: 64, 128, 256
    """
    shape = shape_struct(num_qo_heads, num_kv_heads, head_dim, page_size, dtype, device, kv_dtype)
    kind, index = device_of(device)
    if kind == _abi.CUDA and index > 0:
        cuda = Handle("cuda", ctypes.byref(new(_abi.CudaOptions, device=index)))
        return _support(c.trunkline_cuda_supports(cuda.value, ctypes.byref(shape)))
    return _support(c.trunkline_supports(ctypes.byref(shape)))


def cuda_status() -> Support:
    """Whether a GPU can be used; if not, what is missing and what would help."""
    return _support(c.trunkline_cuda_status(None))


def version() -> str:
    """ "0.2.0 (commit)", of the library."""
    return f"{c.trunkline_version().decode()} ({c.trunkline_commit().decode()})"


def cpu_info() -> dict[str, Any]:
    """Facts about the CPU, without measuring: model, instruction sets, usable cores, caches and memory in bytes."""
    info = new(_abi.CpuInfo)
    check(c.trunkline_get_cpu_info(ctypes.byref(info)))
    found = _plain(info)
    return found | {"isa": _ISAS.get(info.isa, "best")}


def cuda_info(device: int = 0) -> dict[str, Any]:
    """Name, compute capability, SMs, memory of a GPU."""
    info = new(_abi.CudaInfo)
    check(c.trunkline_get_cuda_info(int32(device, "device"), ctypes.byref(info)))
    return _plain(info)


def _plain(struct: ctypes.Structure) -> dict[str, Any]:
    """A struct that the library has filled, as a dict."""
    names = [field[0] for field in struct._fields_ if field[0] not in ("struct_size", "reserved")]
    values = {name: getattr(struct, name) for name in names}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


class Workers(NotCopied):
    """A group of CPU threads, the caller's being one. Objects that share one run one at a time, in the order of their
    calls, which wait for their turn; to run at once, give each of your threads its own. A forked child, which has none
    of its parent's threads, needs its own, too: there its parent's are a ClosedError.

    threads: 0 for every core that this process may use.
    """

    def __init__(self, threads: int = 0) -> None:
        self._queue = _direct.Queue()  # of the calls that run on them
        self._handle = Handle("workers", int32(threads, "threads"))
        size = ctypes.c_int32()
        check(c.trunkline_workers_size(self._handle.value, ctypes.byref(size)))
        self.size = size.value

    def close(self) -> None:
        self._handle.close()

    def __repr__(self) -> str:
        return f"<trunkline.Workers of {self.size} threads>"


class Profile(NotCopied):
    """Facts of a machine, for planning: bandwidth, FMA rate, fixed costs. Made by the functions below."""

    def __init__(self, handle: Handle) -> None:
        self._handle = instance(handle, Handle, "handle")

    @classmethod
    def _made(cls, function: str, *arguments: Any) -> Profile:
        return cls(Handle("profile", *arguments, by=function))

    @classmethod
    def generic_cpu(cls, threads: int) -> Profile:
        """Typical figures for so many threads; measures nothing."""
        return cls._made("generic_cpu", int32(threads, "threads"))

    @classmethod
    def measure_cpu(cls, workers: Workers) -> Profile:
        """generic_cpu with bandwidth and FMA rate measured here; takes about a quarter of a second."""
        instance(workers, Workers, "workers")
        return workers._queue.call(cls._made, "measure_cpu", workers._handle.value)

    @classmethod
    def named(cls, name: str) -> Profile:
        """One that comes along: "a100-80gb", "generic-cpu", "h100-sxm", "h200-sxm"."""
        return cls._made("named", c_string(name, "name"))

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """From a file, as `trunkline tune` writes it."""
        return cls._made("load", path_bytes(path, "path"))

    @classmethod
    def parse(cls, text: str, name: str = "profile") -> Profile:
        """From the text of such a file; `name` begins messages about it."""
        data = utf8(text, "text")
        return cls._made("parse", data, len(data), c_string(name, "name"))

    @classmethod
    def cuda(
        cls,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        *,
        dtype: object = "float16",
        device: object = "cuda",
        kernels: str = "auto",
        kv_dtype: object = None,
    ) -> Profile:
        """The profile of a GPU, with the tiles of the kernels ("auto", "portable", "hopper") that run the shape.
        kv_dtype: of K and V; None: that of Q, `dtype`."""
        shape = shape_struct(num_qo_heads, num_kv_heads, head_dim, page_size, dtype, device, kv_dtype)
        wanted = choice(KERNELS, kernels, "kernels")
        return cls._made("cuda", device_of(device)[1], ctypes.byref(shape), wanted)

    @property
    def info(self) -> dict[str, Any]:
        """Name, device, workers, read_bytes_per_us, flops_per_us, launch_us, llc_bytes."""
        found = new(_abi.ProfileInfo)
        check(c.trunkline_profile_get_info(self._handle.value, ctypes.byref(found)))
        return _plain(found) | {"device": "cpu" if found.device == _abi.CPU else "cuda"}

    def json(self) -> Any:
        """The content of its file, with where each figure comes from. UnsupportedError for those made otherwise."""
        return json.loads(text_by("trunkline_profile_json", self._handle.value))

    def close(self) -> None:
        self._handle.close()

    def __repr__(self) -> str:
        info = self.info
        return f"<trunkline.Profile {info['name']}: {info['workers']} workers>"


def shape_text(shape: _abi.Shape) -> str:
    return (
        f"{shape.q_heads}/{shape.kv_heads} heads of {shape.head_dim_qk}, pages of {shape.page_size}, "
        f"{dtype_name(shape.q_dtype)}"
    )
