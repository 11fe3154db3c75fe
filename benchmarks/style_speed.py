"""How fast is BSS against the paper's listing, and how much memory does it need beyond its output?

python benchmarks/style_speed.py [--rounds 15] [--device cpu] [--json]

Times are taken in turn within one run. `copy` is the floor: a plain copy of the output into fresh
memory. Memory is the peak resident size of a fresh process minus imports, input and output.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import machine
from onestyle.fourier import BatchStylesStandardization, FourierAugmentation
from tests import listing

# N images, V views, side, ratio, and how many times faster than the listing we want to be
CASES = [
    (64, 8, 128, 0.6, 6),
    (32, 8, 96, 0.06, 15),
    (32, 8, 224, 0.5, 5),
    (32, 8, 227, 0.5, None),  # PACS as it comes: a prime size
    (64, 8, 128, 1.0, None),
    (128, 4, 96, 0.5, None),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peak-of", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak_of:
        print(peak_extra_bytes(*options.peak_of))
        return
    rows = [measure(case, options.rounds, options.device) for case in CASES]
    result = {"machine": machine.describe(), "rows": rows}
    print(json.dumps(result, indent=2) if options.json else table(result))


def measure(case, rounds: int, device: str) -> dict:
    n, views, side, r, target = case
    images = torch.rand(n, 3, side, side, device=device)
    reference = listing.BatchStylesStandardization((r, r))
    ours = BatchStylesStandardization((r, r))
    fa = FourierAugmentation((r, r))
    output = ours(images, views)
    seconds = machine.interleaved(
        {
            "listing": lambda: reference(images, views),
            "bss": lambda: ours(images, views),
            "fa": lambda: fa(images, views),
            "copy": lambda: output.clone(),
        },
        rounds,
    )
    row = {"N": n, "V": views, "side": side, "r": r, "target": target}
    row |= {f"{name}_ms": 1e3 * statistics.median(s) for name, s in seconds.items()}
    row["faster"] = machine.ratio(seconds["listing"], seconds["bss"])
    row["over_copy"] = machine.ratio(seconds["bss"], seconds["copy"])
    if device == "cpu":
        ours_bytes, listing_bytes = (peak_in_subprocess(who, case) for who in ("bss", "listing"))
        row["extra_mb"], row["memory_share"] = ours_bytes / 1e6, ours_bytes / listing_bytes
    return row


def peak_in_subprocess(who: str, case) -> int:
    command = [sys.executable, __file__, "--peak-of", who, *map(str, case[:4])]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def peak_extra_bytes(who: str, n, views, side, r) -> int:
    """Peak resident size over what import, input and output take, after a small warm-up call."""
    n, views, side, r = int(n), int(views), int(side), float(r)
    made = {"bss": BatchStylesStandardization, "listing": listing.BatchStylesStandardization}[who]
    transform = made((r, r))
    transform(torch.rand(2, 3, 16, 16), 2)  # thread pools and FFT plans are not the call's memory
    images = torch.rand(n, 3, side, side)
    before = peak_resident_bytes()
    output = transform(images, views)
    return max(0, peak_resident_bytes() - before - output.numel() * output.element_size())


def peak_resident_bytes() -> int:
    """VmHWM of this process (getrusage would count the parent's peak too)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(s.split()[1]) for s in status.splitlines() if s.startswith("VmHWM"))


def table(result: dict) -> str:
    lines = [f"{key}: {value}" for key, value in result["machine"].items()]
    lines += [
        "",
        "| N x V, side, r | listing ms | BSS ms | FA ms | copy ms | times faster | target |",
    ]
    lines[-1] += " BSS / copy | extra MB | share of the listing's |"
    lines += ["|---|---|---|---|---|---|---|---|---|---|"]
    for row in result["rows"]:
        cells = [f"{row['N']} x {row['V']}, {row['side']}, {row['r']}"]
        cells += [
            f"{row[key]:.1f}" for key in ("listing_ms", "bss_ms", "fa_ms", "copy_ms", "faster")
        ]
        cells += [str(row["target"] or "-"), f"{row['over_copy']:.1f}"]
        if "extra_mb" in row:
            cells += [f"{row['extra_mb']:.0f}", f"{row['memory_share']:.1%}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
