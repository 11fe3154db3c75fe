"""ERM: the cross entropy of a probe's head on the backbone, of labelled images alone."""

import torch
from torch.testing import assert_close

from onestyle.cli import main
from onestyle.stages.linear import Heads
from tests.methods.cases import make_batch, make_method, make_optimizers, train_step


def test_the_loss_is_the_mean_cross_entropy():
    method, batch = make_method("erm", dtype=torch.float64), make_batch("erm", dtype=torch.float64)
    loss, told = method(batch)
    features = make_method("erm", dtype=torch.float64).backbone(batch.views[0][0])
    x = (features - features.mean(0)) / (features.var(0, correction=0) + 1e-6).sqrt()
    logits = x @ method.linear.weight.T + method.linear.bias
    terms = [
        torch.log(logits[i].exp().sum()) - logits[i, label] for i, label in enumerate(batch.label)
    ]
    assert_close(loss, torch.stack(terms).mean(), rtol=1e-10, atol=0)
    assert float(told["accuracy"]) == float((logits.argmax(1) == batch.label).double().mean())


def test_all_views_of_an_image_have_its_label():
    method, batch = make_method("erm", dtype=torch.float64), make_batch("erm", dtype=torch.float64)
    batch.views[0] = batch.views[0].repeat(3, 1, 1, 1, 1)
    once = make_method("erm", dtype=torch.float64)(make_batch("erm", dtype=torch.float64))[0]
    assert_close(method(batch)[0], once, rtol=1e-10, atol=0)


def test_the_head_is_a_probes():
    """At rest, with its running statistics; so a probe's head may take its place."""
    method = make_method("erm")
    optimizers = make_optimizers(method)
    for step in range(3):
        train_step(method, optimizers, make_batch("erm", step))
    method.eval()
    norm, linear, images = method.norm, method.linear, make_batch("erm").views[0][0]
    parts = linear.weight, linear.bias, norm.running_mean, norm.running_var
    heads = Heads(*(part.detach()[None] for part in parts), torch.tensor(norm.eps).double())
    with torch.no_grad():
        assert_close(method.logits(images), heads.logits(method.features(images))[0])


def test_it_learns_the_labels_it_is_given():
    method, batch = make_method("erm"), make_batch("erm")
    optimizers = make_optimizers(method)
    first, *_, last = [train_step(method, optimizers, batch) for _ in range(30)]
    assert abs(first - torch.log(torch.tensor(3.0))) < 0.2  # of three classes, by chance
    assert last < 0.1


def test_pretraining_does_not_take_it(tmp_path, capsys):
    words = ["pretrain", "digits/simclr", "--set", "method=erm", "--out", str(tmp_path / "run")]
    assert main(words) == 2
    assert "erm learns from labels: onestyle finetune does that" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
