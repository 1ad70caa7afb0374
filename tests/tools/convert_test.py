"""tools/convert.py: what it writes, read back with the gguf package."""

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


if __name__ == "__main__":
    unittest.main()
