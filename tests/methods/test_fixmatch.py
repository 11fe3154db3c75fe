"""FixMatch: guesses from weak views label strong ones, where they are sure."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from onestyle.cli import main
from onestyle.data.protocol import Pool, Split, make_split
from onestyle.data.store import open_store
from onestyle.methods.base import Batch
from onestyle.methods.fixmatch import FixMatch, consistency, guess, largest_share
from onestyle.recipes import RECIPES, override, recipe_named
from onestyle.stages.finetune import lesson
from onestyle.stages.frozen import open_untrained
from tests.methods.cases import make_batch, make_method, make_optimizers, train_step

DOUBLE = {"dtype": torch.float64}


def logits(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(*shape, generator=generator, **DOUBLE)


def test_the_loss_of_unlabelled_images_is_its_equation():
    weak, strong, threshold = logits(12, 4), logits(2, 12, 4, seed=1), 0.6
    total, sure = 0.0, 0
    for view in strong:
        for i in range(12):
            p = (weak[i].exp() / weak[i].exp().sum()).tolist()
            if max(p) >= threshold:
                sure += 1
                label = p.index(max(p))
                total -= float(view[i, label] - view[i].exp().sum().log())
    assert 0 < sure < 24
    expected = torch.tensor(total / 24, **DOUBLE)  # of all images, not of the sure ones
    assert_close(consistency(strong, *guess(weak, threshold)), expected, rtol=1e-12, atol=0)


def test_an_unsure_image_adds_exactly_nothing_but_counts():
    weak, strong = torch.zeros(4, 3, **DOUBLE), logits(1, 4, 3).requires_grad_()
    weak[0, 2] = 9
    loss = consistency(strong, *guess(weak, 0.9))
    alone = F.cross_entropy(strong[0, :1], torch.tensor([2]))
    assert_close(loss, alone / 4, rtol=1e-12, atol=0)
    loss.backward()
    assert strong.grad[0, 0].abs().min() > 0 and strong.grad[0, 1:].abs().max() == 0
    assert consistency(strong, *guess(0 * weak, 0.9)) == 0  # nobody is sure
    huge = strong.detach().clone()
    huge[0, 1:] = torch.tensor([torch.inf, 0, 0])  # an unsure image's loss may be anything
    assert_close(consistency(huge, *guess(weak, 0.9)), loss.detach(), rtol=1e-12, atol=0)


def test_the_threshold_itself_is_sure():
    """Two classes of odds 3 : 1."""
    weak = torch.tensor([[math.log(3), 0.0]], **DOUBLE)
    p = float(weak.softmax(-1).max())
    assert [bool(guess(weak, t).sure) for t in (p, p + 1e-9)] == [True, False]


def test_no_gradient_goes_through_the_guess():
    """At rest, where images do not see each other through BatchNorm."""
    method, batch = make_method("fixmatch", threshold=0.0, **DOUBLE).eval(), batch_of(**DOUBLE)
    for views in batch.views:
        views.requires_grad_()
    method(batch)[0].backward()
    weak, strong = batch.views
    assert weak.grad is None or weak.grad.abs().max() == 0
    assert strong.grad.abs().flatten(2).amax(2).min() > 0
    assert not guess(logits(5, 3).requires_grad_(), 0.0).label.requires_grad


def batch_of(**options):
    return make_batch("fixmatch", **options)


def test_labelled_weak_and_strong_views_go_through_the_network_together():
    """The whole loss, from logits of one pass; BatchNorm of another one would differ."""
    method, batch = make_method("fixmatch", weight=0.5, **DOUBLE), batch_of(**DOUBLE)
    loss, told = method(batch)
    again = make_method("fixmatch", **DOUBLE)
    images = [batch.labelled.views[0][0], batch.views[0][0], batch.views[1][0]]
    known, weak, strong = again.linear(again.student(torch.cat(images))).split([4, 8, 8])
    supervised = F.cross_entropy(known, batch.labelled.label)
    unsupervised = consistency(strong[None], *guess(weak, again.threshold))
    assert float(unsupervised.detach()) > 0
    assert_close(loss, supervised + 0.5 * unsupervised, rtol=1e-10, atol=0)
    parts = told["supervised"] + 0.5 * told["unsupervised"]
    assert_close(parts, loss.detach(), rtol=1e-12, atol=0)
    alone = again.linear(again.student(images[0]))
    assert not torch.allclose(alone, known, rtol=1e-3)


def test_it_tells_how_many_are_sure_and_whether_one_class_takes_all():
    weak = torch.eye(3, **DOUBLE)[[0, 0, 1, 0, 2]] * torch.tensor([9, 9, 9, 9, 0.1])[:, None]
    guesses = guess(weak, 0.9)
    assert guesses.sure.tolist() == [True, True, True, True, False]
    assert float(largest_share(guesses, 3)) == 0.75
    assert float(largest_share(guess(0 * weak, 0.9), 3)) == 0
    _, told = make_method("fixmatch", threshold=0.0)(batch_of())
    assert float(told["mask"]) == 1 and 1 / 3 < float(told["largest_class"]) <= 1


class Sealed(Batch):
    """Of unlabelled images: what they are may not be asked for."""

    def __getattribute__(self, attribute):
        assert attribute not in {"domain", "label"}, f"the method looks at {attribute}"
        return super().__getattribute__(attribute)


def test_labels_of_unlabelled_images_stay_unseen():
    loss, _ = make_method("fixmatch")(batch_of(kind=Sealed))
    assert loss.isfinite()


def test_the_teacher_follows_and_is_what_is_evaluated():
    method = make_method("fixmatch", **DOUBLE)
    before = [p.clone() for p in method.backbone.parameters()]
    train_step(method, make_optimizers(method), batch_of(**DOUBLE))
    pairs = zip(before, method.backbone.parameters(), method.student.parameters(), strict=True)
    for old, teacher, student in pairs:
        assert_close(teacher, 0.9 * old + 0.1 * student.detach())
    for its, seen in zip(method.backbone.buffers(), method.student.buffers(), strict=True):
        assert torch.equal(its, seen)
    method.eval()
    images = batch_of(**DOUBLE).views[0][0]
    assert_close(method.logits(images), method.teacher_linear(method.features(images)))


def test_without_momentum_the_teacher_is_the_student():
    method = make_method("fixmatch", momentum=0.0)
    optimizers = make_optimizers(method)
    for step in range(2):
        train_step(method, optimizers, batch_of(step=step))
    for its, mine in (method.backbone, method.student), (method.teacher_linear, method.linear):
        assert_close(its.state_dict(), mine.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize(
    "wrong, said",
    [
        (dict(threshold=1.5), "threshold must be in"),
        (dict(momentum=-0.1), "momentum must be in"),
    ],
)
def test_wrong_options_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        make_method("fixmatch", **wrong)


def test_plans_that_are_none_of_its_own_are_refused():
    with pytest.raises(ValueError, match="two groups of views, a weak and a strong one"):
        override(recipe_named("digits/fixmatch"), ["views=3x32"])
    for weak, strong in ((2, 32), (1, 24)):
        batch = batch_of()
        shape = strong, strong
        batch.views = [batch.views[0].repeat(weak, 1, 1, 1, 1), torch.zeros(1, 8, 3, *shape)]
        with pytest.raises(ValueError, match="one weak view, of the strong ones' size"):
            make_method("fixmatch")(batch)


def test_several_strong_views_are_averaged():
    method, batch = make_method("fixmatch", **DOUBLE).eval(), batch_of(**DOUBLE)
    once = method(batch)[0]
    batch.views[1] = batch.views[1].repeat(3, 1, 1, 1, 1)
    assert_close(method(batch)[0], once, rtol=1e-10, atol=0)


def test_it_learns_the_labels_it_is_given():
    method, batch = make_method("fixmatch"), batch_of()
    optimizers = make_optimizers(method)
    for _ in range(30):
        train_step(method, optimizers, batch)
    _, told = method(batch)
    assert float(told["supervised"]) < 0.1


# ---------------------------------------------------------------------------- in its stage


class SealedPool(Pool):
    """Unlabelled images, whose labels may not even be read."""

    @property
    def labels(self):
        raise AssertionError("somebody looks at labels outside the fraction")


def streams(monkeypatch, percent=1, **settings):
    recipe = override(recipe_named("digits/fixmatch"), [f"{k}={v}" for k, v in settings.items()])
    store = open_store("digits")
    split = make_split(store.table, targets=["photo"])
    sealed = lambda self, store, *, uses_target: SealedPool(store, self.train)  # noqa: E731
    monkeypatch.setattr(Split, "unlabelled", sealed)
    rows, frozen = split.labelled(percent), open_untrained(recipe, 0)
    found = lesson(recipe, frozen, store, split, rows, device=torch.device("cpu"))
    return store, split, rows, *found


def test_no_label_outside_the_fraction_reaches_it(monkeypatch):
    """A hundredth is smaller than a batch: it is drawn with replacement."""
    store, split, rows, method, stream = streams(monkeypatch, labelled_batch_size=64)
    assert isinstance(method, FixMatch) and len(rows) < 64
    for batch in stream.batches(0, 3):
        few, pool = batch.labelled, stream.labelled.loader.pool
        seen = pool.rows[few.places.numpy()]
        assert {*seen.tolist()} <= {*rows.tolist()}
        assert np.array_equal(few.label.numpy(), store.table.label[seen])
        assert batch.label is None and batch.domain is None and few.domain is None
        assert [views.shape[:2] for views in batch.views] == [(1, 112), (1, 112)]
        assert few.views[0].shape == (1, 64, 3, 32, 32) and len(few.views) == 1
    every = [stream.loader.places(step) for step in range(len(split.train) // 112)]
    assert len({*np.concatenate(every).tolist()}) == len(every) * 112  # of all sources, each once


def test_weak_views_are_a_crop_and_a_flip_and_strong_ones_more(monkeypatch):
    settings = {"geometry.scale": "[1, 1]", "geometry.aspect": "[1, 1]"}
    *_, stream = streams(monkeypatch, **settings)
    (batch,) = stream.batches(0, 1)
    images = torch.from_numpy(stream.loader.pool.images(batch.places.numpy())).float() / 255
    mean, std = (torch.tensor(x)[:, None, None] for x in (stream.plan.mean, stream.plan.std))
    weak, strong = ((views[0] * std + mean) for views in batch.views)
    assert_close(weak, images, rtol=0, atol=1e-5)  # a digit is not mirrored
    assert ((strong - images).abs().flatten(1).amax(1) > 0.1).all()
    few = batch.labelled
    images = torch.from_numpy(stream.labelled.loader.pool.images(few.places.numpy())).float() / 255
    assert_close(few.views[0][0] * std + mean, images, rtol=0, atol=1e-5)


def test_labelled_and_unlabelled_images_are_drawn_apart(monkeypatch):
    *_, stream = streams(monkeypatch, percent=100, batch_size=16)
    (batch,) = stream.batches(0, 1)
    assert stream.loader.seed != stream.labelled.loader.seed
    assert batch.generator.initial_seed() != batch.labelled.generator.initial_seed()


def test_the_settings_are_those_of_the_paper_and_of_wilds():
    for name in ("pacs/fixmatch", "domainnet/fixmatch"):
        recipe = RECIPES[name]
        assert (recipe.batch_size, recipe.labelled_batch_size) == (7 * 64, 64)
        assert (recipe.optimizer, recipe.nesterov, recipe.lr) == ("sgd", True, 0.03)
        assert recipe.weight_decay == 5e-4 and not recipe.options  # 0.95, 1, 0.999
        assert recipe.rate(recipe.steps // 2) == pytest.approx(math.cos(7 * math.pi / 32))
    wilds = RECIPES["camelyon17/fixmatch"]
    assert wilds.uses_target and wilds.options == {"threshold": 0.7, "momentum": 0.0}
    assert (wilds.backbone, wilds.batch_size, wilds.labelled_batch_size) == ("densenet121", 32, 32)
    assert (wilds.lr, wilds.weight_decay, wilds.nesterov) == (1e-3, 0.01, False)
    assert wilds.rate(wilds.steps // 10) == pytest.approx(2**-0.75)
    assert not any(RECIPES[name].uses_target for name in RECIPES if "camelyon17" not in name)


def test_pretraining_does_not_take_it(tmp_path, capsys):
    assert main(["pretrain", "digits/fixmatch", "--out", str(tmp_path / "run")]) == 2
    assert "fixmatch learns from labels: onestyle finetune does that" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
