"""DARLING: images are told apart from learned negatives of their own domain.

Zhang et al., "Towards unsupervised domain generalization", 2022. No code of theirs is public: the
equations are from descriptions and memory, and what these leave open was decided here.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from onestyle.methods.base import Batch, MakeOptimizer, Method
from onestyle.nn import world
from onestyle.nn.ema import ema_copy, ema_update
from onestyle.nn.encode import unit
from onestyle.nn.heads import mlp
from onestyle.nn.health import embedding_std
from onestyle.nn.keys import encode_keys, halves, two_views
from onestyle.nn.negatives import Negatives, gradient_only
from onestyle.nn.precision import full_precision

__all__ = ["DARLING", "mixture"]


class DARLING(Method):
    """Each source domain has a bank of learned negatives, that climb as AdCo's do; how much each
    bank counts for an image is the chance that the image is of its domain.

    weights: "soft", by a classifier; "onehot", the domain that the image has; "uniform".
    """

    needs: ClassVar = frozenset({"domain"})

    def __init__(
        self,
        backbone: nn.Module,
        *,
        n_domains: int,
        dim: int = 128,
        negatives: int = 16384,
        temperature: float = 0.12,
        negatives_temperature: float = 0.02,
        negatives_lr: float = 3.0,
        momentum: float = 0.999,
        weights: Literal["soft", "onehot", "uniform"] = "soft",
    ):
        super().__init__(backbone)
        if temperature <= 0 or negatives_temperature <= 0:
            given = f"{temperature} and {negatives_temperature}"
            raise ValueError(f"temperatures must be positive, got {given}; take 0.12 and 0.02")
        if weights not in ("soft", "onehot", "uniform"):
            raise ValueError(f"weights are soft, onehot or uniform, got {weights!r}")
        width = int(backbone.num_features)  # pyright: ignore
        self.projector = mlp(width, width, dim, norm=False)
        self.key_backbone, self.key_projector = ema_copy(backbone), ema_copy(self.projector)
        self.banks = Negatives(negatives, dim, n_domains)
        if weights == "soft":
            self.classifier = mlp(width, width, n_domains, norm=False)
        self.temperature, self.negatives_temperature = temperature, negatives_temperature
        self.negatives_lr, self.momentum, self.weights = negatives_lr, momentum, weights
        self._new_keys: list[tuple[Tensor, Tensor]] = []

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        assert batch.domain is not None
        encoded, q, k = self._features_queries_and_keys(batch)
        self._new_keys.append((world.gather(k), world.gather(batch.domain)))
        log_w, error, logged = self._domain_weights(encoded.detach(), batch.domain)
        banks = self.banks.directions()
        # Both play with the same embeddings; neither has a gradient of the other's loss.
        loss = mixture(q, k, banks.detach(), log_w, self.temperature)
        adversary = mixture(q.detach(), k, banks, log_w, self.negatives_temperature)
        return loss + gradient_only(adversary + error), {
            "embedding_std": embedding_std(q),
            **logged,
            **self.banks.health(),
        }

    def embeddings(self, batch: Batch) -> Tensor:
        return torch.stack(self._features_queries_and_keys(batch)[1:])

    def _features_queries_and_keys(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The first view's (n, d) and (n, D) with gradient, the second one's (n, D) without."""
        queries, keys = two_views(batch.views, "DARLING")
        encoded = self.backbone(queries)
        k = encode_keys(self._slowly, keys, halves(batch.uniform()))
        return encoded, unit(self.projector(encoded)), k

    def _slowly(self, images: Tensor) -> Tensor:
        return self.key_projector(self.key_backbone(images))

    @full_precision
    def _domain_weights(
        self, encoded: Tensor, domain: Tensor
    ) -> tuple[Tensor, Tensor | float, dict[str, Tensor | float]]:
        """log w (n, S) without gradient, the classifier's loss, and what else to log of it."""
        n_domains = len(self.banks.weight)
        if self.weights == "soft":
            logits = self.classifier(encoded)
            accuracy = (logits.argmax(1) == domain).double().mean()
            error = F.cross_entropy(logits, domain)
            return logits.detach().log_softmax(1), error, {"domain_accuracy": accuracy}
        w = F.one_hot(domain, n_domains).to(encoded.dtype)
        w = w if self.weights == "onehot" else torch.full_like(w, 1 / n_domains)
        return w.log(), 0.0, {}

    def optimizers(self, make: MakeOptimizer) -> list[Optimizer]:
        """The recipe's for the networks alone: no recipe's LARS or Adam ever moves a negative."""
        trained = (p for p in self.parameters() if p.requires_grad)
        networks = make(p for p in trained if p is not self.banks.weight)
        return [networks, self.banks.ascent(self.negatives_lr)]

    def before_step(self, step: int) -> None:
        self.banks.before_step()

    def after_step(self, step: int, steps: int) -> None:
        keys, domain = map(torch.cat, zip(*self._new_keys, strict=True))
        self._new_keys.clear()
        # When the banks are complete, keys and queries have one network again, as in AdCo.
        momentum = 0.0 if self.banks.fill(keys, domain) else self.momentum
        ema_update(self.key_backbone, self.backbone, momentum)
        ema_update(self.key_projector, self.projector, momentum)


@full_precision
def mixture(q: Tensor, k: Tensor, banks: Tensor, log_w: Tensor, temperature: float) -> Tensor:
    """-log(sum_d w_d p_d), averaged over images, where

        p_d = exp(q . k / T) / (exp(q . k / T) + sum_j exp(q . n_dj / T)).

    Queries and keys (n, D), banks (S, K, D), all of unit length; log w (n, S).
    """
    own = (q * k).sum(-1, keepdim=True) / temperature  # (n, 1)
    others = torch.einsum("nd,skd->nsk", q, banks) / temperature
    log_p = F.logsigmoid(own - others.logsumexp(-1))  # (n, S)
    return -(log_w + log_p).logsumexp(1).mean()
