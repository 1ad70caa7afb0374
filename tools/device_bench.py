#!/usr/bin/env python3
"""Measures the whole table of speeds on a device and compares it with the last one.

Each part is a run of `tinyloop bench`, or of tools/peer_torch.py where PyTorch is installed, with a
time limit of its own; a figure is printed as soon as it is there, and a part that is cut short keeps
what it has. Models of random weights are written where they are missing. The results go to
bench/results/DATE-device-table.md, the raw figures to a .json beside it. Exit code: 0; 1 a figure has
fallen by more than 5 %; 2 something could not be measured. docs/benchmarks.md has more.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from device_floors import Device, floor_of
from device_report import falls, key_of, report, row_of
from model_shape import SHAPES

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
TORCH = ROOT / "tools" / "peer_torch.py"
ENDING = "-device-table.json"

HOT = "temperature=0.8"
SAMPLED = [f"{HOT},top-p=0.95", f"{HOT},top-k=40", f"{HOT},min-p=0.05",
           f"{HOT},repetition-penalty=1.1,frequency-penalty=0.2"]
SAMPLINGS = ["greedy", *SAMPLED, "+".join(["greedy", *SAMPLED])]


@dataclass(frozen=True)
class Part:
    """What one process measures. `options` are those of `tinyloop bench` or peer_torch.py."""
    name: str
    shape: str
    weights: str
    options: tuple = ()
    sampled: bool = False
    engine: str = "TinyLoop"
    prompts: str = ""  # of serving
    outputs: str = ""


def decode(context: int, gen: int) -> tuple:
    return ("--prompt-tokens", 0, "--contexts", context, "--gen-tokens", gen)


def prefill(*tokens: int) -> tuple:
    """One prompt, in slices of the longest."""
    return ("--gen-tokens", 0, "--callers", 1, "--prompt-tokens", ",".join(map(str, tokens)),
            "--prefill-budget", max(tokens))


def parts(rates: dict[str, str], requests: int) -> list[Part]:
    """All, those that say most first."""
    prompts, outputs = "64,128,256,512", "32,64,128,256"
    serving = {shape: ("--rate", rate, "--requests", requests, "--prompt-tokens", prompts,
                       "--gen-tokens", outputs) for shape, rate in rates.items()}
    lengths = {"prompts": prompts, "outputs": outputs}
    torch = {"weights": "bf16", "engine": "PyTorch"}
    return [
        Part("m409", "m409", "q4_0", decode(512, 128), sampled=True),
        Part("m409-long", "m409", "q4_0", decode(1900, 128)),
        Part("m409-prefill", "m409", "q4_0", prefill(512, 2048)),
        Part("m409-serving", "m409", "q4_0", serving["m409"], **lengths),
        Part("ouro14-q4", "ouro14", "q4_0", decode(128, 96), sampled=True),
        Part("ouro14-q4-prefill", "ouro14", "q4_0", prefill(512, 2048)),
        Part("ouro14-q4-serving", "ouro14", "q4_0", serving["ouro14"], **lengths),
        Part("ouro14-f16", "ouro14", "f16", decode(128, 96), sampled=True),
        Part("ouro14-f16-prefill", "ouro14", "f16", prefill(512, 2048)),
        Part("torch-ouro14", "ouro14", options=("--prompt-tokens", 2048, "--contexts", 128,
                                                "--gen-tokens", 96), **torch),
        Part("torch-m409", "m409", options=("--prompt-tokens", 2048, "--contexts", 512,
                                            "--gen-tokens", 128), **torch),
        Part("torch-m409-long", "m409", options=("--contexts", 1900, "--gen-tokens", 128), **torch),
    ]


def chosen(all_parts: list[Part], names: list[str]) -> list[Part]:
    """A name stands for the part, and for those whose names go on from it: m409 for m409-prefill."""
    for name in names:
        if not any(f"{part.name}-".startswith(f"{name}-") for part in all_parts):
            raise SystemExit(f"device_bench: --parts: {name}, allowed: beginnings of "
                             f"{', '.join(part.name for part in all_parts)}")
    return [part for part in all_parts
            if not names or any(f"{part.name}-".startswith(f"{name}-") for name in names)]


# ---- running -------------------------------------------------------------------------------------


def model_file(folder: Path, part: Part) -> Path:
    path = folder / f"{part.shape}-{part.weights}.gguf"
    if not path.exists():
        import random_model  # numpy is needed here alone

        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        random_model.write(unfinished, SHAPES[part.shape], part.weights, 1)
        unfinished.rename(path)
    return path


def command_of(part: Part, args: argparse.Namespace) -> list[str]:
    own = [str(option) for option in part.options]
    if part.engine == "PyTorch":
        return [sys.executable, str(TORCH), part.shape, *own, "--callers", args.callers,
                "--repeat", str(args.repeat)]
    words = [str(args.cli.resolve()), "bench", "-m", str(model_file(args.models, part)), "--device",
             args.device, "--json", "--repeat", str(args.repeat), *own]
    if "--callers" not in own and "--rate" not in own:
        words += ["--callers", args.callers]
    for sampling in args.samplings if part.sampled else []:
        words += ["--sampling", sampling]
    return words


def lines_of(command: list[str], limit_s: float) -> Iterator[dict]:
    """The JSON lines of a program as they come. Raises RuntimeError behind the last one when it has
    failed or was ended at the limit."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        timer = threading.Timer(limit_s, program.kill)
        timer.start()
        try:
            for text in program.stdout:
                yield json.loads(text)
            program.wait()
        finally:
            late = not timer.is_alive()
            timer.cancel()
            program.kill()  # for whoever reads no further
    if late:
        raise RuntimeError(f"ended after {limit_s:.0f} s")
    if program.returncode != 0:
        raise RuntimeError(f"exit code {program.returncode}")


