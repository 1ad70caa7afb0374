#!/usr/bin/env python3
"""Measures TinyLoop and llama.cpp's CPU build side by side, on the same weights.

TinyLoop runs a looped file of random weights, llama.cpp the same tensors unrolled to as many layers
as the loops make. Measurements alternate; one during which other processes took too much of the
CPU is thrown away and repeated. Prints a Markdown report; docs/benchmarks.md explains it.
scripts/bench-peer.sh builds what this needs and runs it.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import quiet_machine
from model_shape import SHAPES, Shape

ROOT = Path(__file__).resolve().parent.parent
CONVERTER = ROOT / "tools" / "convert.py"
RANDOM_MODEL = ROOT / "tools" / "random_model.py"
PEER = ROOT / "tools" / "peer_llama.py"
BUILT_CLI = ROOT / "build" / "cpu-release" / "examples" / "cli" / "tinyloop"
DEMO = ROOT / "models" / "tinyloop-tales-16m-q4_1.gguf"
OPENING = [4172, 690, 259, 552, 468, 1792, 259, 1490, 463, 336]  # "Once upon a time …"
ENGINES = ("TinyLoop", "llama.cpp")
RUN_TIMEOUT_S = 120
PREFILL_BUDGET = 640  # a prompt of 512 tokens is one slice, as in the peer


class BenchError(Exception):
    """Something that stops the whole comparison."""


@dataclass(frozen=True)
class Figure:
    name: str
    threads: int
    batch: int = 1
    prompt: int = 0  # tokens of the prompt that is timed; 0: decode is
    gen: int = 0  # new tokens timed for each sequence
    decode_prompt: int = 32  # tokens before them

    @property
    def kind(self) -> str:
        return "prefill" if self.prompt else "decode"

    @property
    def context(self) -> str:
        first, last = (1, self.prompt) if self.prompt else (
            self.decode_prompt + 1, self.decode_prompt + self.gen)
        return f"{first}–{last}"

    def options(self) -> list[str]:
        return [f"--threads={self.threads}", f"--callers={self.batch}",
                f"--prompt-tokens={self.prompt}", f"--gen-tokens={self.gen}",
                f"--contexts={self.decode_prompt}"]


def figures(threads: int) -> list[Figure]:
    list_ = [Figure("prefill of 512", threads, prompt=512),
             Figure("decode", threads, gen=64, decode_prompt=64),
             Figure("decode, batch 16", threads, batch=16, gen=32)]
    if threads > 1:
        list_.append(Figure("decode", 1, gen=64, decode_prompt=64))
    return list_


@dataclass
class Measurement:
    type: str
    figure: str
    threads: int
    engine: str
    round: int
    kept: bool
    tokens_per_s: float
    times_us: list[float]
    wall_s: float
    own_cpu_s: float
    foreign_share: float


# ---- the work and its floor ----------------------------------------------------------------------


def layers_run(shape: Shape, loops: int) -> int:
    return shape.prelude + shape.shared * loops + shape.coda


def layer_macs(shape: Shape, loops: int) -> int:
    """Multiply-adds of all layers' matrices for one token."""
    return layers_run(shape, loops) * sum(rows * cols for rows, cols in shape.matrices().values())


def head_macs(shape: Shape) -> int:
    return shape.vocab * shape.d_model


def figure_macs(figure: Figure, shape: Shape, loops: int) -> int:
    """For all tokens timed. Prefill needs the head once; attention is left out."""
    if figure.prompt:
        return figure.prompt * layer_macs(shape, loops) + head_macs(shape)
    return figure.batch * figure.gen * (layer_macs(shape, loops) + head_macs(shape))


def attention_macs(figure: Figure, shape: Shape, loops: int) -> float:
    """Multiply-adds of q·k and p·v for one token, on average over the positions timed."""
    first = 1 if figure.prompt else figure.decode_prompt + 1
    last = figure.prompt or figure.decode_prompt + figure.gen
    return layers_run(shape, loops) * 2 * shape.heads * shape.head_dim * (first + last) / 2


def floor_tokens_per_s(figure: Figure, shape: Shape, loops: int, macs_per_s: float) -> float:
    tokens = figure.prompt or figure.batch * figure.gen
    return tokens * macs_per_s * figure.threads / figure_macs(figure, shape, loops)


# ---- files and engines ---------------------------------------------------------------------------


def run(command: list, timeout_s: float | None = None) -> subprocess.CompletedProcess:
    words = [str(word) for word in command]
    result = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s)
    if result.returncode != 0:
        raise BenchError(f"{' '.join(words)}: exit code {result.returncode}\n"
                         f"{result.stderr[-2000:]}")
    return result


