"""tools/convert.py: what it writes, read back with the gguf package."""

import dataclasses
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import random_model  # noqa: E402
from model_shape import SHAPES  # noqa: E402

CONVERT = ROOT / "tools" / "convert.py"
DEMO = ROOT / "models" / "tinyloop-tales-16m-q4_1.gguf"

CONFIG = {"vocab": 96, "d_model": 64, "n_head": 4, "n_head_kv": 2, "head_dim": 16, "ffn": 128,
          "prelude": 1, "block": 2, "coda": 1, "rope_layout": "interleaved", "tied": True,
          "context": 128, "rms_eps": 1e-5, "rope_theta": 10000.0}
MATRICES = {"wq": (64, 64), "wk": (32, 64), "wv": (32, 64), "wo": (64, 64), "gate": (128, 64),
            "up": (128, 64), "down": (64, 128)}


def run(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, CONVERT, *map(str, arguments)], text=True,
                          capture_output=True, check=False)


def tensors(path: Path) -> dict[str, gguf.ReaderTensor]:
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


def values(tensor: gguf.ReaderTensor) -> np.ndarray:
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type)


class ConvertTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.config = self.folder / "config.json"
        self.config.write_text(json.dumps(CONFIG))

    def shards(self) -> dict[str, np.ndarray]:
        source = np.random.default_rng(7)
        weights = {"emb.weight": (96, 64), "nf": (64,)}
        for layer in ("pre.0", "blk.0", "blk.1", "coda.0"):
            weights |= {f"{layer}.n1": (64,), f"{layer}.n2": (64,)}
            weights |= {f"{layer}.{name}.weight": shape for name, shape in MATRICES.items()}
        drawn = {name: source.standard_normal(shape).astype(np.float16)
                 for name, shape in weights.items()}
        names = sorted(drawn)
        for index, part in enumerate((names[::2], names[1::2])):
            save_file({name: drawn[name] for name in part}, self.folder / f"w{index}.safetensors")
        return drawn

    def pack(self, kind: str) -> Path:
        out = self.folder / f"{kind}.gguf"
        result = run("pack", self.config, self.folder / "w0.safetensors",
                     self.folder / "w1.safetensors", "--type", kind, "-o", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out

    def test_every_type_holds_the_shards_values(self) -> None:
        drawn = self.shards()
        # Half a step of the widest block: 16-level codes over some 6 standard deviations, and so on.
        for kind, bound in (("f16", 0.0), ("q8_0", 0.03), ("q4_1", 0.3), ("q4_0", 0.5)):
            packed = tensors(self.pack(kind))
            self.assertEqual(len(packed), 2 + 4 * 9)
            for index, layer in enumerate(("pre.0", "blk.0", "blk.1", "coda.0")):
                for short, name in (("wq", "attn_q"), ("down", "ffn_down")):
                    difference = np.abs(values(packed[f"blk.{index}.{name}.weight"]) -
                                        drawn[f"{layer}.{short}.weight"].astype(np.float32))
                    self.assertLessEqual(difference.max(), bound, (kind, layer, name))
                norm = values(packed[f"blk.{index}.attn_norm.weight"])
                np.testing.assert_array_equal(norm, drawn[f"{layer}.n1"].astype(np.float32))

    def test_a_tensor_too_many_is_named(self) -> None:
        self.shards()
        save_file({"blk.0.bias": np.zeros(4, np.float16)}, self.folder / "w2.safetensors")
        result = run("pack", self.config, *sorted(self.folder.glob("*.safetensors")),
                     "-o", self.folder / "x.gguf")
        self.assertEqual(result.returncode, 2)
        self.assertIn("blk.0.bias", result.stderr)

    def test_unrolled_layers_are_the_looped_ones(self) -> None:
        out = self.folder / "x3.gguf"
        self.assertEqual(run("unroll", DEMO, "--loops", 3, "-o", out).returncode, 0)
        looped, flat = tensors(DEMO), tensors(out)
        order = [0, 1, 2, 1, 2, 1, 2, 3]
        self.assertEqual(len(flat), 2 + 9 * len(order))
        for index, source in enumerate(order):
            for name in ("attn_norm", "attn_q", "ffn_down"):
                here, there = flat[f"blk.{index}.{name}.weight"], looped[f"blk.{source}.{name}.weight"]
                self.assertEqual(here.tensor_type, there.tensor_type)
                np.testing.assert_array_equal(here.data, there.data)
        reader = gguf.GGUFReader(out)
        self.assertEqual(reader.get_field("llama.block_count").contents(), len(order))
        tokens = gguf.GGUFReader(DEMO).get_field("tokenizer.ggml.tokens").contents()
        self.assertEqual(reader.get_field("tokenizer.ggml.tokens").contents(), tokens)

    def test_random_weights_depend_on_the_seed_alone(self) -> None:
        files = []
        for index, seed in enumerate((1, 1, 2)):
            files.append(self.folder / f"r{index}.gguf")
            self.assertEqual(
                run("random", "tiny16", "--seed", seed, "-o", files[-1]).returncode, 0)
        self.assertEqual(files[0].read_bytes(), files[1].read_bytes())
        self.assertNotEqual(files[0].read_bytes(), files[2].read_bytes())

    def test_random_weights_have_the_deviation_of_their_inputs(self) -> None:
        for kind, blocks in (("q4_0", "Q4_0"), ("q4_1", "Q4_1"), ("q8_0", "Q8_0"), ("f16", "F16")):
            out = self.folder / f"{kind}.gguf"
            self.assertEqual(run("random", "tiny16", "--type", kind, "-o", out).returncode, 0)
            written = tensors(out)
            for name, inputs in (("attn_q", 512), ("ffn_down", 1408)):
                tensor = written[f"blk.2.{name}.weight"]
                self.assertEqual(tensor.tensor_type.name, blocks)
                drawn = values(tensor).astype(np.float32) * inputs ** 0.5
                self.assertAlmostEqual(float(drawn.std()), 1.0, delta=0.02)
                self.assertAlmostEqual(float(drawn.mean()), 0.0, delta=0.02)
            self.assertAlmostEqual(float(values(written["token_embd.weight"]).std()), 1.0, delta=0.02)
            np.testing.assert_array_equal(values(written["blk.0.attn_norm.weight"]), np.ones(512))

    def test_ouro_files_have_the_familys_parts(self) -> None:
        for name, layers, weights in (("ouro14", 24, 1_434_652_673), ("ouro26", 48, 2_667_974_657)):
            shape = SHAPES[name]
            self.assertEqual((shape.prelude, shape.shared, shape.coda), (0, layers, 0))
            self.assertEqual(sum(t.values for t in random_model.tensors_of(shape, "q4_0")), weights)
        small = dataclasses.replace(SHAPES["ouro14"], vocab=96, d_model=64, ffn=96, heads=2,
                                    kv_heads=2, head_dim=32, shared=2)
        out = self.folder / "ouro.gguf"
        random_model.write(out, small, "q4_0", 1)
        reader = gguf.GGUFReader(out)
        written = {tensor.name: tensor for tensor in reader.tensors}
        self.assertEqual(set(written), {
            "token_embd.weight", "output.weight", "loop_norm.weight", "exit_gate.weight",
            "exit_gate.bias", *(f"blk.{i}.{part}.weight" for i in range(2) for part in (
                "attn_norm", "attn_post_norm", "ffn_norm", "ffn_post_norm", *small.matrices()))})
        self.assertEqual(list(written["blk.1.ffn_down.weight"].shape), [96, 64])
        for key, value in (("loop.exit", "gate"), ("loop.default_iterations", 4),
                           ("rope.freq_base", 1e6), ("attention.head_count_kv", 2)):
            self.assertEqual(reader.get_field(f"tinyloop.{key}").contents(), value)
        result = run("unroll", out, "--loops", 2, "-o", self.folder / "flat.gguf")
        self.assertEqual(result.returncode, 2)
        self.assertIn("loop_norm.weight", result.stderr)

    def test_random_needs_no_gguf_package(self) -> None:
        blocked = "import sys, runpy; sys.modules['gguf'] = None; sys.argv = sys.argv[1:]; " \
                  "sys.path.insert(0, sys.argv[0].rsplit('/', 1)[0]); " \
                  "runpy.run_path(sys.argv[0], run_name='__main__')"
        for arguments, code in ((["random", "tiny16"], 0), (["unroll", DEMO, "--loops", "2"], 2)):
            result = subprocess.run(
                [sys.executable, "-c", blocked, str(CONVERT), *map(str, arguments), "-o",
                 str(self.folder / "x.gguf")], text=True, capture_output=True, check=False)
            self.assertEqual(result.returncode, code, result.stderr)


if __name__ == "__main__":
    unittest.main()
