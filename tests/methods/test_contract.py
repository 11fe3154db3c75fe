"""What the loop may ask of every method of the table."""

import copy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from onestyle.methods import METHODS, Batch, Method, method_named
from onestyle.methods.adco import contrast
from onestyle.methods.brad import own_queue_nce
from onestyle.methods.byol import regression
from onestyle.methods.darling import mixture
from onestyle.methods.mocov2 import info_nce
from onestyle.methods.msn import cross_entropy, log_probabilities
from onestyle.methods.simclr import nt_xent
from onestyle.methods.swav import swapped_prediction
from onestyle.nn.sinkhorn import sinkhorn
from tests.methods.cases import PLAIN, make_batch, make_method, make_optimizers, train_step

pytestmark = pytest.mark.parametrize("name", METHODS)


def trained(name, n_steps=3, **options):
    """A method after n_steps, its optimisers and losses."""
    method = make_method(name, **options)
    optimizers = make_optimizers(method)
    dtype = next(method.parameters()).dtype
    batches = [make_batch(name, step, dtype=dtype) for step in range(n_steps)]
    return method, optimizers, [train_step(method, optimizers, batch) for batch in batches]


def test_three_steps_move_the_backbone(name):
    before = make_method(name).backbone.state_dict()
    method, _, losses = trained(name)
    assert all(loss.isfinite() and loss.ndim == 0 for loss in losses)
    after = method.backbone.state_dict()
    moved = {key for key in before if not torch.equal(before[key], after[key])}
    learned = {key for key, p in method.backbone.named_parameters() if "pos_embed" not in key}
    assert learned <= moved
    assert all(value.isfinite().all() for value in method.state_dict().values())


def test_what_is_not_trained_gets_no_gradient(name):
    method, optimizers, _ = trained(name, n_steps=1)
    frozen = [p for p in method.parameters() if not p.requires_grad]
    assert all(p.grad is None for p in frozen)
    optimized = {id(p) for o in optimizers for group in o.param_groups for p in group["params"]}
    assert optimized == {id(p) for p in method.parameters() if p.requires_grad}


def test_every_trained_parameter_has_a_gradient(name):
    """DDP waits for the gradients of all of them."""
    method = make_method(name)
    method(make_batch(name))[0].backward()
    idle = [key for key, p in method.named_parameters() if p.requires_grad and p.grad is None]
    assert not idle


def test_a_seed_decides_all(name):
    first, second = (trained(name)[0].state_dict() for _ in range(2))
    assert_close(first, second, rtol=0, atol=0)
    other = trained(name, seed=1)[0].state_dict()
    assert any(not torch.equal(first[key], other[key]) for key in first)


def test_state_dict_holds_everything(name):
    """Another method that loads it goes on in the same way, bit for bit."""
    method, optimizers, _ = trained(name)
    other, others, _ = trained(name, seed=1)
    other.load_state_dict(copy.deepcopy(method.state_dict()))
    for mine, theirs in zip(optimizers, others, strict=True):
        theirs.load_state_dict(copy.deepcopy(mine.state_dict()))
    for step in range(3, 5):
        batch, again = (make_batch(name, step) for _ in range(2))
        assert train_step(method, optimizers, batch) == train_step(other, others, again)
    assert_close(other.state_dict(), method.state_dict(), rtol=0, atol=0)


class Sealed(Batch):
    """A batch that does not let itself be asked for what the method does not declare."""

    def __getattribute__(self, attribute):
        assert attribute not in {"domain", "label", "labelled"}, f"the method looks at {attribute}"
        return super().__getattribute__(attribute)


def test_labels_stay_unseen_unless_declared(name):
    needs = method_named(name).needs
    assert needs <= {"domain", "label", "unlabelled"}
    assert "label" in needs or "unlabelled" not in needs
    if not needs:
        loss, _ = make_method(name)(make_batch(name, kind=Sealed))
        assert loss.isfinite()


def test_double_precision_goes_through(name):
    """And single precision computes the same: nothing rounds more than it must."""
    _, _, single = trained(name)
    method, _, double = trained(name, dtype=torch.float64)
    assert all(loss.dtype == torch.float64 for loss in double)
    assert_close(torch.stack(single).double(), torch.stack(double), rtol=1e-3, atol=0)
    floats = [value for value in method.state_dict().values() if value.is_floating_point()]
    assert all(value.dtype == torch.float64 for value in floats)


def test_loss_is_single_precision_under_autocast(name):
    method, batch = make_method(name), make_batch(name)
    exact = make_method(name)(make_batch(name))[0]
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = method(batch)
    loss.backward()
    assert loss.dtype == torch.float32
    assert_close(loss, exact, rtol=0.05, atol=0)


def test_logged_values_are_numbers_without_gradient(name):
    _, logged = make_method(name)(make_batch(name))
    assert "embedding_std" in logged
    for value in map(torch.as_tensor, logged.values()):
        assert value.ndim == 0
        assert not value.requires_grad


STYLED_IN_PART = {"swav", "msn"}  # Sinkhorn sees the first group alone


