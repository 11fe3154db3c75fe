"""Two processes with half a batch each compute what one computes with the batch."""

import pytest
import torch
from torch.testing import assert_close

from onestyle.methods import METHODS
from onestyle.nn.batchnorm import make_global
from tests.methods.cases import make_batch, make_method, make_optimizers, train_step
from tests.processes import run


def some_steps(name, dtype, n_steps):
    """Loss and gradients of each step, and what is left: weights, teachers, queues, statistics."""
    method = make_global(make_method(name, dtype=dtype))
    optimizers = make_optimizers(method)
    losses, gradients = [], {}
    for step in range(n_steps):
        losses.append(train_step(method, optimizers, make_batch(name, step, dtype=dtype)))
        for key, parameter in method.named_parameters():
            if parameter.grad is not None:
                gradients[step, key] = parameter.grad.clone()
    return torch.stack(losses), gradients, dict(method.state_dict())


# In single precision a second step may meet the kink of a ReLU from different sides.
@pytest.mark.parametrize(
    "dtype, n_steps, tolerance", [(torch.float64, 2, 1e-7), (torch.float32, 1, 1e-4)]
)
@pytest.mark.parametrize("name", METHODS)
def test_two_processes_equal_one(name, dtype, n_steps, tolerance):
    alone = some_steps(name, dtype, n_steps)
    for loss, gradients, state in run(some_steps, 2, name, dtype, n_steps):
        assert_close(loss, alone[0], rtol=tolerance, atol=0)
        for ours, theirs in (gradients, alone[1]), (state, alone[2]):
            # A parameter before a BatchNorm may have a gradient of rounding errors alone.
            largest = max(float(value.abs().max()) for value in theirs.values())
            assert_close(ours, theirs, rtol=tolerance, atol=tolerance * largest)
