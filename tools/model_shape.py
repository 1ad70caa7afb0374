"""Shapes of looped models: what a model file says of them, and what each tensor is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

QUANTISATION_VERSION = 2  # of the block formats, as GGUF counts them


@dataclass(frozen=True)
class Shape:
    name: str
    vocab: int
    d_model: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    prelude: int
    shared: int
    coda: int
    context: int
    default_loops: int
    max_loops: int
    eps: float = 1e-5
    rope_base: float = 10000.0
    tied: bool = True  # the head is the embedding
    post_norms: bool = False  # on both branches of a layer
    loop_norm: bool = False  # behind each iteration, in place of the norm before the head
    exit_gate: bool = False

    @property
    def blocks(self) -> int:
        return self.prelude + self.shared + self.coda

    def executed_layers(self, loops: int) -> int:
        """Layers that a token passes through; each has K/V of its own."""
        return self.prelude + self.shared * loops + self.coda

    def matrices(self) -> dict[str, tuple[int, int]]:
        """[out, in] of each matrix of a layer."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        d, ffn = self.d_model, self.ffn
        return {"attn_q": (q, d), "attn_k": (kv, d), "attn_v": (kv, d), "attn_output": (d, q),
                "ffn_gate": (ffn, d), "ffn_up": (ffn, d), "ffn_down": (d, ffn)}

    def layer_weights(self) -> int:
        """Weights of a layer's matrices."""
        return sum(rows * cols for rows, cols in self.matrices().values())

    def layer_norms(self) -> list[str]:
        norms = ["attn_norm", "ffn_norm"]
        return norms + ["attn_post_norm", "ffn_post_norm"] if self.post_norms else norms

    def metadata(self, arch: str) -> Iterator[tuple[str, str, object]]:
        """Key, type (u32, f32 or str) and value, all but general.architecture; docs/model-format.md."""
        yield "general.name", "str", self.name
        yield "general.quantization_version", "u32", QUANTISATION_VERSION
        for key, value in (
                ("block_count", self.blocks), ("context_length", self.context),
                ("embedding_length", self.d_model), ("feed_forward_length", self.ffn),
                ("attention.head_count", self.heads), ("attention.head_count_kv", self.kv_heads),
                ("attention.key_length", self.head_dim), ("attention.value_length", self.head_dim),
                ("rope.dimension_count", self.head_dim), ("vocab_size", self.vocab)):
            yield f"{arch}.{key}", "u32", value
        yield f"{arch}.attention.layer_norm_rms_epsilon", "f32", self.eps
        yield f"{arch}.rope.freq_base", "f32", self.rope_base
        if arch != "tinyloop":
            return
        for key, value in (("prelude_layers", self.prelude), ("shared_layers", self.shared),
                           ("coda_layers", self.coda), ("default_iterations", self.default_loops),
                           ("max_iterations", self.max_loops)):
            yield f"{arch}.loop.{key}", "u32", value
        yield f"{arch}.loop.injection", "str", "none"
        yield f"{arch}.loop.initial_state", "str", "prelude"
        if self.exit_gate:
            yield f"{arch}.loop.exit", "str", "gate"


def ouro(name: str, layers: int) -> Shape:
    """A model of the Ouro family: all layers are shared, and the final norm ends each iteration."""
    return Shape(name, 49152, 2048, 16, 16, 128, 5632, 0, layers, 0, 65536, 4, 4, eps=1e-6,
                 rope_base=1e6, tied=False, post_norms=True, loop_norm=True, exit_gate=True)


SHAPES = {shape.name: shape for shape in (
    Shape("tiny16", 8192, 512, 8, 4, 64, 1408, 1, 2, 1, 1024, 8, 16),
    Shape("m409", 49152, 2048, 32, 8, 64, 6656, 1, 4, 1, 4096, 8, 32),
    Shape("loop24", 49152, 1024, 16, 4, 64, 2816, 0, 24, 0, 4096, 4, 8),
    ouro("ouro14", 24),
    ouro("ouro26", 48),
)}
