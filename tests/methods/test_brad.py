"""BrAD is its equations; no query meets another domain's queue, or keys of its own image there."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from onestyle.methods import Batch
from onestyle.methods.brad import BrAD, Discriminator, as_images, own_queue_nce, pooled_and_cells
from onestyle.nn.backbone import make_backbone
from onestyle.nn.edges import HED_STAGES, EdgeNet, blurred, canny, stretched
from onestyle.nn.keys import halves
from onestyle.nn.queue import DomainQueues
from onestyle.views import IMAGENET_MEAN, IMAGENET_STD

S, N, D = 3, 6, 5


class Backbone(nn.Module):
    """Maps of 4 x 4 cells, as a timm network gives them."""

    num_features = 7

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 7, 3, 2, 1), nn.BatchNorm2d(7), nn.Tanh())

    def forward_features(self, images):
        return self.layers(images)

    def forward_head(self, maps, pre_logits=False):
        return maps.mean((2, 3))

    def forward(self, images):
        return self.forward_head(self.forward_features(images))


def brad(seed=0, **options):
    torch.manual_seed(seed)
    given = {"n_domains": S, "dim": D, "queue_size": 8, **options}
    return BrAD(Backbone(), **given).double()


def batch(domain=(0, 1, 2, 0, 1, 2), n_views=4, seed=0, first=0):
    n, generator = len(domain), torch.Generator().manual_seed(seed)
    views = torch.randn(n_views, n, 3, 8, 8, dtype=torch.double, generator=generator)
    return Batch([views], torch.arange(n) + first, 0, generator, domain=torch.tensor(domain))


def unit(*shape):
    return F.normalize(torch.randn(*shape, dtype=torch.double), dim=-1)


def pixels(view):
    mean, std = (torch.tensor(x).double()[:, None, None] for x in (IMAGENET_MEAN, IMAGENET_STD))
    return view * std + mean


def by_domain(method, view, domain):
    return torch.cat(
        [method.bridges[d](pixels(x[None])) for x, d in zip(view, domain, strict=True)]
    )


# ----------------------------------------------------------------------------- the loss


def test_the_contrast_is_the_equation():
    """Query by query, key by key: those of the own domain's queue that are of another image."""
    q, k, queues, T = unit(6, D), unit(6, D), DomainQueues(S, 4, D).double(), 0.2
    domain, places = torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([3, 4, 5, 6, 4, 3])
    queues.places[:] = torch.tensor([[3, 3, 7, -1], [3, 9, 4, 4], [-1, -1, -1, -1]])
    terms = []
    for i in range(6):
        of_others = math.exp(q[i] @ k[i] / T)
        for j in range(4):
            if queues.places[domain[i], j] != places[i]:
                of_others += math.exp(q[i] @ queues.keys[domain[i], j] / T)
        terms.append(-math.log(math.exp(q[i] @ k[i] / T) / of_others))
    found = own_queue_nce(q, k, queues, domain, places, temperature=T)
    assert_close(found, torch.tensor(terms).double().mean())


def test_equal_keys_give_ln_of_one_plus_their_number():
    k, queues = unit(1, D), DomainQueues(S, 9, D).double()
    queues.keys[:] = k
    domain, places = torch.tensor([0, 1, 2]), torch.arange(3)
    arguments = unit(3, D), k.expand(3, D), queues, domain, places
    assert_close(own_queue_nce(*arguments, temperature=0.2), torch.tensor(math.log(10)).double())
    queues.places[:, :4] = places[:, None]  # four of the nine are of the query's own image
    assert_close(own_queue_nce(*arguments, temperature=0.2), torch.tensor(math.log(6)).double())


def test_a_foreign_queue_and_own_keys_are_never_met():
    """Neither the loss nor its gradient changes with what is in there."""
    q, k, queues = unit(4, D).requires_grad_(), unit(4, D), DomainQueues(S, 6, D).double()
    domain, places = torch.tensor([1, 1, 1, 1]), torch.arange(4) + 10
    queues.places[1, :2] = torch.tensor([10, 11])

    def found():
        loss = own_queue_nce(q, k, queues, domain, places, temperature=0.2)
        return loss.detach(), *(grad for grad in torch.autograd.grad(loss, q))

    before = found()
    queues.keys[[0, 2]] = unit(2, 6, D)
    queues.places[[0, 2]] = 12
    assert_close(found(), before, rtol=0, atol=0)
    queues.keys[1, 0] = unit(D)
    after = found()
    assert torch.equal(after[1][0], before[1][0])  # the image at place 10
    assert (after[1][1:] != before[1][1:]).any(dim=1).all()  # the others meet it


