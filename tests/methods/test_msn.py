"""MSN is its equation; the teacher follows; what Sinkhorn sees is one view at a time."""

import copy
import math

import pytest
import timm
import torch
import torch.nn.functional as F
from lightly.loss import MSNLoss
from torch.testing import assert_close

from onestyle.methods import Batch
from onestyle.methods.msn import MSN, cross_entropy, entropy_gap, log_probabilities
from onestyle.nn.masking import encode_patches
from onestyle.nn.sinkhorn import sinkhorn
from onestyle.views import ViewPlan


def vit(**options):
    torch.manual_seed(0)
    tiny = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 2}
    options = {"dynamic_img_size": True, **tiny, **options}
    return timm.create_model("vit_tiny_patch16_224", num_classes=0, **options)


def msn(**options):
    options = {"dim": 8, "prototypes": 6, "hidden_dim": 16, **options}
    return MSN(vit(), **options).double()


def batch(*groups, n=4, seed=0):
    """Groups of (number, size)."""
    generator = torch.Generator().manual_seed(seed)
    views = [torch.randn(v, n, 3, s, s, dtype=torch.double, generator=generator) for v, s in groups]
    return Batch(views, torch.arange(n), 0, generator)


def unit(*shape):
    return F.normalize(torch.randn(*shape, dtype=torch.double), dim=-1)


def probabilities(*shape):
    return torch.randn(*shape, dtype=torch.double).softmax(-1)


def test_probabilities_are_the_equation():
    z, prototypes = unit(2, 3, 5), 3 * torch.randn(4, 5, dtype=torch.double)
    p = log_probabilities(z, prototypes, 0.1).exp()
    for v in range(2):
        for n in range(3):
            e = [math.exp(z[v, n] @ c / c.norm() / 0.1) for c in prototypes]
            assert_close(p[v, n], torch.tensor(e, dtype=torch.double) / sum(e))


def test_cross_entropy_is_the_equation():
    q, p = probabilities(2, 3, 4), probabilities(5, 3, 4)
    terms = [
        -sum(q[t, n, k] * p[m, n, k].log() for k in range(4))
        for t in range(2)
        for m in range(5)
        for n in range(3)
    ]
    assert_close(cross_entropy(q, p.log()), torch.stack(terms).mean())


def test_entropy_gap_is_the_equation():
    p = probabilities(5, 3, 4)
    mean = sum(p[m, n] for m in range(5) for n in range(3)) / 15
    assert_close(entropy_gap(p.log()), math.log(4) + sum(x * x.log() for x in mean))


def test_entropy_gap_is_0_if_the_mean_is_uniform_and_ln_k_if_one_prototype_takes_all():
    sure = 100 * torch.eye(4, dtype=torch.double)[None]
    assert_close(entropy_gap(sure.log_softmax(-1)), torch.tensor(0.0).double())
    one = torch.tensor([100.0, 0, 0, 0]).double().expand(2, 3, 4)
    assert_close(entropy_gap(one.log_softmax(-1)), torch.tensor(math.log(4)).double())
    assert all(entropy_gap(probabilities(2, 3, 4).log()) > 0 for _ in range(20))


def test_a_target_temperature_sharpens():
    """softmax(x / 0.025) = softmax(x / 0.1)^4, made to sum to 1: the official code's two steps."""
    z, prototypes = unit(1, 7, 5), unit(4, 5)
    blunt = log_probabilities(z, prototypes, 0.1).exp() ** (0.1 / 0.025)
    sharp = log_probabilities(z, prototypes, 0.025).exp()
    assert_close(sharp, blunt / blunt.sum(-1, keepdim=True))


@pytest.mark.parametrize("iterations", [1, 3])
def test_losses_are_those_of_lightly(iterations):
    anchors, target = torch.randn(3, 5, 8).double(), torch.randn(5, 8).double()
    prototypes = torch.randn(4, 8).double().requires_grad_()
    oracle = MSNLoss(temperature=0.1, sinkhorn_iterations=iterations, regularization_weight=0.7)
    expected = oracle(anchors.flatten(0, 1), target, prototypes, target_sharpen_temperature=0.25)

    log_p = log_probabilities(F.normalize(anchors, dim=-1), prototypes, 0.1)
    log_q = log_probabilities(F.normalize(target, dim=-1)[None], prototypes, 0.025)
    ours = cross_entropy(sinkhorn(log_q[0], iterations)[None], log_p) + 0.7 * entropy_gap(log_p)
    assert_close(ours, expected)
    gradients = [torch.autograd.grad(loss, prototypes)[0] for loss in (ours, expected)]
    assert_close(*gradients)


def test_the_loss_from_views_to_number():
    """Every step by hand, with the patches that the step's generator draws."""
    method, groups = msn(memax_weight=0.5), [(2, 16), (3, 8)]
    loss, shown = method.loss(batch(*groups))

    same = batch(*groups)
    noise = same.uniform(3, 4)  # 8 pixels, patches of 4: 4 patches, of which 0.7 * 4 = 2 are kept
    z = []
    for v, view in enumerate(same.views[1]):
        keep = noise[:, v].argsort(dim=1)[:, :2]
        z.append(encode_patches(method.student, view, keep)[:, 0])
    z = F.normalize(method.projector(torch.cat(z)), dim=1).unflatten(0, (3, 4))
    tokens = torch.cat([method.backbone(view) for view in same.views[0]])
    targets = F.normalize(method.teacher_projector(tokens), dim=1).unflatten(0, (2, 4))
    prototypes = F.normalize(method.prototypes, dim=1)
    q = [sinkhorn((t @ prototypes.T / 0.025).log_softmax(1)) for t in targets]
    p = (z @ prototypes.T / 0.1).softmax(-1)
    error = -torch.stack([(q[t] * p[m].log()).sum(1) for t in range(2) for m in range(3)]).mean()
    mean = p.mean((0, 1))
    assert_close(loss, error + 0.5 * (math.log(6) + (mean * mean.log()).sum()))
    assert_close(shown["cross_entropy"], error.detach())


