"""Writes model files of random weights. Needs numpy alone, so that a machine without the gguf package
can write what it measures.

Blocks are drawn as they are stored: random codes under scales of one magnitude and random sign, in
place of normal values that are quantised afterwards. That is many times faster, and a model of them
runs as fast as any other: a kernel reads as many bytes, multiplies as often and branches the same
whatever the codes are. (What a chip draws depends on the bits that toggle. Random codes are the
worst case of that, and codes of quantised weights are close to it.) Each weight has mean 0 and
variance 1 / inputs and norms are 1, so that activations stay near 1 at any depth.

The file is written from front to back, a few mebibytes at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from model_shape import Shape

ALIGNMENT = 32
BLOCK = 32  # values
CHUNK_VALUES = 1 << 22  # drawn at a time, a multiple of BLOCK

VALUE_TYPES = {"u32": 4, "f32": 6, "str": 8}  # of GGUF's metadata
TENSOR_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 8}
BLOCK_BYTES = {"f32": 4 * BLOCK, "f16": 2 * BLOCK, "q4_0": 18, "q4_1": 20, "q8_0": 34}

# Standard deviations of uniform codes: of 0 … 15 around their mean and around 8, of -128 … 127
# around 0.
CODES_AROUND_MEAN, CODES_AROUND_8, BYTES_AROUND_0 = 21.25 ** 0.5, 21.5 ** 0.5, 5461.5 ** 0.5


@dataclass(frozen=True)
class Tensor:
    name: str
    dims: tuple[int, ...]  # in GGUF's order: inputs first
    kind: str  # of TENSOR_TYPES
    sigma: float = 0.0  # 0: all ones

    @property
    def values(self) -> int:
        return int(np.prod(self.dims))

    @property
    def bytes(self) -> int:
        return self.values * BLOCK_BYTES[self.kind] // BLOCK


def embedding_kind(kind: str) -> str:
    """Of the embedding and the head, in a file whose other matrices are of `kind`."""
    return "f16" if kind == "f16" else "q8_0"


def tensors_of(shape: Shape, kind: str) -> list[Tensor]:
    d = shape.d_model
    embedding = embedding_kind(kind)
    tensors = [Tensor("token_embd.weight", (d, shape.vocab), embedding, 1.0)]
    if not shape.tied:
        tensors.append(Tensor("output.weight", (d, shape.vocab), embedding, d ** -0.5))
    norm = "loop_norm" if shape.loop_norm else "output_norm"
    tensors.append(Tensor(f"{norm}.weight", (d,), "f32"))
    if shape.exit_gate:
        tensors.append(Tensor("exit_gate.weight", (d, 1), "f32", d ** -0.5))
        tensors.append(Tensor("exit_gate.bias", (1,), "f32", 1.0))
    for index in range(shape.blocks):
        for name in shape.layer_norms():
            tensors.append(Tensor(f"blk.{index}.{name}.weight", (d,), "f32"))
        for name, (rows, cols) in shape.matrices().items():
            tensors.append(Tensor(f"blk.{index}.{name}.weight", (cols, rows), kind, cols ** -0.5))
    return tensors


def uniform(source: np.random.Generator, count: int, sigma: float) -> np.ndarray:
    """Values of mean 0: 2^16 even steps, of which FP16 keeps what it can."""
    steps = np.frombuffer(source.bytes(2 * count), "<i2").astype(np.float32)
    return (steps + np.float32(0.5)) * np.float32(sigma * 3 ** 0.5 / 32768)


def signs(source: np.random.Generator, count: int) -> np.ndarray:
    return source.integers(0, 2, count, dtype=np.int8) * 2 - 1


def draw(source: np.random.Generator, kind: str, count: int, sigma: float) -> bytes:
    """`count` values, a multiple of BLOCK unless they are f32 or f16, as the file stores them."""
    if kind == "f32":
        return uniform(source, count, sigma).astype("<f4").tobytes()
    if kind == "f16":
        return uniform(source, count, sigma).astype("<f2").tobytes()
    blocks = count // BLOCK
    code_bytes = BLOCK if kind == "q8_0" else BLOCK // 2
    codes = np.frombuffer(source.bytes(blocks * code_bytes), "u1").reshape(blocks, code_bytes)
    deviation = {"q8_0": BYTES_AROUND_0, "q4_0": CODES_AROUND_8, "q4_1": CODES_AROUND_MEAN}[kind]
    scales = signs(source, blocks) * np.float32(sigma / deviation)
    header = [("scale", "<f2")] + ([("minimum", "<f2")] if kind == "q4_1" else [])
    packed = np.empty(blocks, np.dtype([*header, ("codes", "u1", (code_bytes,))]))
    packed["scale"] = scales
    if kind == "q4_1":
        packed["minimum"] = -7.5 * scales
    packed["codes"] = codes
    return packed.tobytes()


def contents(source: np.random.Generator, tensor: Tensor) -> Iterator[bytes]:
    if tensor.sigma == 0:
        yield np.ones(tensor.values, "<f4").tobytes()
        return
    for begin in range(0, tensor.values, CHUNK_VALUES):
        count = min(CHUNK_VALUES, tensor.values - begin)
        yield draw(source, tensor.kind, count, tensor.sigma)


# ---- the file ----------------------------------------------------------------------------------


def packed_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def packed_entry(key: str, kind: str, value: object) -> bytes:
    data = packed_text(value) if kind == "str" else struct.pack("<I" if kind == "u32" else "<f", value)
    return packed_text(key) + struct.pack("<I", VALUE_TYPES[kind]) + data


def aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def header(shape: Shape, tensors: list[Tensor]) -> bytes:
    entries = [("general.architecture", "str", "tinyloop"), *shape.metadata("tinyloop")]
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(entries))]
    parts += [packed_entry(*entry) for entry in entries]
    offset = 0
    for tensor in tensors:
        parts += [packed_text(tensor.name), struct.pack("<I", len(tensor.dims)),
                  struct.pack(f"<{len(tensor.dims)}Q", *tensor.dims),
                  struct.pack("<IQ", TENSOR_TYPES[tensor.kind], offset)]
        offset = aligned(offset + tensor.bytes)
    return b"".join(parts)


def pad(file: BinaryIO) -> None:
    file.write(bytes(aligned(file.tell()) - file.tell()))


def write(path: Path, shape: Shape, kind: str, seed: int) -> None:
    """The same bytes for the same shape, kind and seed. `kind`: f16, q4_0, q4_1 or q8_0."""
    source = np.random.Generator(np.random.SFC64(seed))
    tensors = tensors_of(shape, kind)
    with open(path, "wb") as file:
        file.write(header(shape, tensors))
        for tensor in tensors:
            pad(file)
            for part in contents(source, tensor):
                file.write(part)
        pad(file)
