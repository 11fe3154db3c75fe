"""The missing cells of a table, carried out: here, several at once, or by a cluster.

Each cell has a lock, runs/.cells/NAME/lock, so that the same command may run in several places:
what another is at is left to it. What was interrupted goes on where it was.
"""

from __future__ import annotations

import os
import shutil
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from onestyle.data.store import open_store
from onestyle.progress import clock
from onestyle.run import InUse, lock
from onestyle.signals import Interrupted, wishes
from onestyle.stages.finetune import finetune
from onestyle.stages.pretrain import pretrain
from onestyle.stages.probe import probe
from onestyle.tables.collect import STAGES, Evaluated, Found, Harvest, look_into
from onestyle.tables.plan import Job

__all__ = ["Outcome", "Task", "attempt", "carry_out", "run_here", "run_on_cluster", "tasks_of"]


@dataclass(frozen=True)
class Task:
    """A job and where it is done."""

    job: Job
    folder: Path
    data: str  # the store's name

    @property
    def desk(self) -> Path:
        """Of the cell, not of the run: its lock and its log."""
        return self.folder.parent / ".cells" / self.folder.name


class Outcome(NamedTuple):
    task: Task
    state: str  # done, in use, failed
    words: str

    def __str__(self) -> str:
        return f"{self.state}: {self.task.job}: {self.words}"


def tasks_of(jobs: Iterable[Job], harvest: Harvest, runs: Path, data: str) -> list[Task]:
    """Those that lack something, where they were begun or in a new folder."""
    store, found = open_store(data), harvest.found
    return [
        Task(job, found[job.key].folder if job.key in found else runs / job.folder(store), data)
        for job in harvest.missing(jobs)
    ]


def carry_out(task: Task) -> str:
    """Go through the stages that the cell lacks; in words, what was done."""
    job, began = task.job, time.monotonic()
    task.desk.mkdir(parents=True, exist_ok=True)
    with lock(task.desk):
        found = _begin(task)
        stages = found.lacks(job)
        if "pretrain" in stages:
            options = {"targets": job.targets, "sources": job.sources, "out": task.folder}
            pretrain(job.recipe, task.data, **options)
        for stage in STAGES:
            if stage in stages:
                _evaluate(stage, task, found.evaluated.get(stage))
    return f"{', '.join(stages) or 'nothing was left'}, {clock(time.monotonic() - began)}"


def _begin(task: Task) -> Found:
    """How far the cell is now: another may have been at it since it was planned."""
    if not task.folder.exists():
        return Found(task.folder)
    found, problems = look_into(task.folder, task.job)
    if problems:
        raise ValueError("; ".join(problems))
    return found


def _evaluate(stage: str, task: Task, there: Evaluated | None) -> None:
    """Every fraction and seed that is asked for; what is there already comes out again."""
    job = task.job
    percents = {*(job.probed if stage == "probe" else job.finetuned)}
    n_seeds = job.n_seeds
    if there:
        percents |= {percent for percent, _, _ in there.values()}
        n_seeds = max(n_seeds, *(1 + seeds[1] for _, seeds, _ in there.values()))
    options = {"percents": sorted(percents), "seeds": n_seeds, "settings": job.settings}
    if stage == "probe":
        probe(str(task.folder), task.data, force=there is not None, **options)
        return
    if there:  # its parts stay, and come out again
        (there.folder / "result.json").unlink()
    if job.pretrained:
        finetune(str(task.folder), task.data, **options)
        return
    options |= {"targets": job.targets, "sources": job.sources, "out": task.folder}
    if job.has_recipe:
        del options["settings"]  # of what has no recipe
        finetune(None, task.data, recipe=job.recipe, **options)
        return
    network = {"size": job.recipe.view_size, "options": job.recipe.backbone_options}
    finetune(f"random:{job.recipe.backbone}", task.data, network=network, **options)


# ------------------------------------------------------------------------------ here


def attempt(task: Task) -> Outcome:
    """A cell that fails does not stop the others; a signal that asks to end does."""
    try:
        return Outcome(task, "done", carry_out(task))
    except InUse as error:
        return Outcome(task, "in use", str(error))
    except Interrupted:
        raise
    except Exception as error:
        with (task.desk / "log").open("a", encoding="utf-8") as log:
            traceback.print_exc(file=log)
        return Outcome(task, "failed", " ".join(str(error).split()) or repr(error))


