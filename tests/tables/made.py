"""Run folders as a training would leave them, whose accuracies are known."""

import numpy as np
import yaml

from onestyle.recipes import plain
from onestyle.run import Run
from onestyle.stages.evaluation import Predicted, write_evaluation

N_CLASSES = 2


def made(runs, job, hits, *, n=100, name=None, openings=0, data=None, seconds=100.0):
    """A finished run of a job. `hits(percent, seed, target)` of the n images (or n[target]) of a
    target are right."""
    folder = runs / (name or f"{job.line.method}-{job.line.style}-{job.key[:8]}")
    folder.mkdir(parents=True)
    about = {"store": job.recipe.data, "n": 1000, "size": 96, "pixels_sha256": "ab"} | (data or {})
    about |= {"sources": list(job.sources), "targets": list(job.targets), "split": "c0ffee"}
    config = {"recipe": plain(job.recipe), "data": about}
    if job.pretrained:
        (folder / "recipe.yaml").write_text(yaml.safe_dump(config))
        found = {"seeds": {"pretraining": job.recipe.seed}, "target_openings": openings}
        found |= {"seconds": seconds, "devices": "1 x cpu"}
        Run(folder, config).finish({"stage": "pretrain", **config, **found})
        (folder / "backbone.safetensors").write_bytes(b"weights")
    for stage, percents in (("probe", job.probed), ("finetune", job.finetuned)):
        if percents:
            evaluated(folder / stage if job.pretrained else folder, stage, job, percents, hits, n)
    return folder


def evaluated(folder, stage, job, percents, hits, n=100, n_seeds=None):
    seeds = list(range(n_seeds or job.n_seeds))
    values = [{"percent": p, "seed": s, "n_labels": p} for p in percents for s in seeds]
    parts = {"val": _part([0] * len(values), 4)}
    for target in job.targets:
        size = n[target] if isinstance(n, dict) else n
        right = [hits(value["percent"], value["seed"], target) for value in values]
        parts[f"target/{target}"] = _part(right, size)
    network, own = {"timm": job.recipe.backbone, "init": "random"}, {}
    if job.has_recipe and not job.pretrained:
        network, own = network | {"own": True}, {"recipe": plain(job.recipe)}
    if job.pretrained:
        network = {"config_hash": Run(folder.parent, {}).read_result()["config_hash"]}
    about = {"store": job.recipe.data, "n": 1000, "size": 96, "pixels_sha256": "ab"}
    about |= {"sources": list(job.sources), "targets": list(job.targets), "split": "c0ffee"}
    config = {
        "stage": stage,
        "network": network,
        "data": about,
        "seeds": {"pretraining": job.recipe.seed if job.pretrained else None, "labels": seeds},
        "varied": ["labels", stage] if len(seeds) > 1 else [],
        "selector": "last step",
        "views": {"groups": [{"size": job.recipe.view_size}]},
        "values": values,
        {"probe": "probing", "finetune": "training"}[stage]: job.protocol,
        **own,
    }
    write_evaluation(folder, config, parts, N_CLASSES, spent={"seconds": 1.0})


def _part(right, n):
    """The first images are right, whose class is 0; both classes are there."""
    label = np.arange(n, dtype=np.int16) % N_CLASSES
    classes = np.stack([np.where(np.arange(n) < k, label, 1 - label) for k in right])
    return Predicted(classes.astype(np.int16), label, np.arange(n))
