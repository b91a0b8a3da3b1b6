"""The precision of float32 products, which PyTorch keeps for the whole process."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def set_precision(precision: str, device: "torch.device") -> str:
    """Set the precision of float32 products, and on a GPU choose deterministic algorithms; returns the type that the
    factors are rounded to: ``float32``, ``TF32`` or ``bfloat16``.

    ``highest`` rules out TF32 and bfloat16 in matrix products and in cuDNN's convolutions. On a CPU, ``medium`` is
    bfloat16 if the processor has matrix units for it (AMX). Without them PyTorch would round the factors of some
    products and not of others; all are then computed in float32.
    """
    import torch

    units = torch.cpu._is_amx_tile_supported()  # no public name tells this
    on_cpu = "bfloat16" if precision == "medium" and units else "float32"
    products = on_cpu if device.type == "cpu" else "float32" if precision == "highest" else "TF32"
    torch.set_float32_matmul_precision("highest" if products == "float32" else precision)  # on every device
    torch.backends.cudnn.allow_tf32 = precision != "highest"
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS is not deterministic
    if (
        device.type == "cuda" or torch.are_deterministic_algorithms_enabled()
    ):  # the call imports PyTorch's compiler: 1 s
        torch.use_deterministic_algorithms(device.type == "cuda", warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # costs time
    return products