def test_the_mask_holds_in_half_precision():
    queues = DomainQueues(1, 2, D)
    queues.places[0] = torch.tensor([0, 1])
    q = unit(2, D).float()
    queues.keys[0] = q.flip(0)
    queues.keys[0, 0] = q[0]  # what it must not meet: cosine 1
    queues.keys[0, 1] = q[1]
    k, places = -q, torch.arange(2)
    with torch.autocast("cpu", torch.bfloat16):
        low = own_queue_nce(
            q.bfloat16(), k.bfloat16(), queues, torch.zeros(2).long(), places, temperature=0.002
        )
    exact = F.softplus(((q @ q.T)[0, 1] + 1) / 0.002)
    assert low.dtype == torch.float32
    assert_close(low, exact, rtol=0.02, atol=0)


@pytest.mark.parametrize("domains", [(0, 1, 2, 0, 1, 2), (1, 0, 0, 0, 0, 1)])
def test_the_loss_from_views_to_number(domains):
    """With a discriminator that says 2 to all: a third is right, or none."""
    method = brad(edge_weight=3.0, adversary_weight=0.5)
    method.discriminator.layers[6].bias.data.copy_(torch.tensor([0, 0, 1]))
    loss, logged = method.loss(batch(domains))
    same = batch(domains)
    views, domain = same.views[0], same.domain
    coin, noise = same.uniform(2), same.uniform(1536)
    edges = by_domain(method, views[2], domain)

    maps = method.backbone.layers(torch.cat([views[0], as_images(edges)]))
    q = F.normalize(method.projector(maps.mean((2, 3))), dim=1)
    images = torch.cat([as_images(by_domain(method, views[1], domain)), views[3]])
    k = torch.empty(2 * N, D).double()
    for part in halves(torch.cat([coin[:, 0], coin[:, 1]])):
        keys = method.key_projector(method.key_backbone(images[part]))
        k[part] = F.normalize(keys, dim=1)
    contrast = own_queue_nce(
        q, k, method.queues, domain.repeat(2), same.places.repeat(2), temperature=0.2
    )
    target = stretched(blurred(canny(pixels(views[2]))))
    errors, right = told_by_hand(method.discriminator, maps[N:], domain, noise)
    raised = sum(e for e, r in zip(errors, right, strict=True) if r >= 0.24)
    edge_error = (edges - target).square().mean()
    assert_close(loss, contrast + 3 * edge_error + sum(errors) - 0.5 * raised)
    assert_close(logged["cross_entropy"], contrast)
    assert right == [domains.count(2) / N] * 2
    told = logged["domain_accuracy"], logged["cell_domain_accuracy"]
    assert_close(torch.stack(told), torch.tensor(right).double())


def told_by_hand(discriminator, maps, domain, noise):
    """Cross entropy and accuracy on the pooled features, and on all cells: vector by vector."""
    layers = [layer for layer in discriminator.layers if isinstance(layer, nn.Linear)]

    def logits(x, noise):
        x = F.normalize(x, dim=0)
        for layer, share in zip(layers[:2], noise.split((1024, 512)), strict=True):
            x = F.leaky_relu(layer(x), 0.01) * (share >= 0.25) / 0.75
        return layers[3](F.leaky_relu(layers[2](x), 0.01))

    errors, right = ([[], []] for _ in range(2))
    for n in range(len(maps)):
        cells = [maps[n, :, i, j] for i in range(4) for j in range(4)]
        for kind, vectors in enumerate(([maps[n].mean((1, 2))], cells)):
            for vector in vectors:
                told = logits(vector, noise[n])
                errors[kind].append(-told.log_softmax(0)[domain[n]])
                right[kind].append(float(told.argmax() == domain[n]))
    means = [torch.stack(each).mean() for each in errors]
    return means, [sum(each) / len(each) for each in right]


