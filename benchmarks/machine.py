"""What every benchmark prints first, and how it takes its times."""

import datetime
import os
import platform
import statistics
import subprocess
import threading
import time
from pathlib import Path

import torch


def describe() -> dict:
    """Date, hardware, versions and commit of this run."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":")[1].strip() if names else cpu
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    ).stdout.strip()
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": f"{cpu}, {torch.get_num_threads()} threads",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": commit or "none",
    }


def interleaved(calls: dict, rounds: int) -> dict[str, list[float]]:
    """Seconds of each call, `rounds` times in turn, so that a noisy moment hits all of them.

    Each timed call follows an untimed one of its own, as in a training loop: else whoever comes
    after a call that gave gigabytes back to the kernel pays for getting them again.
    """
    seconds = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            synchronize()
            start = time.perf_counter()
            call()
            synchronize()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def ratio(slow: list[float], fast: list[float]) -> float:
    """Median over the rounds of slow / fast, each pair measured side by side."""
    return statistics.median(s / f for s, f in zip(slow, fast, strict=True))


def peak_memory(work) -> int:
    """The most anonymous resident memory, in bytes, that this process has while it works."""
    peaks, done = [anonymous_bytes()], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peaks.append(anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    done.set()
    watcher.join()
    return max(peaks)


def anonymous_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(s.split()[1]) for s in status.splitlines() if s.startswith("RssAnon"))