def run_here(tasks: Sequence[Task], n: int = 1) -> Iterator[Outcome]:
    """n at once, each in a process with a device of its own; one alone in this process."""
    if n == 1:
        yield from map(attempt, tasks)
        return
    waiting, running, n_done = list(reversed(tasks)), {}, 0
    with wishes() as asked:
        while running or (waiting and not asked):
            while waiting and len(running) < n and not asked:
                place = min({*range(n)} - {worker.place for worker in running.values()})
                worker = _Worker(waiting.pop(), place, n)
                running[worker.process.sentinel] = worker
            for sentinel in wait(list(running), timeout=0.5):
                outcome = running.pop(sentinel).outcome()
                n_done += outcome.state == "done"
                yield outcome
            if asked:
                for worker in running.values():
                    worker.stop()
        if asked:
            raise Interrupted(asked[-1], f"{n_done} of {len(tasks)} cells")


class _Worker:
    """A process that carries out one task; what it says goes to the log of the cell."""

    def __init__(self, task: Task, place: int, n: int):
        self.task, self.place, self.stopped = task, place, False
        self.pipe, theirs = get_context("spawn").Pipe(duplex=False)
        self.process = get_context("spawn").Process(target=_work, args=(theirs, task, place, n))
        self.process.start()
        theirs.close()

    def stop(self) -> None:
        """Once: a second signal would kill."""
        if not self.stopped:
            self.process.terminate()
        self.stopped = True

    def outcome(self) -> Outcome:
        self.process.join()
        try:
            return Outcome(self.task, *self.pipe.recv())
        except EOFError:
            words = f"it ended with the code {self.process.exitcode}, see {self.task.desk / 'log'}"
            return Outcome(self.task, "failed", words)


def _work(pipe: Connection, task: Task, place: int, n: int) -> None:
    import torch

    os.setsid()  # Ctrl-C in the terminal is for the parent alone, who passes it on
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(n)))).split(",")
    os.environ["CUDA_VISIBLE_DEVICES"] = devices[place % len(devices)]
    torch.set_num_threads(max(1, torch.get_num_threads() // n))
    task.desk.mkdir(parents=True, exist_ok=True)
    with (task.desk / "log").open("a", encoding="utf-8") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        _, state, words = attempt(task)
    except Interrupted as interrupted:
        state, words = "stopped", str(interrupted)
    pipe.send((state, words))


# ---------------------------------------------------------------------- on a cluster


def run_on_cluster(tasks: Sequence[Task], settings: Sequence[str]) -> Iterator[Outcome]:
    """Each cell a job of SLURM, through submitit; settings are its parameters, KEY=VALUE.

    A job whose time is over, or that has to make way, is put into the queue again and goes on.
    """
    executor = _executor(tasks[0].desk.parent / "submitit", settings)
    from submitit.helpers import as_completed

    tasks = [replace(task, folder=task.folder.resolve()) for task in tasks]
    with executor.batch():
        jobs = {executor.submit(_Cell(), task): task for task in tasks}
    for job in as_completed(list(jobs), poll_frequency=1):
        try:
            yield Outcome(jobs[job], *job.result())
        except Exception as error:  # of the job, or of the cluster
            yield Outcome(jobs[job], "failed", f"job {job.job_id}: {str(error).splitlines()[-1]}")


class _Cell:
    """What submitit sends to the cluster, and how it is put into the queue again."""

    def __call__(self, task: Task) -> tuple[str, str]:
        _, state, words = attempt(task)
        return state, words

    def checkpoint(self, task: Task) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, task)


def _executor(folder: Path, settings: Sequence[str]) -> Any:
    try:
        from submitit import AutoExecutor
    except ModuleNotFoundError:
        raise ValueError("submitit is missing; pip install 'onestyle[slurm]' brings it") from None
    known = {name: yaml.safe_load(value) for name, _, value in map(_parted, settings)}
    cluster = known.pop("cluster", "slurm")
    if cluster == "slurm" and shutil.which("sbatch") is None:
        raise ValueError("there is no SLURM here (no sbatch); cluster=local is this machine")
    try:
        executor = AutoExecutor(folder, cluster=cluster)
        executor.update_parameters(name="onestyle", **known)
    except (NameError, RuntimeError) as error:
        raise ValueError(f"--slurm {' '.join(settings)}: {error}") from error
    return executor


def _parted(setting: str) -> tuple[str, str, str]:
    parts = setting.partition("=")
    if not parts[0] or not parts[1]:
        raise ValueError(f"--slurm takes KEY=VALUE, submitit's parameters, got {setting!r}")
    return parts
