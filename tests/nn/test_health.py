"""The figures that tell a dead method from a live one."""

import torch
from torch.testing import assert_close

from onestyle.nn.health import embedding_std, prototypes_used


def test_spread_embeddings_have_a_std_of_one_and_equal_ones_none():
    assert_close(embedding_std(torch.randn(4096, 16)), torch.tensor(1.0), atol=0.01, rtol=0)
    assert_close(embedding_std(torch.randn(1, 16).expand(8, 16)), torch.tensor(0.0))


def test_length_does_not_matter():
    z = torch.randn(32, 16)
    assert_close(embedding_std(z * torch.rand(32, 1)), embedding_std(z))


def test_a_prototype_is_used_if_an_image_is_nearest_to_it():
    scores = torch.tensor([[0.9, 0.1, 0.2], [0.3, 0.1, 0.5], [2.0, 1.0, 1.0]])
    assert prototypes_used(scores) == 2
