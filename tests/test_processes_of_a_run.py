"""A run in two processes, launched by fabric and by torchrun, ends as one in one process."""

import os
import subprocess
import sys

import pytest
from torch.testing import assert_close

from onestyle.checkpoint import load
from onestyle.run import read_rows
from tests.test_train import command

pytestmark = pytest.mark.slow


def ended(words, *launcher):
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", *launcher, *words], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done


TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "onestyle")


@pytest.mark.parametrize(
    "name, style, how", [("digits/simclr", "bss", "torchrun"), ("digits/swav", "none", "fabric")]
)
def test_two_processes_end_as_one(name, style, how, tmp_path):
    """Whatever shares one style. FA takes its styles from a process's own share, by design."""
    options = {"style": style, "precision": "64-true", "steps": 3}
    words = command(name, tmp_path / "two", **options)
    if how == "fabric":
        ended([*words, "--devices", "2"], "onestyle")
    else:
        ended(words, *TORCHRUN)
    ended(command(name, tmp_path / "one", **options), "onestyle")
    one, two = (load(tmp_path / name / "checkpoints/last.ckpt") for name in ("one", "two"))
    assert_close(two["method"], one["method"], rtol=1e-6, atol=1e-9)
    losses = [
        [row["loss"] for row in read_rows(tmp_path / name / "metrics.jsonl") if "loss" in row]
        for name in ("one", "two")
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)  # logged in float32
