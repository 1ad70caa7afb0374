"""tools/device_bench.py and what it is made of: floors, tables, the comparison, and a run with a
program in the place of `tinyloop`."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import device_bench  # noqa: E402
import device_floors  # noqa: E402
import device_report  # noqa: E402
from device_floors import Device  # noqa: E402
from model_shape import SHAPES  # noqa: E402

DEVICE = Device("d", bandwidth=4.49e12, flops=790e12)

# Prints a decode figure for each number of callers, at SPEED each; with SPEED 0 it hangs behind the
# first.
FAKE = """#!{python}
import json, sys, time
callers = sys.argv[sys.argv.index("--callers") + 1].split(",")
print(json.dumps({{"model": "m", "device": "d"}}), flush=True)
for n in map(int, callers):
    print(json.dumps({{"kind": "decode", "loops": 8, "callers": n, "context": 1900, "gen_tokens": 128,
                      "sampling": "greedy", "tokens_per_s": {speed} * n or 1}}), flush=True)
    time.sleep(0 if {speed} else 60)
"""


def figure(**changed: object) -> dict:
    return {"engine": "TinyLoop", "shape": "m409", "weights": "q4_0", "kind": "decode", "loops": 8,
            "callers": 8, "context": 512, "gen_tokens": 128, "sampling": "greedy",
            "tokens_per_s": 5000.0, "floor": 25000.0} | changed


def serving(**changed: object) -> dict:
    return figure(kind="serving", rate=60.0, requests=300, prompts="64", outputs="32",
                  asked_tokens_per_s=6100.0, first_token_us={"p50": 5000, "p99": 21000},
                  interval_us={"p50": 1500, "p99": 2500}, floor=None) | changed


class FloorTest(unittest.TestCase):
    def test_bytes_of_a_step(self) -> None:
        m409, ouro = SHAPES["m409"], SHAPES["ouro14"]
        layer = 2 * 2048 * 2048 + 2 * 512 * 2048 + 3 * 2048 * 6656
        self.assertEqual(device_floors.layers_bytes(m409, "q4_0", 8), 34 * layer * 18 / 32)
        self.assertEqual(device_floors.head_bytes(m409, "q4_0"), 49152 * 2048 * 34 / 32)
        self.assertEqual(device_floors.head_bytes(m409, "bf16"), 49152 * 2048 * 2)
        self.assertEqual(device_floors.kv_bytes(m409, 8), 34 * 2 * 8 * 64 * 2)
        self.assertEqual(device_floors.kv_bytes(ouro, 4), 786432)

    def test_decoding_is_bound_by_what_it_reads(self) -> None:
        def tokens_per_s(callers: int, device: Device) -> float:
            return device_floors.decode_floor(SHAPES["m409"], "q4_0", 8, callers, 512, 127, device)

        self.assertAlmostEqual(tokens_per_s(1, DEVICE), 3970, delta=20)
        self.assertAlmostEqual(tokens_per_s(8, DEVICE), 25500, delta=150)
        # Without K/V to speak of and with all callers in the world, the arithmetic decides.
        slow = Device("d", bandwidth=4.49e12, flops=1e12)
        weights = 34 * SHAPES["m409"].layer_weights() + 49152 * 2048
        self.assertAlmostEqual(tokens_per_s(64, slow), 1e12 / (2 * weights))
        self.assertIsNone(tokens_per_s(1, Device("d")))

    def test_prefill_is_bound_by_its_arithmetic(self) -> None:
        floor = device_floors.floor_of(figure(kind="prefill", shape="ouro14", loops=4), DEVICE)
        self.assertAlmostEqual(floor, 80100, delta=200)
        self.assertIsNone(device_floors.floor_of(serving(), DEVICE))
        self.assertIsNone(device_floors.floor_of(figure(kind="prefill"), Device("d")))


class ReportTest(unittest.TestCase):
    def test_a_fall_of_more_than_five_percent_is_named(self) -> None:
        before = [figure(), figure(callers=1, tokens_per_s=1000.0), figure(callers=64)]
        now = [figure(tokens_per_s=4749.0), figure(callers=1, tokens_per_s=951.0),
               figure(callers=32, tokens_per_s=1.0)]
        lines = device_report.falls(before, now)
        self.assertEqual(len(lines), 1)
        self.assertIn("callers 8", lines[0])
        self.assertIn("4,749 tokens/s, was 5,000 (-5.0 %)", lines[0])
        self.assertEqual(device_report.falls(now, before), [])

    def test_figures_of_other_places_are_not_compared(self) -> None:
        for other in (figure(sampling="temperature=0.8"), figure(engine="PyTorch"),
                      figure(weights="f16"), figure(context=1900), figure(loops=4), serving()):
            self.assertNotEqual(device_report.key_of(other), device_report.key_of(figure()))
            self.assertEqual(device_report.falls([other | {"tokens_per_s": 1e9}], [figure()]), [])

    def test_tables_have_a_row_for_each_way_to_sample(self) -> None:
        figures = [figure(), figure(callers=64, tokens_per_s=22000.0),
                   figure(sampling="top-k=40", tokens_per_s=4000.0),
                   figure(engine="PyTorch", weights="bf16", tokens_per_s=900.0, floor=None),
                   figure(kind="prefill", prompts=1, prompt_tokens=2048, tokens_per_s=98000.0),
                   serving()]
        text = device_report.report(["head"], figures, ["compared"], ["torch: missing"])
        lines = text.splitlines()
        self.assertIn("## m409, 8 loops: 128 new tokens behind 512", lines)
        self.assertIn("| tokens/s | 8 callers | 64 callers |", lines)
        self.assertIn("| TinyLoop q4_0, greedy | 5,000 | 22,000 |", lines)
        self.assertIn("| TinyLoop q4_0, top-k=40 | 4,000 (0.80) |  |", lines)
        self.assertIn("| floor of TinyLoop q4_0 | 25,000 | 25,000 |", lines)
        self.assertIn("| PyTorch bf16, greedy | 900 |  |", lines)
        self.assertIn("| m409 q4_0 | TinyLoop | 8 | 1 | 2048 | 98,000 | 25,000 |", lines)
        self.assertIn("first token 5.0, 21.0 ms, interval 1.50, 2.50 ms", text)
        self.assertIn("- torch: missing", lines)
        for f in figures:
            self.assertIn("tokens/s", device_report.row_of(f))


class PartsTest(unittest.TestCase):
    def test_a_name_stands_for_those_that_begin_with_it(self) -> None:
        all_parts = device_bench.parts({"m409": "60", "ouro14": "15"}, 10)

        def names(*asked: str) -> list[str]:
            return [part.name for part in device_bench.chosen(all_parts, list(asked))]

        self.assertEqual(len(names()), len(all_parts))
        self.assertEqual(names("m409"), ["m409", "m409-long", "m409-prefill", "m409-serving"])
        self.assertEqual(names("torch-m409", "ouro14-q4-prefill"),
                         ["ouro14-q4-prefill", "torch-m409", "torch-m409-long"])
        with self.assertRaises(SystemExit):
            names("m40")

    def test_a_program_at_its_limit_keeps_what_it_has_said(self) -> None:
        got = []
        with self.assertRaisesRegex(RuntimeError, "ended after 1 s"):
            for row in device_bench.lines_of(
                    [sys.executable, "-c", "import time; print('{\"a\": 1}', flush=True); "
                     "time.sleep(60)"], 1):
                got.append(row)
        self.assertEqual(got, [{"a": 1}])
        with self.assertRaisesRegex(RuntimeError, "exit code 3"):
            list(device_bench.lines_of([sys.executable, "-c", "exit(3)"], 60))


class RunTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "m409-q4_0.gguf").touch()  # there already

    def run_with(self, speed: float, *more: str) -> subprocess.CompletedProcess:
        cli = self.folder / "tinyloop"
        cli.write_text(FAKE.format(python=sys.executable, speed=speed))
        cli.chmod(0o755)
        return subprocess.run(
            [sys.executable, ROOT / "tools" / "device_bench.py", "--cli", cli, "--models",
             self.folder, "--parts", "m409-long", "--callers", "1,8", "--name", "d", "--bandwidth",
             "4.5", "--tflops", "790", "-o", self.folder / "2026-01-02-device-table.json", *more],
            capture_output=True, text=True, check=False)

    def test_a_run_compares_itself_with_the_last_one(self) -> None:
        first = self.run_with(1000)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("There is no earlier table.", first.stdout)
        self.assertIn("callers 8: 8,000 tokens/s", first.stdout)
        raw = json.loads((self.folder / "2026-01-02-device-table.json").read_text())
        self.assertEqual([f["tokens_per_s"] for f in raw["figures"]], [1000, 8000])
        self.assertGreater(raw["figures"][0]["floor"], 3000)
        self.assertIn("| TinyLoop q4_0, greedy | 1,000 | 8,000 |",
                      (self.folder / "2026-01-02-device-table.md").read_text())
        second = self.run_with(900)
        self.assertEqual(second.returncode, 1, second.stderr)
        self.assertIn("2 figures are also in 2026-01-02-device-table.json; 2 of them", second.stdout)
        self.assertEqual(self.run_with(900).returncode, 0)
        other = self.run_with(1, "--name", "another")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertIn("is of another device, d.", other.stdout)

    def test_a_part_that_is_cut_short_is_named(self) -> None:
        result = self.run_with(0, "--limit", "2")
        self.assertEqual(result.returncode, 2)
        self.assertIn("- m409-long: ended after 2 s",
                      (self.folder / "2026-01-02-device-table.md").read_text())
        self.assertIn("callers 1: 1.0 tokens/s", result.stdout)


@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
class TorchTest(unittest.TestCase):
    def test_decoding_agrees_with_prefill(self) -> None:
        result = subprocess.run(
            [sys.executable, ROOT / "tools" / "peer_torch.py", "tiny16", "--loops", "2", "--check",
             "--device", "cpu"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
