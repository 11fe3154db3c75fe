"""A function in n real processes that talk over gloo."""

import multiprocessing
import pickle
import sys
import traceback
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist

# A server imports what is slow, before it has threads; each process is a fork of it.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.conftest", "timm", "onestyle.stages.pretrain"])
SECONDS = 120


def run(function, n, *args):
    """[function(*args) of process 0, ..., of process n - 1]; the function is found by its name."""
    call = pickle.dumps((function, args))
    with TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(n):
            pipe, theirs = CONTEXT.Pipe(duplex=False)
            process = CONTEXT.Process(target=_work, args=(theirs, rank, n, folder, call))
            process.start()
            theirs.close()
            pipes.append(pipe)
            processes.append(process)
        try:
            answers = _answers(pipes)
        finally:
            for process in processes:
                process.terminate()
                process.join()
    return [answers[pipe] for pipe in pipes]


class Started(CONTEXT.Process):
    """A process that runs function(*args) and ends with what it returns as its exit code."""

    def __init__(self, function, *args):
        super().__init__(target=_exit, args=(function, args))

    def wait(self):
        self.join(SECONDS)
        return self.exitcode


def start(function, *args):
    process = Started(function, *args)
    process.start()
    return process


def _exit(function, args):
    torch.set_num_threads(1)
    sys.exit(function(*args))


def _answers(pipes):
    answers = {}
    while len(answers) < len(pipes):
        ready = wait([pipe for pipe in pipes if pipe not in answers], timeout=SECONDS)
        if not ready:
            raise TimeoutError(f"{len(pipes) - len(answers)} processes said nothing in {SECONDS} s")
        for pipe in ready:
            answers[pipe], error = pickle.loads(pipe.recv_bytes())
            if error:
                raise RuntimeError(f"in process {pipes.index(pipe)}:\n{error}")
    return answers


def _work(pipe, rank, n, folder, call):
    torch.set_num_threads(1)
    store = dist.FileStore(str(Path(folder) / "store"), n)
    try:
        function, args = pickle.loads(call)
        dist.init_process_group(
            "gloo", store=store, rank=rank, world_size=n, timeout=timedelta(seconds=SECONDS)
        )
        answer = function(*args), None
    except BaseException:
        answer = None, traceback.format_exc()
    pipe.send_bytes(pickle.dumps(answer))
    pipe.close()
    if dist.is_initialized():
        dist.destroy_process_group()
