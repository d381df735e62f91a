"""Where and with which versions a row was measured."""

from __future__ import annotations

import subprocess
import sys

import torch
import trunkline


def provenance(device: torch.device, script: str) -> dict:
    """script: its path in the repository, for the command."""
    cuda = device.type == "cuda"
    return {
        "clock": "GPU events" if cuda else "elapsed",
        "device": torch.cuda.get_device_name(device) if cuda else trunkline.cpu_info()["model"],
        "driver": driver() if cuda else "",
        "cuda": torch.version.cuda or "",
        "torch": torch.__version__,
        "version": trunkline.version(),
        "command": " ".join([script, *sys.argv[1:]]),
    }


def driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return ""