def test_the_official_normalisation_of_edges():
    """A half is 0, and a channel's standard deviation is ImageNet's."""
    edges = torch.rand(2, 1, 4, 4)
    images = as_images(edges)
    for channel, std in enumerate((0.229, 0.224, 0.225)):
        assert_close(images[:, channel], (edges[:, 0] - 0.5) / std)


# ------------------------------------------------------------------- the discriminator


def told(method, maps, domain, noise):
    return method._domains_told(maps.flatten(2).mT, domain, noise)


def test_the_discriminator_learns_and_the_rest_unlearns():
    """Its gradient is that of its error, that of the features the opposite of the error's."""
    method, noise = brad(), torch.rand(N, 1536)
    maps = torch.randn(N, 7, 4, 4).double().requires_grad_()
    domain = method.discriminator(pooled_and_cells(maps.flatten(2).mT), noise)[:, 0].argmax(1)
    guessed, hidden, _ = told(method, maps, domain.detach(), noise)  # right: the gate is open
    (errors, _), weights = (
        told_by_hand(method.discriminator, maps, domain, noise),
        list(method.discriminator.parameters()),
    )
    error = errors[0] + errors[1]
    assert_close(guessed, hidden)
    assert_close(guessed, error)

    mine = torch.autograd.grad(guessed - hidden, [*weights, maps], retain_graph=True)
    literal = torch.autograd.grad(error, [*weights, maps])
    assert_close(mine[:-1], literal[:-1])
    assert_close(mine[-1], -literal[-1])
    assert torch.autograd.grad(guessed, maps, allow_unused=True, retain_graph=True)[0] is None
    assert all(g is None for g in torch.autograd.grad(hidden, weights, allow_unused=True))


@pytest.mark.parametrize("n_right, is_open", [(1, False), (2, True)])
def test_features_flee_only_from_a_discriminator_that_finds_them(n_right, is_open):
    """0.24 of three domains' vectors: 1 of 6 is less, 2 of 6 are more."""
    method, noise = brad(), torch.rand(N, 1536)
    last = method.discriminator.layers[6]
    last.weight.data *= 1e-6  # it says 0 to everything
    last.bias.data.copy_(torch.tensor([9.0, 0, 0]))
    domain = torch.tensor([0] * n_right + [1] * (N - n_right))
    maps = torch.randn(N, 7, 4, 4).double().requires_grad_()
    guessed, hidden, accuracy = told(method, maps, domain, noise)
    assert_close(accuracy, torch.full((2,), n_right / N).double())
    assert_close(hidden.detach(), guessed.detach() if is_open else torch.zeros(()).double())
    fled = torch.autograd.grad(hidden, maps)[0].abs().sum()
    assert (fled > 0) == is_open


def test_each_kind_of_features_has_its_own_gate():
    """All cells of an image are wrong, their mean is right: the mean alone is to flee."""
    method, noise = brad(), torch.rand(1, 1536)
    cells = torch.randn(1, 16, 7).double().requires_grad_()
    domain = torch.tensor([0])
    told = torch.tensor([0] + [1] * 16)  # of the mean, of each cell

    def forward(vectors, noise):
        return vectors[..., :3] * 0 + F.one_hot(told, 3)

    method.discriminator.forward = forward
    _, hidden, accuracy = method._domains_told(cells, domain, noise)
    assert accuracy.tolist() == [1, 0]
    assert_close(hidden, torch.tensor(math.log(1 + 2 / math.e)).double())


def test_dropout_is_a_quarter_and_keeps_the_mean():
    torch.manual_seed(0)
    network = Discriminator(4, 2)
    vectors, noise = torch.randn(1, 3, 4), torch.rand(4000, 1536)
    assert torch.equal(network(vectors, noise[:1]), network(vectors, noise[:1]))
    assert not torch.equal(network(vectors, noise[:1]), network(vectors, noise[1:2]))
    network.layers[2].weight.data.zero_()
    network.layers[2].weight.data[:, 0] = 1  # the first hidden unit alone goes on
    network.layers[2].bias.data.zero_()
    network.layers[0].weight.data.zero_()
    network.layers[0].bias.data.fill_(1)
    seen = []
    network.layers[4].register_forward_hook(lambda layer, given, out: seen.append(given[0]))
    network(vectors.expand(4000, -1, -1), noise)
    kept = noise[:, 0] >= 0.25
    expected = kept[:, None] / 0.75 * (noise[:, 1024:] >= 0.25) / 0.75
    assert_close(seen[0], expected[:, None].expand(-1, 3, -1))  # one mask for an image's vectors
    assert_close(expected.mean(), torch.tensor(1.0), atol=0.05, rtol=0)