@pytest.mark.parametrize("style", ["none", "fa", "bss"])
def test_styles_of_the_groups(name, style):
    if "unlabelled" in method_named(name).needs:  # guesses are made from images as they are
        assert method_named(name).styles(style, 2) == ("weak", style)
        return
    if name in PLAIN and style != "none":
        with pytest.raises(ValueError, match=f"^style {style} is not for .*: take style none$"):
            method_named(name).styles(style, 1)
        return
    for n_groups in (1, 2, 3):
        first, *others = method_named(name).styles(style, n_groups)
        assert first == style
        assert others == ["fa" if style == "bss" and name in STYLED_IN_PART else style] * (
            n_groups - 1
        )


def test_features_are_those_of_the_backbone(name):
    method = make_method(name).eval()
    before = copy.deepcopy(method.state_dict())
    images = make_batch(name).views[0][0]
    with torch.no_grad():
        features = method.features(images)
    assert features.shape == (len(images), method.backbone.num_features)
    assert_close(features[:3], method.features(images[:3]).detach())
    assert_close(method.state_dict(), before, rtol=0, atol=0)


def test_what_is_tuned_is_a_network_that_has_the_backbone_in_it(name):
    method = make_method(name).eval()
    tuned, images = method.tuned(), make_batch(name).views[0][0]
    with torch.no_grad():
        assert tuned(images).shape == (len(images), tuned.num_features)
    assert {*map(id, method.backbone.parameters())} <= {*map(id, tuned.parameters())}
    assert tuned is method.backbone or type(method).tuned is not Method.tuned


def test_it_inherits_no_other_method(name):
    assert method_named(name).__bases__ == (Method,)


def in_parts(batch, *stops):
    """The batch's images a few at a time; random numbers go on from part to part."""
    bounds = [0, *stops, len(batch.places)]
    for start, stop in pairwise(bounds):
        part = slice(start, stop)
        views = [group[:, part] for group in batch.views]
        domain = None if batch.domain is None else batch.domain[part]
        yield replace(batch, views=views, places=batch.places[part], domain=domain)


def test_embeddings_are_directions_one_for_every_view(name):
    method, batch = make_method(name).eval(), make_batch(name)
    before = copy.deepcopy(method.state_dict())
    with torch.no_grad():
        z = method.embeddings(batch)
        parts = [method.embeddings(part) for part in in_parts(make_batch(name), 2, 6)]
    assert z.shape[:2] == (sum(map(len, batch.views)), len(batch.places))
    assert_close(z.norm(dim=-1), torch.ones(z.shape[:2]))
    assert_close(torch.cat(parts, dim=1), z)  # where nobody trains, images do not see each other
    assert_close(method.state_dict(), before, rtol=0, atol=0)


def log_domain_weights(method, batch):
    return method.classifier(method.backbone(batch.views[0][0])).log_softmax(1)


def test_the_loss_compares_the_embeddings(name):
    """In training, too; a method that is not named here compares features, or no embeddings."""
    method, batch = make_method(name), make_batch(name)
    loss, logged = method(batch)
    z = method.embeddings(make_batch(name))
    known = {
        "simclr": lambda: nt_xent(z, method.temperature),
        "simclrv2": lambda: nt_xent(z, method.temperature),
        "byol": lambda: regression(z, method.targets(make_batch(name))),
        "brad": lambda: own_queue_nce(
            z[[0, 2]].flatten(0, 1),
            z[[1, 3]].flatten(0, 1),
            method.queues,
            batch.domain.repeat(2),
            batch.places.repeat(2),
            temperature=method.temperature,
        ),
        "mocov2": lambda: info_nce(*z, method.queue.keys, method.temperature),
        "adco": lambda: contrast(*z, *method.negatives.directions(), method.temperature),
        "darling": lambda: mixture(
            *z, method.banks.directions(), log_domain_weights(method, batch), method.temperature
        ),
        "swav": lambda: swapped_prediction(
            z @ method.prototypes.weight.T / method.temperature,
            torch.stack([sinkhorn(v @ method.prototypes.weight.T / method.epsilon) for v in z[:2]]),
        ),
        "msn": lambda: cross_entropy(
            torch.stack([sinkhorn(v) for v in log_probabilities(z[:2], method.prototypes, 0.025)]),
            log_probabilities(z[2:], method.prototypes, method.temperature),
        ),
    }
    if name in known:
        assert_close(known[name](), logged.get("cross_entropy", loss))
    else:
        assert type(method).embeddings is Method.embeddings


def test_prototype_scores_are_the_cosines_of_what_is_assigned(name):
    method, batch = make_method(name).eval(), make_batch(name)
    images = batch.views[0][0]
    if not hasattr(method, "prototypes"):
        with pytest.raises(ValueError, match=f"{type(method).__name__} has no prototypes"):
            method.prototype_scores(images)
        return
    prototypes = getattr(method.prototypes, "weight", method.prototypes)
    with torch.no_grad():
        expected = method.embeddings(batch)[0] @ F.normalize(prototypes, dim=1).T
        assert_close(method.prototype_scores(images), expected)
