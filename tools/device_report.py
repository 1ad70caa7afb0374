"""Tables of what device_bench.py has measured, and the comparison with an earlier time.

A figure is a dict: `engine` (TinyLoop or PyTorch), `shape`, `weights` (q4_0, f16, bf16), `kind`
(decode, prefill or serving), what the kind is measured at, `tokens_per_s`, and `floor`, a number or
None.
"""

from __future__ import annotations

FALL = 0.05  # of the earlier figure: what is named
MEASURED_AT = {"decode": ("loops", "context", "gen_tokens", "sampling", "callers"),
               "prefill": ("loops", "prompts", "prompt_tokens"),
               "serving": ("loops", "rate", "requests", "sampling", "prompts", "outputs")}


def key_of(figure: dict) -> str:
    """The same for figures that can be compared."""
    places = ", ".join(f"{name} {figure[name]}" for name in MEASURED_AT[figure["kind"]])
    return f"{figure['engine']} {figure['shape']} {figure['weights']} {figure['kind']}: {places}"


def falls(before: list[dict], now: list[dict]) -> list[str]:
    """A line for each figure that has fallen by more than FALL; those of one side alone are none."""
    earlier = {key_of(figure): figure["tokens_per_s"] for figure in before}
    lines = []
    for figure in now:
        old, new = earlier.get(key_of(figure)), figure["tokens_per_s"]
        if old and new < (1 - FALL) * old:
            lines.append(f"{key_of(figure)}: {number(new)} tokens/s, was {number(old)} "
                         f"({100 * (new / old - 1):+.1f} %)")
    return lines


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def share(value: float, of: float | None) -> str:
    return f" ({value / of:.2f})" if of else ""


def line(cells: list) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def row_of(figure: dict) -> str:
    """One figure on a line of its own, as soon as it is there."""
    text = f"{key_of(figure)}: {number(figure['tokens_per_s'])} tokens/s"
    if figure["floor"]:
        text += f", {figure['tokens_per_s'] / figure['floor']:.2f} of the floor"
    if figure["kind"] == "serving":
        text += f"; {latencies(figure)}"
    return text


def latencies(figure: dict) -> str:
    first, interval = figure["first_token_us"], figure["interval_us"]
    return (f"first token {first['p50'] / 1e3:.1f}, {first['p99'] / 1e3:.1f} ms, "
            f"interval {interval['p50'] / 1e3:.2f}, {interval['p99'] / 1e3:.2f} ms (p50, p99)")


def decode_tables(figures: list[dict]) -> list[str]:
    """One for each model and context: a row for each way to sample, then the floor."""
    tables: dict[tuple, list[dict]] = {}
    for f in figures:
        if f["kind"] == "decode":
            place = tuple(f[name] for name in ("shape", "loops", "context", "gen_tokens"))
            tables.setdefault(place, []).append(f)
    lines = []
    for (shape, loops, context, gen), rows in tables.items():
        callers = sorted({row["callers"] for row in rows})
        lines += ["", f"## {shape}, {loops} loops: {gen} new tokens behind {context}", "",
                  line(["tokens/s", *(f"{n} callers" for n in callers)]),
                  line(["---"] * (1 + len(callers)))]
        kinds = dict.fromkeys((row["engine"], row["weights"]) for row in rows)
        for engine, weights in kinds:
            own = [r for r in rows if (r["engine"], r["weights"]) == (engine, weights)]
            lines += decode_rows(f"{engine} {weights}", own, callers)
    return lines


def decode_rows(title: str, rows: list[dict], callers: list[int]) -> list[str]:
    """Of one engine and type of weights. Beside a sampled figure stands its share of greedy."""
    found = {(row["sampling"], row["callers"]): row for row in rows}
    lines = []
    for sampling in dict.fromkeys(row["sampling"] for row in rows):
        cells = [f"{title}, {sampling}"]
        for n in callers:
            row, greedy = found.get((sampling, n)), found.get(("greedy", n))
            beside = greedy["tokens_per_s"] if greedy and sampling != "greedy" else None
            cells.append(number(row["tokens_per_s"]) + share(row["tokens_per_s"], beside)
                         if row else "")
        lines.append(line(cells))
    floors = {row["callers"]: row["floor"] for row in rows}
    return [*lines, line([f"floor of {title}", *(number(floors[n]) if n in floors else ""
                                                 for n in callers)])]


def prefill_table(figures: list[dict]) -> list[str]:
    rows = [f for f in figures if f["kind"] == "prefill"]
    if not rows:
        return []
    lines = ["", "## Prefill", "",
             line(["model", "engine", "loops", "prompts", "of tokens", "tokens/s", "floor"]),
             line(["---"] * 7)]
    for f in rows:
        lines.append(line([f"{f['shape']} {f['weights']}", f["engine"], f["loops"], f["prompts"],
                           f["prompt_tokens"], number(f["tokens_per_s"]), number(f["floor"])]))
    return lines


def serving_table(figures: list[dict]) -> list[str]:
    rows = [f for f in figures if f["kind"] == "serving"]
    if not rows:
        return []
    lines = ["", "## Serving: requests at random times", "",
             line(["model", "loops", "sampling", "requests/s", "prompts of", "outputs of",
                   "asked tokens/s", "tokens/s", "first token and interval"]),
             line(["---"] * 9)]
    for f in rows:
        lines.append(line([f"{f['shape']} {f['weights']}", f["loops"], f["sampling"],
                           number(f["rate"]), f["prompts"], f["outputs"],
                           number(f["asked_tokens_per_s"]), number(f["tokens_per_s"]),
                           latencies(f)]))
    return lines


def report(head: list[str], figures: list[dict], comparison: list[str], failures: list[str]) -> str:
    lines = ["# Device table", "", *head, *decode_tables(figures), *prefill_table(figures),
             *serving_table(figures), "", "## Beside the last table", "", *comparison]
    if failures:
        lines += ["", "## Not measured", "", *(f"- {failure}" for failure in failures)]
    return "\n".join(lines) + "\n"
