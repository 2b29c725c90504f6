"""PyTorch for the zoo, or a sentence that says what to install."""

from __future__ import annotations

from nnkit.installation import install_command

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ModuleNotFoundError as error:
    raise SystemExit(f"the zoo's networks need {error.name}: {install_command('zoo')}") from None

__all__ = ["functional", "nn", "torch"]
