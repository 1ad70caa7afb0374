#!/usr/bin/env python3
"""Writes model files for TinyLoop.

  convert.py pack   CONFIG.json SHARD.safetensors… -o OUT.gguf [--type q4_1] [--tokenizer tokenizer.json]
  convert.py unroll LOOPED.gguf -o OUT.gguf --loops N     the plain `llama` file of one depth
  convert.py random SHAPE -o OUT.gguf [--type q4_0]       random weights: tiny16, m409, loop24,
                                                          ouro14, ouro26

Needs the PyPI packages gguf, numpy and safetensors, `random` numpy alone. The file format is
docs/model-format.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import numpy as np

import random_model
from model_shape import SHAPES, Shape

try:
    import gguf
except ImportError:
    gguf = None  # random does without

MATRIX_TYPES = ("q4_1", "q4_0", "q8_0", "f16")
LAYER_MATRICES = {"wq": "attn_q", "wk": "attn_k", "wv": "attn_v", "wo": "attn_output",
                  "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
LAYER_NORMS = {"n1": "attn_norm", "n2": "ffn_norm"}


class InputError(Exception):
    """Something about the input that the message names."""


def write_metadata(writer: gguf.GGUFWriter, shape: Shape) -> None:
    add = {"u32": writer.add_uint32, "f32": writer.add_float32, "str": writer.add_string}
    for key, kind, value in shape.metadata(writer.arch):
        add[kind](key, value)


def write_tokenizer(writer: gguf.GGUFWriter, path: Path, vocab: int) -> None:
    """A byte-level BPE tokenizer.json of the `tokenizers` package, GPT-2's pre-tokenizer."""
    data = json.loads(path.read_text())
    model = data["model"]
    if model["type"] != "BPE" or data["pre_tokenizer"]["type"] != "ByteLevel":
        raise InputError(f"{path}: model {model['type']}, allowed: byte-level BPE")
    pieces = dict(model["vocab"])
    control = {}
    for added in data.get("added_tokens", []):
        pieces.setdefault(added["content"], added["id"])
        control[added["id"]] = added["special"]
    by_id = {index: piece for piece, index in pieces.items()}
    if sorted(by_id) != list(range(vocab)):
        raise InputError(f"{path}: {len(by_id)} tokens, expected ids 0 to {vocab - 1}")
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    kind = {None: gguf.TokenType.NORMAL, True: gguf.TokenType.CONTROL,
            False: gguf.TokenType.USER_DEFINED}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([by_id[i] for i in range(vocab)])
    writer.add_token_types([kind[control.get(i)] for i in range(vocab)])
    writer.add_token_merges(merges)
    end = pieces.get("<|endoftext|>")
    if end is not None:
        writer.add_bos_token_id(end)
        writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)


def add_matrix(writer: gguf.GGUFWriter, name: str, values: np.ndarray, kind: str) -> None:
    if kind == "f16":
        writer.add_tensor(name, values.astype(np.float16))
        return
    block_type = gguf.GGMLQuantizationType[kind.upper()]
    packed = gguf.quants.quantize(values.astype(np.float32), block_type)
    writer.add_tensor(name, packed, raw_dtype=block_type)


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- pack --------------------------------------------------------------------------------------


def read_shards(paths: list[Path]) -> dict[str, np.ndarray]:
    from safetensors import safe_open

    tensors: dict[str, np.ndarray] = {}
    for path in paths:
        with safe_open(path, "np") as shard:
            for name in shard.keys():
                if name in tensors:
                    raise InputError(f"{path}: tensor {name} is in an earlier shard too")
                tensors[name] = shard.get_tensor(name)
    return tensors


def shape_of_config(path: Path, name: str) -> Shape:
    config = json.loads(path.read_text())
    if config["rope_layout"] != "interleaved" or not config["tied"]:
        raise InputError(f"{path}: rope_layout {config['rope_layout']}, tied {config['tied']}; "
                         "allowed: interleaved, tied")
    return Shape(name, config["vocab"], config["d_model"], config["n_head"], config["n_head_kv"],
                 config["head_dim"], config["ffn"], config["prelude"], config["block"],
                 config["coda"], config["context"], 4, 16, config["rms_eps"], config["rope_theta"])


