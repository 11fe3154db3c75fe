"""BrAD: images of all domains meet in a bridge domain of edge maps, and contrast inside their own.

Harary et al., "Unsupervised domain generalization by learning a bridge across domains", 2022.
n images, S domains, L cells of a feature map; a batch is one group of 4 views (4, n, 3, s, s).
"""

from __future__ import annotations

import copy
import math
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from onestyle.methods.base import Batch, Method
from onestyle.nn import world
from onestyle.nn.edges import EdgeNet, blurred, canny, load_hed, stretched
from onestyle.nn.ema import ema_copy, ema_update
from onestyle.nn.encode import unit
from onestyle.nn.heads import mlp
from onestyle.nn.health import embedding_std
from onestyle.nn.keys import encode_keys, halves
from onestyle.nn.precision import full_precision
from onestyle.nn.queue import DomainQueues
from onestyle.views import IMAGENET_MEAN, IMAGENET_STD

__all__ = ["BrAD", "Discriminator", "as_images", "own_queue_nce", "pooled_and_cells"]

GATE = 0.72  # over the number of domains: 18% of the official code's four


class BrAD(Method):
    """An image asks which edge map is of its image, and an edge map which image is its own, among
    keys of their domain; and from edge maps' features nobody shall tell the domain.

    bridge: "learned" (a small network a domain that imitates Canny's edges), "canny" (these edges
    themselves) or "hed" (HED a domain, from the weights in the file `hed_weights`).
    """

    needs: ClassVar = frozenset({"domain"})

    def __init__(
        self,
        backbone: nn.Module,
        *,
        n_domains: int,
        bridge: Literal["learned", "canny", "hed"] = "learned",
        hed_weights: str = "",
        dim: int = 128,
        queue_size: int = 65536,
        temperature: float = 0.2,
        momentum: float = 0.999,
        edge_weight: float = 1.0,
        adversary_weight: float = 1.0,
    ):
        super().__init__(backbone)
        if temperature <= 0:
            raise ValueError(f"temperature must be positive, got {temperature}; BrAD's is 0.2")
        width = int(backbone.num_features)  # pyright: ignore
        self.projector = mlp(width, width, dim, norm=False)
        self.key_backbone, self.key_projector = ema_copy(backbone), ema_copy(self.projector)
        self.queues = DomainQueues(n_domains, queue_size, dim)
        self.bridges, self.original = _bridges(bridge, n_domains, hed_weights)
        self.discriminator = Discriminator(width, n_domains)
        self.temperature, self.momentum = temperature, momentum
        self.edge_weight, self.adversary_weight = edge_weight, adversary_weight
        self._new_keys: list[tuple[Tensor, Tensor, Tensor]] = []

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor | float]]:
        views, domain = self._views(batch), _domain(batch)
        edges = self._bridge(views[2], domain)
        q, cells = self._queries(views[0], edges)
        k = self._keys(views[1], views[3], domain, batch.uniform(2))
        twice = domain.repeat(2), batch.places.repeat(2)
        contrast = own_queue_nce(q, k, self.queues, *twice, temperature=self.temperature)
        self._remember(k, batch)

        guessed, hidden, accuracy = self._domains_told(cells, domain, batch.uniform(1024 + 512))
        edge_error = _squared(edges, self._target(views[2]) if self.bridges else edges)
        led = contrast - self.adversary_weight * hidden + self.edge_weight * edge_error
        return led + guessed, {
            "cross_entropy": contrast.detach(),
            "edge_error": edge_error.detach(),
            "domain_accuracy": accuracy[0],
            "cell_domain_accuracy": accuracy[1],
            "embedding_std": embedding_std(q),
        }

    def embeddings(self, batch: Batch) -> Tensor:
        views, domain = self._views(batch), _domain(batch)
        q, _ = self._queries(views[0], self._bridge(views[2], domain))
        k = self._keys(views[1], views[3], domain, batch.uniform(2))
        (q_image, q_edges), (k_edges, k_image) = q.chunk(2), k.chunk(2)
        return torch.stack([q_image, k_edges, q_edges, k_image])

    def _views(self, batch: Batch) -> Tensor:
        """Of an image's query, its bridged key, its bridged query, and the image's key."""
        group = batch.views[0]
        if len(batch.views) != 1 or len(group) != 4 or group.shape[1] % 2:
            raise ValueError(
                "BrAD needs one group of 4 views, as '4x224 none', of an even number of images a "
                f"process; got groups of {[len(group) for group in batch.views]} views of "
                f"{group.shape[1]} images"
            )
        return group

    def _bridge(self, view: Tensor, domain: Tensor) -> Tensor:
        """psi_d(x): (n, 3, s, s), normalised -> edges (n, 1, s, s), by the net of each's domain."""
        pixels = _pixels(view)
        if not self.bridges:
            return canny(pixels)
        parts = [net(pixels[domain == d]) for d, net in enumerate(self.bridges)]
        return torch.cat(parts)[domain.argsort(stable=True).argsort()]

    def _queries(self, view: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Unit (2n, D): the images', then the edge maps'; and the latter's cells (n, L, d)."""
        network: nn.Module = self.backbone
        maps = network.forward_features(torch.cat([view, as_images(edges)]))  # pyright: ignore
        width = self.projector[0].in_features
        if maps.ndim != 4 or maps.shape[1] != width:
            raise ValueError(
                f"BrAD needs a network with feature maps (n, {width}, h, w), such as resnet18; "
                f"those of {type(network).__name__} are {tuple(maps.shape)}"
            )
        q = unit(self.projector(network.forward_head(maps, pre_logits=True)))  # pyright: ignore
        return q, maps[len(view) :].flatten(2).mT

    @torch.no_grad()
    def _keys(self, bridged: Tensor, view: Tensor, domain: Tensor, coins: Tensor) -> Tensor:
        """Unit (2n, D) without gradient: the edge maps', then the images'; coins (n, 2)."""
        images = torch.cat([as_images(self._bridge(bridged, domain)), view])
        return encode_keys(self._slowly, images, halves(coins.T.flatten()))

    def _slowly(self, images: Tensor) -> Tensor:
        return self.key_projector(self.key_backbone(images))

    @full_precision
    def _domains_told(
        self, cells: Tensor, domain: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What the discriminator is to lower, and the same for the others to raise, but where it is
        fooled enough; and how often it is right (2,), on pooled features and on cells."""
        vectors = pooled_and_cells(cells)
        as_it_is = {name: p.detach() for name, p in self.discriminator.named_parameters()}
        guessed = self.discriminator(vectors.detach(), noise)
        logits = functional_call(self.discriminator, as_it_is, (vectors, noise))

        right = (guessed.argmax(-1) == domain[:, None]).double().sum(0)
        accuracy = _of_both(world.total(right) / (len(domain) * world.size()))
        fooled = accuracy < GATE / guessed.shape[-1]
        hidden = _of_both(_domain_error(logits, domain)).masked_fill(fooled, 0.0).sum()
        return _of_both(_domain_error(guessed, domain)).sum(), hidden, accuracy

    @torch.no_grad()
    def _target(self, view: Tensor) -> Tensor:
        """The edges (n, 1, s, s) that the bridge may not leave too far."""
        pixels = _pixels(view)
        return stretched(blurred(canny(pixels))) if self.original is None else self.original(pixels)

    def _remember(self, k: Tensor, batch: Batch) -> None:
        """All processes' keys, with domain and place, in the order of one process."""
        keys = world.gather(k.unflatten(0, (2, -1)), dim=1).flatten(0, 1)
        domain, places = world.gather(_domain(batch)), world.gather(batch.places)
        self._new_keys.append((keys, domain.repeat(2), places.repeat(2)))

    def after_step(self, step: int, steps: int) -> None:
        ema_update(self.key_backbone, self.backbone, self.momentum)
        ema_update(self.key_projector, self.projector, self.momentum)
        for keys in self._new_keys:
            self.queues.push(*keys)
        self._new_keys.clear()


def _bridges(kind: str, n_domains: int, weights: str) -> tuple[nn.ModuleList, EdgeNet | None]:
    """A network for each domain, and the one that they may not leave too far, if any."""
    if kind not in ("learned", "canny", "hed"):
        raise ValueError(f"bridge must be learned, canny or hed, got {kind!r}")
    if (kind == "hed") != bool(weights):
        raise ValueError(
            "bridge hed needs hed_weights, a file such as network-bsds500.pytorch, and no other "
            f"bridge does; got bridge {kind} and hed_weights {weights!r}"
        )
    if kind != "hed":
        return nn.ModuleList(EdgeNet() for _ in range(n_domains if kind == "learned" else 0)), None
    hed = load_hed(weights)
    return nn.ModuleList(copy.deepcopy(hed) for _ in range(n_domains)), hed.requires_grad_(False)


class Discriminator(nn.Module):
    """Unit features -> logits of the domains, with dropout by noise that is given."""

    def __init__(self, width: int, n_domains: int, *, dropout: float = 0.25):
        super().__init__()
        self.layers = mlp(width, 1024, 512, 256, n_domains, norm=False, activation=nn.LeakyReLU)
        self.dropout = dropout

    def forward(self, vectors: Tensor, noise: Tensor) -> Tensor:
        """(n, 1 + L, d) and (n, 1024 + 512) in [0, 1) -> (n, 1 + L, S). The vectors of an image
        lose the same units: numbers for each of them would cost more than the network."""
        keep = (noise >= self.dropout)[:, None] / (1 - self.dropout)
        first, second = keep.to(vectors.dtype).split((1024, 512), dim=-1)
        x = self.layers[:2](vectors) * first
        return self.layers[4:](self.layers[2:4](x) * second)


def _domain(batch: Batch) -> Tensor:
    assert batch.domain is not None  # as declared
    return batch.domain


def _pixels(view: Tensor) -> Tensor:
    """(n, 3, s, s), normalised -> in [0, 1]."""
    mean, std = (view.new_tensor(three)[:, None, None] for three in (IMAGENET_MEAN, IMAGENET_STD))
    return view * std + mean


def as_images(edges: Tensor) -> Tensor:
    """Edges (n, 1, s, s) in [0, 1] -> what the network sees, (n, 3, s, s)."""
    return (edges - 0.5) / edges.new_tensor(IMAGENET_STD)[:, None, None]


@full_precision
def own_queue_nce(
    q: Tensor,
    k: Tensor,
    queues: DomainQueues,
    domain: Tensor,
    places: Tensor,
    *,
    temperature: float,
) -> Tensor:
    """-log(exp(q . k / T) / (exp(q . k / T) + sum_j exp(q . queue_dj / T))), averaged over queries.

    Queries and keys (m, D) of unit length; d is the query's domain (m,). Its queue's keys of its
    own image, places (m,), are no negatives.
    """
    negative = q.new_empty(len(q), queues.size)
    for d, keys in enumerate(queues.keys):
        mine = domain == d
        negative[mine] = q[mine] @ keys.T
    same = queues.places[domain] == places[:, None]
    negative = negative.masked_fill(same, -math.inf)
    logits = torch.cat([(q * k).sum(-1, keepdim=True), negative], dim=1) / temperature
    return F.cross_entropy(logits, torch.zeros_like(places))


@full_precision
def pooled_and_cells(cells: Tensor) -> Tensor:
    """Cells (n, L, d) -> their mean and they themselves, each made of length 1, (n, 1 + L, d)."""
    return unit(torch.cat([cells.mean(1, keepdim=True), cells], dim=1))


def _domain_error(logits: Tensor, domain: Tensor) -> Tensor:
    """Logits (n, 1 + L, S), domain (n,) -> cross entropy (1 + L,), averaged over images."""
    every = domain[:, None].expand(logits.shape[:2])
    return F.cross_entropy(logits.mT, every, reduction="none").mean(0)


def _of_both(values: Tensor) -> Tensor:
    """(1 + L,) -> that of the pooled feature and the mean of the cells', (2,)."""
    return torch.stack([values[0], values[1:].mean()])


@full_precision
def _squared(edges: Tensor, target: Tensor) -> Tensor:
    return (edges - target).square().mean()