def test_the_discriminator_has_the_official_layers():
    layers = [layer for layer in brad().discriminator.layers]
    linear = [tuple(layer.weight.shape) for layer in layers[::2]]
    assert linear == [(1024, 7), (512, 1024), (256, 512), (S, 256)]
    assert all(isinstance(layer, nn.LeakyReLU) for layer in layers[1::2])


# ----------------------------------------------------------------------- keys and queues


def test_keys_enter_their_domains_queue_after_the_logits():
    method, before = brad(), brad().queues
    method.loss(batch())
    assert_close(dict(method.queues.state_dict()), dict(before.state_dict()), rtol=0, atol=0)
    same = batch()
    with torch.no_grad():
        k = method._keys(same.views[0][1], same.views[0][3], same.domain, same.uniform(2))
    method.after_step(0, 10)
    for d in range(S):
        # Bridged keys of both images of the domain, then keys of the images themselves.
        assert_close(method.queues.keys[d, :4], k[[d, d + 3, d + N, d + 3 + N]])
        assert method.queues.places[d, :4].tolist() == [d, d + 3, d, d + 3]
        assert torch.equal(method.queues.keys[d, 4:], before.keys[d, 4:])
        assert method.queues.places[d, 4:].tolist() == [-1] * 4


def test_batches_of_an_accumulated_step_all_enter():
    method = brad()
    method.loss(batch(seed=1))
    method.loss(batch(seed=2, first=N))
    method.after_step(0, 10)
    assert method.queues.pointer.tolist() == [0] * S
    assert method.queues.places[1].tolist() == [1, 4, 1, 4, 7, 10, 7, 10]


def test_a_batch_may_have_any_number_of_a_domain():
    """One of domain 0, none of domain 1: the nets without images get a gradient of zeros."""
    method = brad()
    given = batch(domain=(2, 2, 0, 2, 2, 2))
    loss, _ = method.loss(given)
    loss.backward()
    assert all((p.grad == 0).all() for p in method.bridges[1].parameters())
    assert all(p.grad.abs().sum() > 0 for p in method.bridges[0].parameters() if p.ndim > 1)
    method.after_step(0, 10)
    assert method.queues.pointer.tolist() == [2, 0, 0]
    assert (method.queues.places[1] == -1).all()
    assert method.queues.places[2].tolist() == [3, 4, 5, 0, 1, 3, 4, 5]  # the last 8 of 10


def test_keys_are_no_way_back():
    """Not through the slow network and not through the bridge, which keys cross as well."""
    method, given = brad(), batch()
    given.views[0].requires_grad_()
    method.loss(given)[0].backward()
    slow = [*method.key_backbone.parameters(), *method.key_projector.parameters()]
    assert all(p.grad is None and not p.requires_grad for p in slow)
    moved = given.views[0].grad.abs().sum((1, 2, 3, 4))
    assert (moved > 0).tolist() == [True, False, True, False]


def test_the_key_network_follows():
    method = brad(momentum=0.5)
    before = method.key_projector[0].weight.clone()
    with torch.no_grad():
        method.projector[0].weight += 1
    method.loss(batch())
    method.after_step(0, 10)
    assert_close(method.key_projector[0].weight, before + 0.5)


def test_statistics_of_keys_are_those_of_a_half():
    method, given = brad(), batch()
    views, coins = given.views[0].clone(), torch.rand(N, 2)
    first, second = halves(coins.T.flatten())
    keys = method._keys(views[1], views[3], given.domain, coins)
    for k in second.tolist():
        views[1 if k < N else 3, k % N] = torch.randn(3, 8, 8)
    changed = method._keys(views[1], views[3], given.domain, coins)
    assert_close(keys[first], changed[first], rtol=0, atol=1e-12)
    assert (keys[second] - changed[second]).abs().max() > 0.01


# ------------------------------------------------------------------------------ bridges


def gradients(method, given):
    loss, _ = method.loss(given)
    return [
        torch.autograd.grad(loss, net.fuse.weight, retain_graph=True)[0] for net in method.bridges
    ]


