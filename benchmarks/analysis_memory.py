"""Do the analyses of 100,000 features stay within 2 GB?

python benchmarks/analysis_memory.py [--images 100000] [--rounds 1] [--json]

Each in a fresh process, on noise in five domains and ten classes: the peak of its anonymous
resident memory (RssAnon), what torch and the features themselves take included, and how long.

purity       features of 512 dimensions, neighbours up to k = 500
similarity   embeddings of 128 dimensions as one batch: 5 billion pairs
homogeneity  scores on 256 prototypes, two snapshots
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import machine
from onestyle.analysis import homogeneity, purity, similarity

LIMIT = 2e9  # bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=ANALYSES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(watched(ANALYSES[options.only], options.images)))
        return
    result = {"machine": machine.describe(), "images": options.images}
    for name in ANALYSES:
        rounds = [in_a_process(name, options.images) for _ in range(options.rounds)]
        result[f"{name}_peak_mb"] = max(peak for peak, _ in rounds) / 1e6
        result[f"{name}_s"] = min(seconds for _, seconds in rounds)
    peaks = [1e6 * value for key, value in result.items() if key.endswith("_mb")]
    result["within_2_gb"] = max(peaks) < LIMIT
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for key, value in (result.pop("machine") | result).items():
        print(f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}")


def in_a_process(name: str, n: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "--only", name, "--images", str(n)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def watched(work, n: int) -> tuple[int, float]:
    """The peak while it works, and the seconds that it takes."""
    started = time.perf_counter()
    return machine.peak_memory(lambda: work(n)), time.perf_counter() - started


def labels(n: int, high: int) -> torch.Tensor:
    return torch.randint(high, (n,), generator=torch.Generator().manual_seed(high))


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def purity_of(n: int) -> None:
    purity.compute(noise(n, 512), labels(n, 10), labels(n, 5))


def similarity_of(n: int) -> None:
    similarity.compute([noise(1, n, 128)])


def homogeneity_of(n: int) -> None:
    scores = ((step, noise(n, 256).tanh()) for step in (1000, 2000))
    homogeneity.compute(scores, labels(n, 10), labels(n, 5))


ANALYSES = {"purity": purity_of, "similarity": similarity_of, "homogeneity": homogeneity_of}

if __name__ == "__main__":
    main()
