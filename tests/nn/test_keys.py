"""Keys are made in random halves of a batch, which shares of it split alike."""

import torch
from torch.testing import assert_close

from onestyle.nn.keys import halves


def test_halves_are_halves():
    """Of each two neighbours one is in each half, and each with the same chance."""
    coins = torch.rand(4000)
    first, second = halves(coins)
    assert torch.equal(torch.cat([first, second]).sort().values, torch.arange(4000))
    assert torch.equal(first // 2, torch.arange(2000)) and torch.equal(second // 2, first // 2)
    assert_close((first % 2).double().mean(), torch.tensor(0.5).double(), atol=0.04, rtol=0)


def test_shares_of_halves_are_halves_of_shares():
    """Two processes with half of the coins each split their images as one process with all."""
    coins = torch.rand(12)
    apart = [[half + start for half in halves(coins[start : start + 6])] for start in (0, 6)]
    for part, share, other in zip(halves(coins), *apart, strict=True):
        assert torch.equal(part, torch.cat([share, other]))
