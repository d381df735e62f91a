"""Options of all programs that start engines."""

import argparse

import models

COMPILATIONS = ("default", "fulldecode", "eager")  # vllm_engine.py has what they are


def add_to(parser: argparse.ArgumentParser, kv_gib: float = 44.0, compilations: tuple[str, ...] = COMPILATIONS) -> None:
    parser.add_argument("--model", choices=list(models.SHAPES), default="llama3-8b")
    parser.add_argument("--layers", type=int, help="fewer than the model has")
    parser.add_argument("--kv-cache-dtype", choices=list(models.ELEMENT_BYTES), default="auto", help="fp8: e4m3")
    parser.add_argument("--compilation", choices=compilations, default="default")
    parser.add_argument("--tensor-parallel", type=int, default=1, metavar="N", help="GPUs that a model is split over")
    parser.add_argument("--kv-gib", type=float, default=kv_gib, help="KV cache of each engine, on each of its GPUs")
    parser.add_argument("--max-num-seqs", type=int, default=256)
    parser.add_argument("--scratch", default="/tmp/trunkline_vllm", help="folder for configurations and compiled code")


def told(given: argparse.Namespace) -> str:
    """Of these options those that a row's command names, with a space behind."""
    split = f"--tensor-parallel {given.tensor_parallel} " if given.tensor_parallel > 1 else ""
    return split + (f"--kv-cache-dtype {given.kv_cache_dtype} " if given.kv_cache_dtype != "auto" else "")


def add_drawing_to(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the drawn weights of an engine in this process."""
    parser.add_argument("--std", type=float, default=0.02, help="of the drawn weights")
