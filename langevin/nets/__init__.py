"""Networks (Equinox), Bayesian networks as targets, and training."""

from langevin.nets.bnn import BNN, bnn
from langevin.nets.images import LeNet, ResNet
from langevin.nets.mlp import MLP
from langevin.nets.train import starts, train
from langevin.nets.transformer import Transformer
from langevin.nets.unet import UNet

__all__ = [
    "BNN",
    "MLP",
    "LeNet",
    "ResNet",
    "Transformer",
    "UNet",
    "bnn",
    "starts",
    "train",
]
