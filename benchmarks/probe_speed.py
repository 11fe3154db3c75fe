"""How much faster are many linear probes together than one after the other?

python benchmarks/probe_speed.py [--rounds 3] [--steps 200] [--device cpu] [--json]

PACS with sketch unseen: 5,447 features of 512 numbers, 7 classes, 4 fractions x 10 seeds, batches
of 128; in one run, taken in turn. The work of a step does not change, so that a part of the paper's
5,000 steps says it all.

1. plain: nn.BatchNorm1d, nn.Linear, Adam, one head after the other, on features in memory;
2. loader: the same, its batches from a DataLoader; one of the seeds is timed, for all ten;
3. batched: `train_probes`.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import machine
from onestyle.stages.linear import PERIOD, Probing, Problem, draw, first_weight, train_probes

N, DIM, N_CLASSES, BATCH, SEEDS = 5447, 512, 7, 128, 10
LABELS = {1: 64, 5: 284, 10: 555, 100: N}  # percent: how many


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    probing, device = Probing(steps=options.steps, batch_size=BATCH), options.device
    features, labels = (x.to(device) for x in data())
    dice = np.random.default_rng(0)
    rows = [dice.permutation(N)[:n] for n in LABELS.values()]
    problems = [Problem(some, seed) for some in rows for seed in range(SEEDS)]
    of = features, labels, problems, probing
    calls = {
        "batched": lambda: train_probes(features, labels, problems, N_CLASSES, probing),
        "plain": lambda: one_after_the_other(*of, in_memory),
        "loader": lambda: one_after_the_other(
            features, labels, problems[::SEEDS], probing, by_loader
        ),
    }
    seconds = machine.interleaved(calls, options.rounds)
    seconds["loader"] = [SEEDS * s for s in seconds["loader"]]
    result = {"machine": machine.describe(), "heads": len(problems), "steps": probing.steps}
    result |= {f"{name}_s": statistics.median(s) for name, s in seconds.items()}
    for name in ("plain", "loader"):
        result[f"faster_than_{name}"] = machine.ratio(seconds[name], seconds["batched"])
    result["weights_differ_by"] = difference(*of)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for key, value in (result.pop("machine") | result).items():
        print(f"{key}: {value:.3g}" if isinstance(value, float) else f"{key}: {value}")


def data():
    """Features as a ResNet-18 has them: not negative, of classes that overlap."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(N_CLASSES, (N,), generator=generator)
    centres = torch.randn(N_CLASSES, DIM, generator=generator)
    return (centres[labels] + 2 * torch.randn(N, DIM, generator=generator)).relu(), labels


def in_memory(features, labels, problem, probing):
    for step in range(probing.steps):
        period, k = divmod(step, PERIOD)
        if k == 0:
            drawn = draw(len(problem.rows), probing.batch_size, problem.seed, period)
            rows = torch.from_numpy(problem.rows[drawn]).to(features.device)
        yield features[rows[k]], labels[rows[k]]


def by_loader(features, labels, problem, probing):
    rows = torch.from_numpy(problem.rows).to(features.device)
    known = TensorDataset(features[rows], labels[rows])
    n = probing.steps * probing.batch_size
    sampler = RandomSampler(known, replacement=True, num_samples=n)
    return DataLoader(known, probing.batch_size, sampler=sampler)


def one_after_the_other(features, labels, problems, probing, batches):
    return [probe(features, labels, problem, probing, batches) for problem in problems]


def probe(features, labels, problem, probing, batches):
    norm = nn.BatchNorm1d(DIM, eps=probing.eps, affine=False).to(features)
    linear = nn.Linear(DIM, N_CLASSES).to(features)
    nn.init.zeros_(linear.bias)
    linear.weight.data.copy_(first_weight(N_CLASSES, DIM, problem.seed))
    options = {"lr": probing.lr, "weight_decay": probing.weight_decay}
    optimizer = torch.optim.Adam(linear.parameters(), **options)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, probing.steps)
    for x, y in batches(features, labels, problem, probing):
        optimizer.zero_grad()
        nn.functional.cross_entropy(linear(norm(x)), y).backward()
        optimizer.step()
        schedule.step()
    return linear


def difference(features, labels, problems, probing) -> float:
    """Of the weights in float64, at most: it is the same work."""
    some = problems[::13]
    heads = train_probes(features.double(), labels, some, N_CLASSES, probing)
    plain = one_after_the_other(features.double(), labels, some, probing, in_memory)
    each = zip(heads.weight, (linear.weight for linear in plain), strict=True)
    return max(float((ours - theirs.detach()).abs().max()) for ours, theirs in each)


if __name__ == "__main__":
    main()