def pack(args: argparse.Namespace) -> None:
    tensors = read_shards(args.shards)
    shape = shape_of_config(args.config, args.name)
    writer = gguf.GGUFWriter(args.output, "tinyloop")
    write_metadata(writer, shape)
    if args.tokenizer:
        write_tokenizer(writer, args.tokenizer, shape.vocab)
    kind = args.type
    add_matrix(writer, "token_embd.weight", tensors.pop("emb.weight"),
               random_model.embedding_kind(kind))
    writer.add_tensor("output_norm.weight", tensors.pop("nf").astype(np.float32))
    parts = [("pre", shape.prelude), ("blk", shape.shared), ("coda", shape.coda)]
    layers = [f"{part}.{i}" for part, count in parts for i in range(count)]
    for index, layer in enumerate(layers):
        for source, target in LAYER_NORMS.items():
            values = tensors.pop(f"{layer}.{source}").astype(np.float32)
            writer.add_tensor(f"blk.{index}.{target}.weight", values)
        for source, target in LAYER_MATRICES.items():
            values = tensors.pop(f"{layer}.{source}.weight")
            if values.shape != shape.matrices()[target]:
                raise InputError(f"tensor {layer}.{source}.weight: shape {values.shape}, "
                                 f"expected {shape.matrices()[target]}")
            add_matrix(writer, f"blk.{index}.{target}.weight", values, kind)
    if tensors:
        raise InputError(f"tensors without a place: {', '.join(sorted(tensors))}")
    finish(writer)


# ---- unroll ------------------------------------------------------------------------------------


def unroll(args: argparse.Namespace) -> None:
    """prelude + loops · shared + coda layers as a plain llama file; tensor bytes are copied."""
    reader = gguf.GGUFReader(args.input)

    def value(key: str):
        field = reader.get_field(f"tinyloop.{key}")
        if field is None:
            raise InputError(f"{args.input}: key tinyloop.{key} is missing")
        return field.contents()

    if value("loop.injection") != "none" or value("loop.initial_state") != "prelude":
        raise InputError(f"{args.input}: a llama file cannot say this injection or initial state")
    for tensor in reader.tensors:
        if re.search(r"loop_norm|post_norm|exit_gate", tensor.name):
            raise InputError(f"{args.input}: a llama file cannot say tensor {tensor.name}")
    shape = Shape(f"{reader.get_field('general.name').contents()}-x{args.loops}",
                  value("vocab_size"), value("embedding_length"), value("attention.head_count"),
                  value("attention.head_count_kv"), value("attention.key_length"),
                  value("feed_forward_length"), value("loop.prelude_layers"),
                  value("loop.shared_layers"), value("loop.coda_layers"), value("context_length"),
                  1, 1, value("attention.layer_norm_rms_epsilon"), value("rope.freq_base"))
    first, last = shape.prelude, shape.prelude + shape.shared
    order = [*range(first), *list(range(first, last)) * args.loops, *range(last, shape.blocks)]
    flat = Shape(**{**shape.__dict__, "prelude": 0, "shared": len(order), "coda": 0})
    writer = gguf.GGUFWriter(args.output, "llama")
    write_metadata(writer, flat)
    copy_tokenizer(reader, writer)
    layered: dict[int, list] = {}
    for tensor in reader.tensors:
        match = re.fullmatch(r"blk\.(\d+)\.(.+)", tensor.name)
        if match:
            layered.setdefault(int(match[1]), []).append((match[2], tensor))
        else:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    for index, source in enumerate(order):
        for rest, tensor in layered[source]:
            writer.add_tensor(f"blk.{index}.{rest}", tensor.data, raw_dtype=tensor.tensor_type)
    finish(writer)


def copy_tokenizer(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    for name, field in reader.fields.items():
        if not name.startswith("tokenizer."):
            continue
        kind = field.types[0]
        sub_type = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type)


# ---- random ------------------------------------------------------------------------------------


def random(args: argparse.Namespace) -> None:
    random_model.write(args.output, SHAPES[args.shape], args.type, args.seed)


# ---- command line ------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("pack", help="FP16 shards to a looped model file")
    command.add_argument("config", type=Path)
    command.add_argument("shards", type=Path, nargs="+")
    command.add_argument("--tokenizer", type=Path)
    command.add_argument("--name", default="tinyloop-tales-16m")
    command.add_argument("--type", choices=MATRIX_TYPES, default="q4_1")
    command.set_defaults(run=pack)
    command.add_argument("-o", "--output", type=Path, required=True)
    command = commands.add_parser("unroll", help="a looped file to a plain llama file")
    command.add_argument("input", type=Path)
    command.add_argument("--loops", type=int, required=True)
    command.set_defaults(run=unroll)
    command.add_argument("-o", "--output", type=Path, required=True)
    command = commands.add_parser("random", help="random weights of a named shape")
    command.add_argument("shape", choices=SHAPES)
    command.add_argument("--type", choices=MATRIX_TYPES, default="q4_0")
    command.add_argument("--seed", type=int, default=1)
    command.set_defaults(run=random)
    command.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    try:
        if gguf is None and args.run is not random:
            raise InputError("the PyPI package gguf is missing")
        args.run(args)
    except (InputError, OSError, KeyError) as error:
        print(f"convert: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