def make(path: Path, source: Path, *words) -> Path:
    """Writes `path` with tools/convert.py unless it is there and younger than that and `source`."""
    youngest = max(file.stat().st_mtime for file in (CONVERTER, source))
    if not path.exists() or path.stat().st_mtime < youngest:
        part = path.with_suffix(".part")
        run([sys.executable, CONVERTER, *words, "-o", part])
        part.rename(path)
    return path


def random_model(folder: Path, shape: str, kind: str, seed: int) -> Path:
    return make(folder / f"{shape}-{kind}-seed{seed}.gguf", RANDOM_MODEL,
                "random", shape, "--type", kind, "--seed", seed)


def unrolled(looped: Path, folder: Path, loops: int) -> Path:
    return make(folder / f"{looped.stem}-x{loops}.gguf", looped,
                "unroll", looped, "--loops", loops)


@dataclass(frozen=True)
class Pair:
    """The same weights for both engines, and how to start them."""
    cli: Path
    mode: str
    loops: int
    looped: Path
    twin: Path

    def command(self, engine: str, figure: Figure, repeat: int) -> list:
        if engine == "llama.cpp":
            return [sys.executable, PEER, "bench", self.twin,
                    f"--repeat={repeat}", *figure.options()]
        return [self.cli, "bench", "-m", self.looped, "--mode", self.mode, "--loops", self.loops,
                "--prefill-budget", PREFILL_BUDGET, "--repeat", repeat, "--json", *figure.options()]

    def times(self, engine: str, figure: Figure, repeat: int) -> dict:
        """Throws subprocess.TimeoutExpired: spinning threads crawl when a core is taken away."""
        lines = run(self.command(engine, figure, repeat), RUN_TIMEOUT_S).stdout.splitlines()
        return json.loads(lines[-1])  # TinyLoop's first one says what was measured on


# ---- agreement -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    model: str
    tokens: int
    same_first: int  # greedy tokens until the first that differs
    same_choice: int  # positions of TinyLoop's text at which both would choose the same
    worst: float  # largest difference of the chosen token's log-probability
    mean: float


def agreement(pair: Pair, threads: int, tokens: int) -> Agreement:
    prompt = ",".join(map(str, OPENING))
    result = json.loads(run(
        [pair.cli, "generate", "-m", pair.looped, "--mode", pair.mode, "--loops", pair.loops,
         "--threads", threads, "--tokens", prompt, "--max-tokens", tokens, "--ignore-eos",
         "--logprobs", 0, "--json"]).stdout)
    text = result["tokens"]
    ours = [position["logprob"] for position in result["logprobs"]]
    peer = json.loads(run(
        [sys.executable, PEER, "score", pair.twin, "--threads", threads,
         "--tokens", ",".join(map(str, OPENING + text)), "--prompt", len(OPENING)]).stdout)
    same = [a == b for a, b in zip(text, peer["choices"], strict=True)]
    gaps = [abs(a - b) for a, b in zip(ours, peer["logprobs"], strict=True)]
    return Agreement(pair.looped.name, len(text), [*same, False].index(False), sum(same),
                     max(gaps), statistics.fmean(gaps))


def agrees(result: Agreement) -> bool:
    """Rounding may part two greedy texts at a near tie; a wrong equation moves every logit."""
    alike = result.same_choice * 4 >= result.tokens * 3
    return result.same_first >= 1 and alike and result.mean < 0.1


# ---- rounds --------------------------------------------------------------------------------------


