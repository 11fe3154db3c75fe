"""fit(): the only training loop. It owns time and knows nothing of losses or pixels."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from onestyle.checkpoint import load_strictly, save_weights
from onestyle.memory import keep_freed_memory
from onestyle.methods.base import Method
from onestyle.nn import world
from onestyle.nn.batchnorm import make_global
from onestyle.optim import Training, maker, set_lr
from onestyle.progress import Progress, progress
from onestyle.run import Run
from onestyle.signals import Interrupted, wishes
from onestyle.stream import Stream

__all__ = ["fit", "trial"]

Monitor = Callable[[Method], dict[str, float]]

# What a method logs of its health, the value below which it is ill, and what that means.
ILL = {
    "embedding_std": (0.05, "all embeddings are nearly the same: the method has collapsed"),
    "prototypes_used": (2.5, "hardly any prototype is in use: the method has collapsed"),
}


def fit(
    method: Method,
    stream: Stream,
    training: Training,
    *,
    fabric: Fabric,
    run: Run | None = None,
    monitor: Monitor | None = None,
) -> dict[str, float]:
    """Train, from the run's last checkpoint if it has one; returns the last row of metrics.

    A step is a function of the state before it, the seed and its number, so that a run that was
    killed and resumed ends with the same weights, bit for bit, as one that was not.
    """
    if fabric.device.type == "cpu":
        keep_freed_memory()
    loop = _Loop(method, training, fabric, run)
    start = loop.resume()
    micro = stream.batches(start * training.accumulate, training.steps * training.accumulate)
    quiet = not fabric.is_global_zero
    with wishes() as asked, progress("training", training.steps, start, quiet=quiet) as shown:
        for step in range(start, training.steps):
            torch.manual_seed(training.seed + 1_000_003 * step + world.rank())
            losses, logged = loop.step(step, micro)
            done = step + 1
            loss, stop = _everyone(losses, asked)
            loop.refuse_nan(loss, step)
            if done % training.log_every == 0 or done == training.steps:
                loop.log(done, loss, logged, stream, shown)
            if monitor and _due(done, training.monitor_every, training.steps):
                loop.look(done, monitor, shown)
            if _due(done, training.snapshot_every, training.steps):
                loop.snapshot(done)
            if stop or done == training.steps or loop.minutes() >= training.save_minutes:
                loop.save(done)
            if stop and done < training.steps:
                raise Interrupted(stop, f"step {done:,}")
    return loop.row


class _Loop:
    """The state of a run between two steps, and what is done with it."""

    def __init__(self, method: Method, training: Training, fabric: Fabric, run: Run | None):
        if world.size() > 1:
            make_global(method)
        method.train().to(memory_format=torch.channels_last)  # pyright: ignore
        method.to(fabric.device)
        optimizers = method.optimizers(maker(training, method))
        model, *self.optimizers = fabric.setup(method, *optimizers, move_to_device=False)
        self.method, self.model = method, model
        self.training, self.fabric = training, fabric
        self.run, self.writes = run, run is not None and fabric.is_global_zero
        self.began = self.saved_at = time.monotonic()
        self.saved_step, self.seconds_before = 0, 0.0
        self.timed = time.perf_counter(), 0.0, 0.0, 0
        self.row: dict[str, float] = {}
        self.warned: set[str] = set()

    def step(self, step: int, micro: Iterator) -> tuple[Tensor, dict[str, Tensor | float]]:
        """One move of the optimisers; the mean loss of this process, and what the method logs."""
        set_lr(self.optimizers, self.training.rate(step))
        n, total, logged = self.training.accumulate, torch.zeros((), device=self.fabric.device), {}
        for k in range(n):
            batch = next(micro)
            batch.step = step
            with self._no_sync() if k < n - 1 else nullcontext():
                loss, logged = self.model(batch)
                self.fabric.backward(loss / n)
            total += loss.detach() / n
        self.method.before_step(step)
        for optimizer in self.optimizers:
            self._clip(optimizer)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.method.after_step(step, self.training.steps)
        return total, logged

    def _no_sync(self):
        return self.fabric.no_backward_sync(self.model) if world.size() > 1 else nullcontext()

    def _clip(self, optimizer: Optimizer) -> None:
        if self.training.clip is not None:
            self.fabric.strategy.precision.unscale_gradients(optimizer)
            params = [p for group in optimizer.param_groups for p in group["params"]]
            clip_grad_norm_(params, self.training.clip)

    def refuse_nan(self, value: float, step: int, what: str = "the loss") -> None:
        if not math.isfinite(value):
            good = f"the last good checkpoint is of step {self.saved_step:,}"
            raise FloatingPointError(f"{what} is {value} at step {step:,}; {good}")

    def log(self, done: int, loss: float, logged: dict, stream: Stream, shown: Progress) -> None:
        began, data, views, since = self.timed
        now, spent = time.perf_counter(), stream.seconds
        seconds, steps = now - began, done - since or 1
        n_views = stream.n_views * self.training.batch_size * self.training.accumulate
        self.row = {
            "step": done,
            "loss": loss,
            "lr": self.optimizers[0].param_groups[0]["lr"],
            **{name: float(value) for name, value in logged.items()},
            "views_per_second": steps * n_views / seconds,
            "data_share": (spent["data"] - data) / seconds,
            "views_share": (spent["views"] - views) / seconds,
        }
        self.timed = now, spent["data"], spent["views"], done
        self._keep(self.row)
        for name, (least, meaning) in ILL.items():
            if self.row.get(name, least) < least and name not in self.warned:
                self.warned.add(name)
                shown.say(f"step {done:,}: {name} is {self.row[name]:.3g}: {meaning}")
        speed = f"{self.row['views_per_second']:,.0f} views/s"
        shares = f"data {self.row['data_share']:.0%} views {self.row['views_share']:.0%}"
        shown.show(done, f"loss {loss:.4f}, {speed}, {shares}")

    def look(self, done: int, monitor: Monitor, shown: Progress) -> None:
        """The source validation images through the network as it is; one process looks."""
        if self.fabric.is_global_zero:
            self.method.eval()
            with torch.no_grad():
                found = monitor(self.method)
            self.method.train()
            if found:
                self._keep({"step": done, **found})
                self.row |= found
                shown.say(f"step {done:,}: " + ", ".join(f"{k} {v:.3f}" for k, v in found.items()))
        self.fabric.barrier()

    def _keep(self, row: dict[str, float]) -> None:
        if self.run and self.writes:
            self.run.log(row)

    def snapshot(self, done: int) -> None:
        if self.run and self.writes:
            folder = self.run.path / "snapshots"
            folder.mkdir(exist_ok=True)
            save_weights(folder / f"step_{done:06}.safetensors", self.method, {"step": str(done)})

    def save(self, done: int) -> None:
        sums = torch.stack([p.detach().double().sum() for p in self.method.parameters()])
        self.refuse_nan(float(sums.sum()), done - 1, "a weight")
        self.saved_at, self.saved_step = time.monotonic(), done
        if self.run and self.writes:
            optimizers = [optimizer.state_dict() for optimizer in self.optimizers]
            state = {"step": done, "method": self.method.state_dict(), "optimizers": optimizers}
            state["seconds"] = self.seconds_before + time.monotonic() - self.began
            self.run.save(state | {"precision": self.fabric.strategy.precision.state_dict()})

    def minutes(self) -> float:
        return (time.monotonic() - self.saved_at) / 60

    def resume(self) -> int:
        """Take up the last checkpoint; the step to go on with."""
        state = self.run.load() if self.run else None
        start = state["step"] if state else 0
        if self.run and state:
            load_strictly(self.method, state["method"], self.run.last)
            for optimizer, its in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(its)
            self.fabric.strategy.precision.load_state_dict(state["precision"])
            self.seconds_before = state["seconds"]
        if self.run and self.writes:
            self.run.begin(start)
            self.row = self.run.row(start)
        self.saved_step = start
        self.timed = time.perf_counter(), 0.0, 0.0, start
        return start


def _due(done: int, every: int, steps: int) -> bool:
    return every > 0 and (done % every == 0 or done == steps)


def _everyone(loss: Tensor, asked: list[int]) -> tuple[float, int]:
    """The mean loss of all processes, and the signal that any of them was sent."""
    told = torch.tensor([asked[-1] if asked else 0], device=loss.device)
    if world.size() > 1:
        torch.distributed.all_reduce(told, torch.distributed.ReduceOp.MAX)
    return float(world.mean(loss)), int(told)


def trial(method: Method, stream: Stream, training: Training, fabric: Fabric) -> float:
    """Seconds that a step takes, measured on a method that is then thrown away."""
    loop, taken = _Loop(method, training, fabric, None), []
    micro = stream.batches(0, 3 * training.accumulate)
    for step in range(3):
        began = time.perf_counter()
        losses, _ = loop.step(step, micro)
        _everyone(losses, [])  # waits for the device
        taken.append(time.perf_counter() - began)
    stream.seconds.update(data=0.0, views=0.0)
    return min(taken[1:])
