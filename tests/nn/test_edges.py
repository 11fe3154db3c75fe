"""Canny's edges are the literal ones; an edge network of HED's form has HED's weights and maps."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import ndimage
from torch import nn
from torch.testing import assert_close

from onestyle.checkpoint import save_tensors
from onestyle.nn.edges import EdgeNet, blurred, canny, load_hed, stretched


def literal(image, low=0.1, high=0.2):
    """Pixel by pixel, as the steps are told: (h, w) grey -> (h, w) of 0 and 1."""
    there = ndimage.gaussian_filter(np.ones_like(image), 1.0, mode="constant")
    grey = ndimage.gaussian_filter(image, 1.0, mode="constant") / there
    down, right = ndimage.sobel(grey, axis=0), ndimage.sobel(grey, axis=1)
    steep, ridge = np.hypot(down, right), np.zeros(image.shape, bool)
    for i in range(1, image.shape[0] - 1):
        for j in range(1, image.shape[1] - 1):
            y, x = int(np.sign(down[i, j])), int(np.sign(right[i, j]))
            a, b = abs(down[i, j]), abs(right[i, j])
            beside, share = ((y, 0), b / a) if a >= b and a else ((0, x), a / b if b else 0)
            ahead = (1 - share) * steep[i + beside[0], j + beside[1]] + share * steep[i + y, j + x]
            behind = (1 - share) * steep[i - beside[0], j - beside[1]] + share * steep[i - y, j - x]
            ridge[i, j] = steep[i, j] > 0 and steep[i, j] * 1.00001 >= max(ahead, behind)
    labels, n = ndimage.label(ridge & (steep >= low), np.ones((3, 3)))
    kept = {k for k in range(1, n + 1) if (steep[labels == k] >= high).any()}
    return np.isin(labels, list(kept)).astype(float)


def smooth_noise(n=4, size=40, seed=0):
    noise = torch.rand(n, 1, size, size, generator=torch.Generator().manual_seed(seed)).double()
    return stretched(blurred(noise, 2.0))


def grey(maps):
    return maps.expand(-1, 3, -1, -1)


def disk(radius, size=48):
    away = torch.arange(size) - size // 2
    return ((away[:, None] ** 2 + away**2) < radius**2).double().expand(1, 3, size, size)


def test_canny_is_the_literal_one():
    images = torch.cat([grey(smooth_noise()), disk(12, 40), torch.rand(2, 3, 40, 40).double()])
    found = canny(images)[:, 0]
    for image, edges in zip(images, found, strict=True):
        assert_close(edges, torch.from_numpy(literal(image.mean(0).numpy())))
    assert 0.03 < found[:4].mean() < 0.3


def test_the_edge_of_a_disk_is_a_thin_closed_circle():
    edges, radius = canny(disk(15))[0, 0].numpy(), 15
    i, j = np.nonzero(edges)
    assert np.abs(np.hypot(i - 24, j - 24) - radius).max() < 1.5
    assert len(i) < 1.3 * 2 * np.pi * radius
    _, parts = ndimage.label(edges, np.ones((3, 3)))
    _, grounds = ndimage.label(1 - edges)  # corners do not connect: inside and outside
    assert (parts, grounds) == (1, 2)


def test_what_is_flat_has_no_edge_and_what_is_faint_only_where_it_goes_on_from_a_clear_one():
    assert canny(torch.full((1, 3, 16, 16), 0.3)).sum() == 0
    height = torch.full((40, 1), 0.05).double()  # of a step: between the thresholds
    assert canny(step(height)).sum() == 0
    height[:20, 0] = torch.linspace(0.3, 0.05, 20)  # but clear higher up
    assert canny(step(height))[0, 0, 1:39].amax(1).all()
    height[25:28] = 0  # and not connected with what is lower
    edges = canny(step(height))[0, 0]
    assert edges[1:20].amax(1).all() and edges[30:].sum() == 0


def step(height):
    """An image whose right half is so much brighter, row by row (h, 1)."""
    return (height * (torch.arange(40) >= 20)).expand(1, 3, 40, 40)


def test_edges_turn_with_the_image_and_stay_with_its_brightness():
    images = grey(smooth_noise())
    edges = canny(images)
    assert torch.equal(canny(images.rot90(1, (2, 3))), edges.rot90(1, (2, 3)))
    assert torch.equal(canny(images.flip(3)), edges.flip(3))
    assert torch.equal(canny(images * 0.999 + 0.001), edges)


def test_edges_do_not_depend_on_the_company():
    """Shares of a batch have the edges of the batch, bit for bit."""
    images = torch.rand(7, 3, 33, 21)
    together = canny(images)
    assert all(torch.equal(canny(images[k : k + 1]), together[k : k + 1]) for k in range(7))


def test_edges_in_half_precision_are_computed_in_single():
    images = smooth_noise().bfloat16()
    assert torch.equal(canny(grey(images)), canny(grey(images).float()))


def test_blurred_and_stretched():
    maps = torch.rand(2, 1, 20, 24).double()
    weights = [
        ndimage.gaussian_filter(x, 1.5, mode="constant") for x in (maps[0, 0], maps[0, 0] * 0 + 1)
    ]
    assert_close(blurred(maps, 1.5)[0, 0], torch.from_numpy(weights[0] / weights[1]))
    assert_close(blurred(torch.ones(1, 1, 9, 9)), torch.ones(1, 1, 9, 9))
    for one in stretched(maps):
        assert one.min() == 0 and one.max() == 1
    assert_close(stretched(3 * maps - 1), stretched(maps))
    assert stretched(torch.full((1, 1, 3, 3), 0.7)).sum() == 0


STAGES = {"One": (64, 2), "Two": (128, 2), "Thr": (256, 3), "Fou": (512, 3), "Fiv": (512, 3)}


@pytest.fixture(scope="module")
def official():
    """Weights with the names and shapes of network-bsds500.pytorch."""
    torch.manual_seed(0)
    state, before = {}, 3
    for number, (width, depth) in STAGES.items():
        for k in range(depth):
            name = f"moduleVgg{number}.{2 * k + (number != 'One')}"
            conv = nn.Conv2d(width if k else before, width, 3)
            nn.init.kaiming_normal_(conv.weight)
            state |= {f"{name}.{key}": value.data for key, value in conv.named_parameters()}
        side = nn.Conv2d(width, 1, 1).named_parameters()
        state |= {f"moduleScore{number}.{key}": 0.01 * value.data for key, value in side}
        before = width
    fuse = nn.Conv2d(5, 1, 1).named_parameters()
    return state | {f"moduleCombine.0.{key}": value.data for key, value in fuse}


def by_hand(state, images):
    """HED from its weights: blue first, the mean of its training images off, values up to 255."""
    blue_first = 255 * torch.stack([images[:, 2], images[:, 1], images[:, 0]], dim=1)
    x = blue_first - torch.tensor([104.00698793, 116.66876762, 122.67891434])[:, None, None]
    maps = []
    for number, (_, depth) in STAGES.items():
        x = x if number == "One" else F.max_pool2d(x, 2)
        for k in range(depth):
            name = f"moduleVgg{number}.{2 * k + (number != 'One')}"
            x = F.conv2d(x, state[f"{name}.weight"], state[f"{name}.bias"], padding=1).relu()
        name = f"moduleScore{number}"
        side = F.conv2d(x, state[f"{name}.weight"], state[f"{name}.bias"])
        maps.append(F.interpolate(side, images.shape[2:], mode="bilinear"))
    fused = torch.cat(maps, 1) * state["moduleCombine.0.weight"][0][None]
    return (fused.sum(1, keepdim=True) + state["moduleCombine.0.bias"]).sigmoid()


@pytest.mark.parametrize("prefix", ["module", "net"])
@pytest.mark.parametrize("name", ["network-bsds500.pytorch", "hed.safetensors"])
def test_hed_from_a_file_of_the_official_layout(official, name, prefix, tmp_path):
    path, images = tmp_path / name, torch.rand(2, 3, 37, 32)
    state = {key.replace("module", prefix): value for key, value in official.items()}
    if path.suffix == ".safetensors":
        save_tensors(path, state)
    else:
        torch.save(state, path)
    with torch.no_grad():
        edges = load_hed(path)(images)
    assert edges.std() > 0.01
    assert_close(edges, by_hand(official, images), rtol=1e-4, atol=1e-5)


def test_weights_that_do_not_fit_are_refused(official, tmp_path):
    path = tmp_path / "hed.pytorch"
    for change, answer in [
        ({"moduleVggOne.0.weight": torch.zeros(64, 3, 5, 5)}, r"is \(64, 3, 5, 5\), not"),
        ({"moduleVggSix.0.bias": torch.zeros(1)}, "moduleVggSix.0.bias is unknown"),
        ({"other": torch.zeros(1)}, "other is unknown"),
    ]:
        torch.save(official | change, path)
        with pytest.raises(ValueError, match=rf"hed\.pytorch does not fit the network: .*{answer}"):
            load_hed(path)
    torch.save({key: x for key, x in official.items() if "Combine" not in key}, path)
    with pytest.raises(ValueError, match=r"fuse\.weight is missing"):
        load_hed(path)
    with pytest.raises(ValueError, match="is not a file of weights"):
        load_hed(tmp_path / "nothing")
    torch.save({"weight": nn.Linear(2, 2)}, path)  # a file that would execute
    with pytest.raises(ValueError, match="cannot be read"):
        load_hed(path)


def test_a_small_network_learns_cannys_edges():
    torch.manual_seed(0)
    images = torch.cat([disk(radius, 32) for radius in range(3, 13)]).float()
    images = images * torch.rand(10, 3, 1, 1) + torch.rand(10, 3, 1, 1) * (1 - images)
    target, net = stretched(blurred(canny(images))), EdgeNet()
    optimizer, errors = torch.optim.Adam(net.parameters(), 3e-3), []
    for _ in range(100):
        error = (net(images) - target).square().mean()
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        errors.append(float(error.detach()))
    assert errors[-1] < 0.5 * float(target.var()) < errors[0]


def test_a_network_takes_no_images_too():
    """A process may have none of a domain; its weights still get a gradient, of zeros."""
    net = EdgeNet()
    net(torch.zeros(0, 3, 16, 16)).sum().backward()
    assert all((p.grad == 0).all() for p in net.parameters())
