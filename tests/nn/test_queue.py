"""A queue holds the last keys, the oldest leaving first."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from onestyle.nn.queue import DomainQueues, Queue


def unit(n, dim=5):
    return F.normalize(torch.randn(n, dim), dim=1)


def test_it_starts_with_random_directions():
    keys = Queue(256, 8).keys
    assert_close(keys.norm(dim=1), torch.ones(256))
    assert_close((keys @ keys.T).fill_diagonal_(0).mean(), torch.tensor(0.0), atol=0.02, rtol=0)


def test_the_oldest_leave_first():
    queue, pushed = Queue(12, 5), unit(40)
    for keys in pushed.split(4):
        queue.push(keys)
    assert {tuple(key) for key in queue.keys.tolist()} == {tuple(k) for k in pushed[-12:].tolist()}


def test_a_push_of_the_whole_queue_replaces_it():
    queue, keys = Queue(6, 5), unit(6)
    queue.push(keys)
    assert torch.equal(queue.keys, keys) and queue.pointer == 0


def test_it_goes_on_where_it_was_saved():
    queue, restored, keys = Queue(12, 5), Queue(12, 5), unit(8)
    queue.push(keys[:4])
    restored.load_state_dict(queue.state_dict())
    queue.push(keys[4:])
    restored.push(keys[4:])
    assert torch.equal(queue.keys, restored.keys) and torch.equal(queue.keys[:8], keys)


def test_keys_get_no_gradient():
    queue = Queue(4, 5)
    queue.push(unit(4).requires_grad_())
    assert not queue.keys.requires_grad


def test_a_step_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"5 keys a step do not divide a queue of 12.*multiple"):
        Queue(12, 5).push(unit(5))
    with pytest.raises(ValueError, match="at least one key, got size 0"):
        Queue(0, 5)


def test_each_domain_has_its_own_ring():
    """Any number of keys of any domain: the last ones stay, with their places."""
    queues, pushed = DomainQueues(3, 5, 4), {d: [] for d in range(3)}
    generator = torch.Generator().manual_seed(0)
    for step in range(6):
        keys, places = unit(7, 4), torch.arange(7) + 7 * step
        domain = torch.randint(0, 2, (7,), generator=generator)  # of domain 2 none
        queues.push(keys, domain, places)
        for d, key, place in zip(domain.tolist(), keys.tolist(), places.tolist(), strict=True):
            pushed[d].append((place, key))
    for d in range(2):
        held = sorted(zip(queues.places[d].tolist(), queues.keys[d].tolist(), strict=True))
        assert held == pushed[d][-5:]
    assert (queues.places[2] == -1).all() and queues.pointer[2] == 0
    assert_close(queues.keys[2].norm(dim=1), torch.ones(5))


def test_a_push_of_more_than_a_queue_holds_leaves_the_last():
    queues, keys = DomainQueues(2, 3, 4), unit(8, 4)
    queues.push(keys, torch.tensor([0, 1] * 4), torch.arange(8))
    assert torch.equal(queues.keys[0], keys[[2, 4, 6]])
    assert queues.places.tolist() == [[2, 4, 6], [3, 5, 7]]
    with pytest.raises(ValueError, match="at least one key, got size 0"):
        DomainQueues(2, 0, 4)