def measure(part: Part, args: argparse.Namespace, device: Device, figures: list[dict]) -> None:
    """Appends each figure as soon as it is there."""
    for row in lines_of(command_of(part, args), args.limit):
        if "kind" not in row:
            continue  # what is measured on
        figure = {"engine": part.engine, "shape": part.shape, "weights": part.weights, **row}
        if row["kind"] == "serving":
            figure |= {"prompts": part.prompts, "outputs": part.outputs}
        figure["floor"] = floor_of(figure, device)
        figures.append(figure)
        print(row_of(figure), flush=True)


def has_torch() -> bool:
    return subprocess.run([sys.executable, "-c", "import torch; torch.zeros(1, device='cuda')"],
                          capture_output=True, check=False).returncode == 0


def measured_device(args: argparse.Namespace, torch: bool) -> Device:
    """Its speeds as given, or as PyTorch finds them."""
    name = args.name
    if torch and not (name and args.bandwidth and args.tflops):
        try:
            found = next(lines_of([sys.executable, str(TORCH), "device"], args.limit))
            return Device(name or found["name"], args.bandwidth * 1e12 or found["bandwidth"],
                          args.tflops * 1e12 or found["flops"])
        except (RuntimeError, StopIteration) as error:
            print(f"device_bench: the device's speeds: {error}", file=sys.stderr)
    return Device(name or args.device, args.bandwidth * 1e12, args.tflops * 1e12)


# ---- results -------------------------------------------------------------------------------------


def last_results(folder: Path) -> Path | None:
    """Names begin with their dates."""
    files = sorted(folder.glob(f"*{ENDING}"))
    return files[-1] if files else None


