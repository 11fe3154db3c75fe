"""Views through a network, heads, teachers: what methods are made of."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from onestyle.nn.ema import ema_copy, ema_update
from onestyle.nn.encode import encode, project, unit
from onestyle.nn.heads import mlp
from onestyle.nn.precision import full_precision


def test_views_of_a_size_pass_together_and_come_back_in_order():
    views = [torch.randn(v, 4, 3, s, s) for v, s in ((2, 8), (3, 4), (1, 8))]
    shapes = []

    def network(images):
        shapes.append(images.shape)
        return images.mean((2, 3))

    expected = torch.cat([view.mean((3, 4)) for view in views])
    assert_close(encode(network, views), expected)
    assert shapes == [(3 * 4, 3, 8, 8), (3 * 4, 3, 4, 4)]


def test_a_head_sees_all_views_together():
    head, z = nn.BatchNorm1d(5, affine=False), torch.randn(3, 4, 5)
    expected = head(z.flatten(0, 1)).unflatten(0, (3, 4))
    assert_close(project(head, z), expected / expected.norm(dim=-1, keepdim=True))


def test_unit_length_also_of_tiny_and_half_precision_vectors():
    assert_close(unit(1e-9 * torch.randn(3, 8)).norm(dim=-1), torch.ones(3))
    assert unit(torch.randn(3, 8).bfloat16()).dtype == torch.float32
    assert_close(unit(torch.zeros(1, 8)), torch.zeros(1, 8))


@pytest.mark.parametrize("norm, last_norm", [(True, False), (True, True), (False, False)])
def test_a_linear_layer_before_a_batchnorm_has_no_bias(norm, last_norm):
    layers = [*mlp(4, 6, 3, norm=norm, last_norm=last_norm)]
    for layer, after in zip(layers, [*layers[1:], None], strict=True):
        if isinstance(layer, nn.Linear):
            assert (layer.bias is None) == isinstance(after, nn.BatchNorm1d)
    assert isinstance(layers[-1], nn.BatchNorm1d) == last_norm


def test_a_teacher_is_an_average_of_parameters_alone():
    student = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).double()
    teacher = ema_copy(student)
    old = {name: p.clone() for name, p in teacher.named_parameters()}
    student(torch.randn(5, 3).double()).sum().backward()
    with torch.no_grad():
        for p in student.parameters():
            p.add_(1)
    ema_update(teacher, student, 0.99)
    for name, p in teacher.named_parameters():
        assert_close(p, 0.99 * old[name] + 0.01 * (old[name] + 1))
        assert not p.requires_grad and p.grad is None
    assert_close(teacher[1].running_mean, torch.zeros(2).double())


def test_small_steps_of_a_teacher_do_not_vanish():
    """0.999 of 1 and 0.001 of 1.01 is 1 in half precision; parameters are float32."""
    student, teacher = nn.Linear(1, 1), nn.Linear(1, 1)
    with torch.no_grad():
        teacher.weight.fill_(1.0)
        student.weight.fill_(1.01)
    for _ in range(100):
        ema_update(teacher, student, 0.999)
    assert_close(teacher.weight.item(), 1.01 - 0.01 * 0.999**100, rtol=1e-6, atol=0)


def test_a_loss_ignores_autocast():
    product = full_precision(lambda x, y: x @ y)
    x, y = torch.randn(4, 64), torch.randn(64, 4)
    exact = x @ y
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(product(x, y), exact, rtol=0, atol=0)
        assert product(x.bfloat16(), y.bfloat16()).dtype == torch.float32
    assert product(x.double(), y.double()).dtype == torch.float64
