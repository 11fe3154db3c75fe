"""Page faults are counted in processes of their own: what malloc keeps depends on the past."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import torch
from onestyle.memory import keep_freed_memory

torch.set_num_threads(1)
kept = sys.argv[1] == "kept" and keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    x = torch.ones(10_000_000)  # 40 MB: beyond 32 glibc maps always
    return [x + k for k in range(2)]

for _ in range(3):
    step()
before = faults()
for _ in range(20):
    step()
print(kept, faults() - before)
"""


def faults_of(how):
    command = [sys.executable, "-c", FAULTS, how]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return words[0] == "True", int(words[1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_a_step_finds_the_memory_of_the_one_before():
    kept, n_faults = faults_of("kept")
    if not kept:
        pytest.skip("this C library has no mallopt")
    assert n_faults < faults_of("given back")[1] / 5  # a heap may still grow once or twice