def compared(against: Path | None, device: Device, figures: list[dict]) -> tuple[list[str], list[str]]:
    """What to say of it, and the figures that have fallen."""
    if against is None:
        return ["There is no earlier table."], []
    before = json.loads(against.read_text())
    if before["device"] != device.name:
        return [f"{against.name} is of another device, {before['device']}."], []
    both = {key_of(f) for f in before["figures"]} & {key_of(f) for f in figures}
    fallen = falls(before["figures"], figures)
    return [f"{len(both)} figures are also in {against.name}; {len(fallen)} of them have fallen by more "
            "than 5 %.", *(f"- {line}" for line in fallen)], fallen


def written(path: Path, device: Device, args: argparse.Namespace, figures: list[dict],
            comparison: list[str], failures: list[str]) -> None:
    rows = ",\n".join(json.dumps(figure) for figure in figures)
    path.write_text(f'{{"device": {json.dumps(device.name)}, "bandwidth": {device.bandwidth:.4g}, '
                    f'"flops": {device.flops:.4g}, "figures": [\n{rows}\n]}}\n')
    speeds = [f"{device.bandwidth / 1e12:.2f} TB/s"] if device.bandwidth else []
    speeds += [f"{device.flops / 1e12:.0f} TFLOP/s"] if device.flops else []
    head = [f"{device.name}{': ' if speeds else ''}{', '.join(speeds)}. Random weights; medians of "
            f"{args.repeat} runs; floors as docs/benchmarks.md states them. In brackets: of greedy.",
            "", f"`scripts/bench-device.sh --repeat {args.repeat} --callers {args.callers}"
            f"{' --parts ' + ','.join(args.parts) if args.parts else ''}`"]
    path.with_suffix(".md").write_text(report(head, figures, comparison, failures))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--cli", type=Path, default=Path(os.environ.get(
        "TINYLOOP_CLI", ROOT / "build/cuda-release/examples/cli/tinyloop")), help="a built tinyloop")
    add("--models", type=Path, default=ROOT / "build/bench-models", help="folder of model files")
    add("--device", default="cuda:0")
    add("--parts", type=lambda text: text.split(","), default=[], help="names, or their beginnings")
    add("--callers", default="1,8,32,64,128")
    add("--samplings", nargs="+", default=SAMPLINGS, help="as --sampling of tinyloop bench")
    add("--repeat", type=int, default=3)
    add("--limit", type=float, default=120, help="seconds of a part")
    add("--rate", default="60", help="requests a second of serving m409, a list")
    add("--ouro-rate", default="15", help="likewise, of ouro14")
    add("--requests", type=int, default=300, help="of serving")
    add("--name", default="", help="of the device; default: as PyTorch calls it")
    add("--bandwidth", type=float, default=0, help="TB/s for the floors; default: measured")
    add("--tflops", type=float, default=0, help="likewise, dense 16-bit products")
    add("--against", type=Path, help="a .json to compare with; default: the last one in the folder")
    add("-o", "--output", type=Path, default=RESULTS / f"{datetime.date.today()}{ENDING}",
        help="the .json; the report is beside it")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    if not args.cli.is_file():
        raise SystemExit(f"device_bench: --cli: {args.cli}, allowed: a built tinyloop")
    wanted = chosen(parts({"m409": args.rate, "ouro14": args.ouro_rate}, args.requests), args.parts)
    torch = has_torch()
    device = measured_device(args, torch)
    figures: list[dict] = []
    failures = []
    for part in wanted:
        if part.engine == "PyTorch" and not torch:
            failures.append(f"{part.name}: PyTorch is not installed")
            continue
        print(f"== {part.name}", flush=True)
        try:
            measure(part, args, device, figures)
        except (RuntimeError, OSError, json.JSONDecodeError) as error:
            failures.append(f"{part.name}: {error}")
            print(f"device_bench: {failures[-1]}", file=sys.stderr)
    against = args.against or last_results(args.output.parent)
    comparison, fallen = compared(against, device, figures)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    written(args.output, device, args, figures, comparison, failures)
    print("\n".join(comparison))
    missing = [failure for failure in failures if "not installed" not in failure]
    return 2 if missing else 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main())