class Rounds:
    """Measures pairs in turn and keeps what was undisturbed."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.record: list[Measurement] = []

    def run(self, kind: str, pair: Pair, figure: Figure, round_: int) -> None:
        """Whichever engine goes first changes from round to round."""
        for engine in ENGINES if round_ % 2 == 0 else reversed(ENGINES):
            what = f"round {round_ + 1} {kind} {figure.name}, {figure.threads} thread(s), {engine}"
            for _ in range(self.args.attempts):
                if not quiet_machine.wait_until_quiet(self.args.foreign, self.args.patience):
                    print(f"{what}: no quiet moment", file=sys.stderr)
                    continue
                measured = self.measure(kind, pair, figure, engine, round_)
                self.record.append(measured)
                state = "" if measured.kept else f", others: {measured.foreign_share:.0%}"
                print(f"{what}: {measured.tokens_per_s:.0f} tok/s{state}", file=sys.stderr)
                if measured.kept:
                    break

    def measure(self, kind, pair, figure, engine, round_) -> Measurement:
        meter = quiet_machine.LoadMeter()
        times, speed = [], 0.0
        try:
            runs = pair.times(engine, figure, self.args.repeat)
            times = runs["times_us"]
            speed = runs["tokens"] * 1e6 / statistics.median(times)
        except subprocess.TimeoutExpired:
            pass
        load = meter.read()
        kept = bool(times) and load.foreign_share <= self.args.foreign
        return Measurement(kind, figure.name, figure.threads, engine, round_, kept, speed, times,
                           load.wall_s, load.own_cpu_s, load.foreign_share)

    def pairs(self, kind: str, figure: Figure) -> list[tuple[float, float]]:
        """(TinyLoop, llama.cpp) of the rounds in which both were kept."""
        kept: dict[int, dict[str, float]] = {}
        for m in self.record:
            if m.kept and (m.type, m.figure, m.threads) == (kind, figure.name, figure.threads):
                kept.setdefault(m.round, {})[m.engine] = m.tokens_per_s
        return [tuple(of[engine] for engine in ENGINES) for of in kept.values() if len(of) == 2]


# ---- report --------------------------------------------------------------------------------------


def heading() -> list[str]:
    words = " ".join(["scripts/bench-peer.sh", *sys.argv[1:]])
    return [f"# TinyLoop and llama.cpp on the CPU, {datetime.date.today()}", "", f"    {words}"]


def share(speed: float, floor: float) -> str:
    return f"{speed / floor:.0%}"


def figure_row(kind, figure: Figure, pairs, floor: float, attention_share: float) -> str:
    cells = [kind.upper(), figure.name, str(figure.threads), figure.context]
    if pairs:
        ours, peer = (statistics.median(column) for column in zip(*pairs))
        ratio = statistics.median(a / b for a, b in pairs)
        cells += [f"{ours:,.0f}", f"{peer:,.0f}", f"{ratio:.2f}", share(ours, floor),
                  share(peer, floor)]
    else:
        cells += ["–"] * 5
    return "| " + " | ".join(cells + [f"{floor:,.0f}", f"+{attention_share:.0%}",
                                      str(len(pairs))]) + " |"


def table(args, rounds: Rounds, shape: Shape, ghz: float) -> list[str]:
    lines = ["| weights | figure | threads | context | TinyLoop tok/s | llama.cpp tok/s | ratio "
             "| TinyLoop, of floor | llama.cpp, of floor | floor tok/s | attention | rounds |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for kind in args.types:
        for figure in figures(args.threads):
            floor = floor_tokens_per_s(figure, shape, args.loops, args.macs_per_cycle * ghz * 1e9)
            dense = figure_macs(figure, shape, args.loops) / (
                figure.prompt or figure.batch * figure.gen)
            lines.append(figure_row(kind, figure, rounds.pairs(kind, figure), floor,
                                    attention_macs(figure, shape, args.loops) / dense))
    return lines


def conditions(args, rounds: Rounds, shape: Shape, ghz: float) -> list[str]:
    peer = json.loads(run([sys.executable, PEER, "info"]).stdout)
    macs = layer_macs(shape, args.loops) + head_macs(shape)
    discarded = sum(not m.kept for m in rounds.record)
    return [
        f"- Machine: {cpu_name()}, {args.threads} threads, clock {ghz:.2f} GHz "
        f"({'measured' if args.ghz is None else 'given'}).",
        f"- TinyLoop: mode {args.mode}. llama.cpp: llama-cpp-python {peer['bindings']}; "
        f"{peer['system'].strip(' |')}.",
        f"- Model: random weights of shape {args.shape} at {args.loops} loops; llama.cpp runs the "
        f"same tensors as {layers_run(shape, args.loops)} layers. "
        f"{macs:,} multiply-adds a token, {head_macs(shape):,} of them in the head.",
        f"- Medians of rounds, a round being the median of {args.repeat} runs after one to warm "
        f"up. The ratio is the median of the rounds' own ratios. {discarded} of "
        f"{len(rounds.record)} measurements were discarded because others took more than "
        f"{args.foreign:.0%} of the CPU.",
        "- Prefill: one prompt, from its submission to its first token. Decode: tokens after the "
        "first, prompts not timed. TinyLoop's time includes sampling and scheduling, llama.cpp's "
        "is that of llama_decode and llama_synchronize alone.",
        f"- Floor: {args.macs_per_cycle} int8 multiply-adds a cycle and core, the matrices alone; "
        "what attention adds to them is given beside it.",
    ]


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def agreement_lines(results: list[Agreement]) -> list[str]:
    lines = ["| model | greedy tokens alike at first | same choice | log-probability, mean and "
             "largest difference | agree |", "|---|---|---|---|---|"]
    for r in results:
        lines.append(f"| {r.model} | {r.same_first} of {r.tokens} | {r.same_choice} of {r.tokens} "
                     f"| {r.mean:.4f}, {r.worst:.4f} | {'yes' if agrees(r) else 'NO'} |")
    return lines


# ---- command line --------------------------------------------------------------------------------


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--cli", type=Path, default=os.environ.get("TINYLOOP_CLI") or BUILT_CLI)
    add("--mode", default="int8", help="TinyLoop's arithmetic: int8, f32")
    add("--shape", choices=SHAPES, default="tiny16")
    add("--types", type=lambda text: text.split(","), default=["q4_0", "q4_1"])
    add("--loops", type=int, default=8)
    add("--threads", type=int, default=2)
    add("--rounds", type=int, default=7)
    add("--repeat", type=int, default=5, help="runs of a measurement")
    add("--foreign", type=float, default=0.06, help="part of the CPU that others may take")
    add("--attempts", type=int, default=10, help="of one measurement before it is given up")
    add("--patience", type=float, default=60, help="seconds to wait for a quiet moment")
    add("--macs-per-cycle", type=int, default=64, help="int8 multiply-adds a cycle and core")
    add("--ghz", type=float, help="the cores' clock; default: measured")
    add("--seed", type=int, default=1, help="of the random weights")
    add("--models", type=Path, default=ROOT / "build" / "bench-models")
    add("--record", type=Path, default=ROOT / "build" / "peer-bench.json",
        help="where every measurement goes")
    args = parser.parse_args()
    for name in ("loops", "threads", "rounds", "repeat", "attempts"):
        if getattr(args, name) < 1:
            parser.error(f"--{name}: {getattr(args, name)}, allowed: at least 1")
    if not 0 < args.foreign <= 1:
        parser.error(f"--foreign: {args.foreign}, allowed: above 0, at most 1")
    return args


def compare(args: argparse.Namespace) -> int:
    args.models.mkdir(parents=True, exist_ok=True)
    models = {kind: random_model(args.models, args.shape, kind, args.seed) for kind in args.types}
    pairs = {kind: Pair(args.cli, args.mode, args.loops, model,
                        unrolled(model, args.models, args.loops)) for kind, model in models.items()}
    demo = Pair(args.cli, args.mode, args.loops, DEMO, unrolled(DEMO, args.models, args.loops))
    agreements = [agreement(pair, args.threads, 32) for pair in [demo, *pairs.values()]]
    meter = None if args.ghz else quiet_machine.clock_meter(args.models, platform.machine())
    ghz = args.ghz or 0.0
    rounds = Rounds(args)
    for round_ in range(args.rounds):
        ghz = max(ghz, quiet_machine.clock_ghz(meter) if meter else 0.0)
        for kind, pair in pairs.items():
            for figure in figures(args.threads):
                rounds.run(kind, pair, figure, round_)
        save(args.record, rounds, agreements, ghz)
    shape = SHAPES[args.shape]
    print("\n".join([*heading(), "", *table(args, rounds, shape, ghz), "",
                     *agreement_lines(agreements), "", *conditions(args, rounds, shape, ghz)]))
    return verdict(args, rounds, agreements)


def save(path: Path, rounds: Rounds, agreements: list[Agreement], ghz: float) -> None:
    """After each round, so that a run that is cut short leaves what it has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"ghz": ghz, "agreement": [asdict(result) for result in agreements],
              "measurements": [asdict(measured) for measured in rounds.record]}
    path.write_text(json.dumps(record, indent=1) + "\n")


def verdict(args, rounds: Rounds, agreements: list[Agreement]) -> int:
    fewest = min(len(rounds.pairs(kind, figure))
                 for kind in args.types for figure in figures(args.threads))
    if fewest < args.rounds:
        print(f"peer_bench: a figure has {fewest} undisturbed rounds of {args.rounds}: others kept "
              "the CPU busy", file=sys.stderr)
    wrong = [result.model for result in agreements if not agrees(result)]
    if wrong:
        print(f"peer_bench: the engines disagree on {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong or fewest < args.rounds else 0


def main() -> int:
    try:
        return compare(parse())
    except (BenchError, OSError, subprocess.CalledProcessError) as error:
        print(f"peer_bench: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