def test_a_bridge_learns_from_the_images_of_its_domain():
    """From the edges it is to imitate, and without them from contrast and discriminator."""
    for edge_weight in (1.0, 0.0):
        found = gradients(brad(edge_weight=edge_weight), batch(domain=(0, 0, 2, 2, 0, 2)))
        assert [bool(g.abs().sum() > 0) for g in found] == [True, False, True]


def test_a_bridge_without_images_of_its_own_does_not_see_others():
    method, given = brad(), batch()
    edges = method._bridge(given.views[0][2], given.domain)
    assert_close(edges, by_domain(method, given.views[0][2], given.domain))
    with torch.no_grad():
        for p in method.bridges[1].parameters():
            p += 0.1
    changed = (method._bridge(given.views[0][2], given.domain) != edges).flatten(1).any(1)
    assert changed.tolist() == (given.domain == 1).tolist()


def test_fixed_edges_have_no_network():
    method, given = brad(bridge="canny"), batch()
    assert not [name for name in method.state_dict() if "bridge" in name]
    assert torch.equal(
        method._bridge(given.views[0][2], given.domain), canny(pixels(given.views[0][2]))
    )
    loss, logged = method.loss(given)
    loss.backward()
    assert logged["edge_error"] == 0


def test_hed_begins_as_what_its_file_holds_and_is_held_there(tmp_path):
    path, hed = tmp_path / "network-bsds500.pytorch", EdgeNet(HED_STAGES, scale=255.0)
    torch.save(official_names(hed.state_dict()), path)
    torch.manual_seed(0)
    method = BrAD(Backbone(), n_domains=2, queue_size=8, bridge="hed", hed_weights=str(path))
    images = torch.rand(2, 3, 32, 32)
    for net in (*method.bridges, method.original):
        assert torch.equal(net(images), hed(images))
    assert not any(p.requires_grad for p in method.original.parameters())
    given = batch((0, 1))
    given.views = [torch.randn(4, 2, 3, 16, 16)]
    loss, logged = method.loss(given)
    assert logged["edge_error"] < 1e-9  # so far
    loss.backward()
    with torch.no_grad():
        method.bridges[1].fuse.bias += 1
    _, logged = method.loss(given)
    net, old = method.bridges[1], method.original
    x = (given.views[0][2, 1:] * torch.tensor(IMAGENET_STD)[:, None, None]) + torch.tensor(
        IMAGENET_MEAN
    )[:, None, None]
    assert_close(logged["edge_error"], ((net(x) - old(x)) ** 2).mean().detach() / 2)


def official_names(state):
    numbers, named = ("One", "Two", "Thr", "Fou", "Fiv"), {}
    for name, value in state.items():
        part, *rest = name.split(".")
        if part == "stages":
            layer = int(rest[1]) + (rest[0] != "0")
            named[f"moduleVgg{numbers[int(rest[0])]}.{layer}.{rest[2]}"] = value
        elif part == "sides":
            named[f"moduleScore{numbers[int(rest[0])]}.{rest[1]}"] = value
        else:
            named[f"moduleCombine.0.{rest[0]}"] = value
    return named


# ------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("given", [{"n_views": 2}, {"domain": (0, 1, 2)}])
def test_other_plans_are_refused(given):
    with pytest.raises(ValueError, match=r"needs one group of 4 views.* even number of images"):
        brad().loss(batch(**given))


def test_what_cannot_work_is_refused():
    with pytest.raises(ValueError, match="temperature must be positive"):
        brad(temperature=0.0)
    with pytest.raises(ValueError, match="bridge must be learned, canny or hed, got 'sobel'"):
        brad(bridge="sobel")
    for options in ({"bridge": "hed"}, {"hed_weights": "hed.pytorch"}):
        with pytest.raises(ValueError, match="bridge hed needs hed_weights, a file such as"):
            brad(**options)
    vit = make_backbone("test_vit", 32, options={"patch_size": 8})
    method = BrAD(vit, n_domains=2, queue_size=8)
    given = batch((0, 1))
    given.views = [torch.randn(4, 2, 3, 32, 32)]
    with pytest.raises(
        ValueError, match=r"feature maps \(n, 64, h, w\), such as resnet18; those of"
    ):
        method.loss(given)