def test_a_target_is_assigned_apart_from_the_other():
    """What the second target shows does not change to which prototypes the first is assigned."""
    method, groups = msn(hidden_dim=0, dim=24), [(2, 16), (1, 8)]
    together = method.loss(batch(*groups))[1]["cross_entropy"]
    alone = []
    for v in range(2):
        one = batch(*groups)
        one.views = [one.views[0][v : v + 1], one.views[1]]
        alone.append(method.loss(one)[1]["cross_entropy"])
    assert_close(together, torch.stack(alone).mean())


def test_with_one_target_a_masked_view_of_its_size_is_another_group():
    plan = ViewPlan.parse("1x16 bss + 1x16 fa + 3x8 fa")
    images = torch.rand(4, 3, 16, 16)
    views = [view.double() for view in plan(images, torch.Generator().manual_seed(0))]
    seen = []
    method = msn()
    method.student.blocks.register_forward_pre_hook(lambda _, x: seen.append(x[0].shape))
    loss, _ = method.loss(Batch(views, torch.arange(4), 0, torch.Generator()))
    assert loss.isfinite() and seen == [(4, 1 + 11, 24), (12, 1 + 2, 24)]  # 11 of 16, 2 of 4


def test_each_image_loses_patches_of_its_own():
    method, kept = msn(), []
    hook = method.student.norm_pre.register_forward_pre_hook(lambda _, x: kept.append(x[0]))
    same = torch.randn(3, 16, 16).double().expand(1, 64, 3, 16, 16)
    method._masked(Batch([same, same], torch.arange(64), 0, torch.Generator()), same[0])
    hook.remove()
    assert kept[0].sum((1, 2)).unique().numel() > 32


def test_the_teacher_gets_no_gradient_and_the_prototypes_do():
    method = msn()
    method.loss(batch((2, 16), (3, 8)))[0].backward()
    teacher = [*method.backbone.parameters(), *method.teacher_projector.parameters()]
    learning = [*method.student.parameters(), *method.projector.parameters(), method.prototypes]
    assert all(p.grad is None and not p.requires_grad for p in teacher)
    assert all(p.grad is not None for p in learning)
    assert method.prototypes.no_adapt


def test_targets_are_no_way_back_to_the_prototypes():
    """The gradient is that of fixed targets."""
    method, groups = msn(memax_weight=0.0), [(2, 16), (3, 8)]
    method.loss(batch(*groups))[0].backward()
    fixed, same = method.prototypes.detach().clone(), batch(*groups)
    with torch.no_grad():
        tokens = method.teacher_projector(method.backbone(same.views[0].flatten(0, 1)))
        log_q = log_probabilities(F.normalize(tokens, dim=1).unflatten(0, (2, 4)), fixed, 0.025)
        q = torch.stack([sinkhorn(view) for view in log_q])
        z = method.projector(method._masked(same, same.views[1].flatten(0, 1)))
    log_p = log_probabilities(F.normalize(z, dim=1).unflatten(0, (3, 4)), method.prototypes, 0.1)
    (expected,) = torch.autograd.grad(cross_entropy(q, log_p), method.prototypes)
    assert_close(method.prototypes.grad, expected)


def test_the_teacher_moves_by_the_mean():
    method = msn(momentum=0.9)
    before = copy.deepcopy(method)
    with torch.no_grad():
        for p in [*method.student.parameters(), *method.projector.parameters()]:
            p.add_(torch.randn_like(p))
    method.after_step(0, 10)
    pairs = [("backbone", "student"), ("teacher_projector", "projector")]
    for teacher, student in pairs:
        old, new = getattr(before, teacher).state_dict(), getattr(method, teacher).state_dict()
        for name, p in getattr(method, student).named_parameters():
            assert_close(new[name], 0.9 * old[name] + 0.1 * p)


def test_features_are_the_teachers_class_tokens():
    method, images = msn(), torch.randn(2, 3, 16, 16).double()
    with torch.no_grad():
        for p in method.student.parameters():
            p.zero_()
    assert_close(method.features(images), encode_patches(method.backbone, images)[:, 0])
    assert method.features(images).std() > 0.1


@pytest.mark.parametrize(
    "style, styles",
    [("bss", ("bss", "fa", "fa")), ("fa", ("fa",) * 3), ("none", ("none",) * 3)],
)
def test_styles_of_the_groups(style, styles):
    assert MSN.styles(style, 3) == styles


def test_what_cannot_work_is_refused():
    with pytest.raises(ValueError, match="the plan has one group: add one"):
        msn().loss(batch((2, 16)))
    with pytest.raises(ValueError, match="target_temperature must be positive, got 0"):
        msn(target_temperature=0)
    with pytest.raises(ValueError, match="without a projector dim is the backbone's 24, got 8"):
        msn(hidden_dim=0)
    with pytest.raises(ValueError, match=r"drop of 0\.9 leaves 0 of 4 patches"):
        msn(drop=0.9).loss(batch((1, 16), (1, 8)))
