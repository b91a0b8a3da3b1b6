"""Initialisations other than PyTorch's own."""

from torch import nn

INITS = {"pytorch": "PyTorch's defaults", "glorot": "as in Keras, biases zero"}


def glorot(module: nn.Module) -> nn.Module:
    """Reinitialise all linear and convolutional layers as in Keras: Glorot uniform weights, zero biases.

    Glorot and Bengio, AISTATS 2010. Returns ``module``.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return module
