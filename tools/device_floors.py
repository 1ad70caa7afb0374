"""What a device cannot go below: the bytes that a step has to read and the sums that it has to do."""

from __future__ import annotations

from dataclasses import dataclass

from model_shape import SHAPES, Shape
from random_model import BLOCK, BLOCK_BYTES, embedding_kind

KV_BYTES = 2  # FP16 or BF16


@dataclass(frozen=True)
class Device:
    name: str
    bandwidth: float = 0.0  # bytes a second; 0: not known
    flops: float = 0.0  # 16-bit tensor-core operations a second, dense; 0: not known


def bytes_per_weight(kind: str) -> float:
    """`kind` as in random_model, or bf16."""
    return BLOCK_BYTES["f16" if kind == "bf16" else kind] / BLOCK


def head_bytes(shape: Shape, kind: str) -> float:
    head = "bf16" if kind == "bf16" else embedding_kind(kind)
    return shape.vocab * shape.d_model * bytes_per_weight(head)


def layers_bytes(shape: Shape, kind: str, loops: int) -> float:
    """Of the layers' matrices, the shared ones as often as they run."""
    return shape.executed_layers(loops) * shape.layer_weights() * bytes_per_weight(kind)


def kv_bytes(shape: Shape, loops: int) -> int:
    """Of one position."""
    return shape.executed_layers(loops) * 2 * shape.kv_heads * shape.head_dim * KV_BYTES


def decode_floor(shape: Shape, kind: str, loops: int, callers: int, context: int, gen: int,
                 device: Device) -> float | None:
    """Tokens a second when each step reads every weight that it uses once, and the K/V of all callers
    at the mean of their lengths, at the device's bandwidth; and not above what its arithmetic
    allows. None without a bandwidth."""
    if not device.bandwidth:
        return None
    positions = context + (gen + 1) / 2
    read = (layers_bytes(shape, kind, loops) + head_bytes(shape, kind)
            + callers * positions * kv_bytes(shape, loops))
    seconds = read / device.bandwidth
    if device.flops:
        weights = (shape.executed_layers(loops) * shape.layer_weights()
                   + shape.vocab * shape.d_model)
        seconds = max(seconds, 2 * weights * callers / device.flops)
    return callers / seconds


def prefill_floor(shape: Shape, loops: int, device: Device) -> float | None:
    """Tokens a second of a prompt's matrices alone; attention and the head are left out."""
    if not device.flops:
        return None
    return device.flops / (2 * shape.executed_layers(loops) * shape.layer_weights())


def floor_of(row: dict, device: Device) -> float | None:
    """Of a figure (device_bench.py). Serving has none: how much comes is not the device's doing."""
    shape = SHAPES[row["shape"]]
    if row["kind"] == "decode":
        return decode_floor(shape, row["weights"], row["loops"], row["callers"], row["context"],
                            row["gen_tokens"], device)
    if row["kind"] == "prefill":
        return prefill_floor(shape, row["loops"], device)
    return None
