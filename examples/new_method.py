"""A method of your own, outside onestyle: VICReg, to which BSS is one word.

python examples/new_method.py [STEPS]

The file is the equation and a class with `loss`. It is called "module:Class" wherever a method has
a name, and gets the loop, the views, checkpoints, several processes, probes and reports.
(Bardes et al., "VICReg: variance-invariance-covariance regularization", 2022.)
"""

import sys
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onestyle.methods import Batch, Method
from onestyle.nn import world
from onestyle.nn.encode import encode
from onestyle.nn.heads import mlp
from onestyle.nn.health import embedding_std
from onestyle.nn.precision import full_precision
from onestyle.recipes import recipe_named
from onestyle.stages.pretrain import pretrain


@full_precision
def vicreg(z: Tensor, invariance: float, variance: float, covariance: float) -> Tensor:
    """Embeddings z (V, N, D), not normalised: views agree, each dimension varies, none repeats."""
    n = z.shape[1]
    agree = 2 * z.var(dim=0).mean()  # the mean squared difference over pairs of views
    centred = z - z.mean(dim=1, keepdim=True)
    spread = F.relu(1 - (z.var(dim=1) + 1e-4).sqrt()).mean()
    c = centred.mT @ centred / (n - 1)  # (V, D, D)
    repeated = (c.square().sum((1, 2)) - c.diagonal(dim1=1, dim2=2).square().sum(1)) / z.shape[2]
    return invariance * agree + variance * spread + covariance * 2 * repeated.mean()


class VICReg(Method):
    def __init__(
        self,
        backbone: nn.Module,
        *,
        dim: int = 256,
        invariance: float = 25.0,
        variance: float = 25.0,
        covariance: float = 1.0,
    ):
        super().__init__(backbone)
        self.expander = mlp(int(backbone.num_features), dim, dim)
        self.weights = invariance, variance, covariance

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        encoded = encode(self.backbone, batch.views)  # (V, n, d)
        z = self.expander(encoded.flatten(0, 1)).unflatten(0, encoded.shape[:2])
        everyones = world.gather(z, dim=1)  # (V, N, D), with gradient
        return vicreg(everyones, *self.weights), {"embedding_std": embedding_std(z.flatten(0, 1))}


def main(steps: int = 200, out: str = "runs/vicreg-bss") -> float:
    recipe = replace(
        recipe_named("digits/simclr"),
        method="new_method:VICReg",  # this file is new_method.py; "simclr" is one of the table
        options={"dim": 64},
        style="bss",
        views="2x32",
        steps=steps,
    )
    run = pretrain(recipe, targets=["photo"], out=out, say=print)
    return run.read_result()["last"]["loss"]


if __name__ == "__main__":
    torch.set_num_threads(2)
    print(f"loss {main(*map(int, sys.argv[1:])):.3f}")
