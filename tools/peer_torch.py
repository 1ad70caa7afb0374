#!/usr/bin/env python3
"""Times a plain PyTorch implementation of a looped shape, and prints a line of JSON for each figure.

  peer_torch.py SHAPE [--loops N] [--callers 1,8,32] [--contexts N] [--gen-tokens N]
                      [--prompt-tokens 2048] [--repeat N] [--device cuda] [--check]
  peer_torch.py device     what the device reads and multiplies in a second

The counterpart of `tinyloop bench --json`: the same figures, the same names. Weights, activations and
K/V are bf16 and random. q, k, v and gate, up are one matrix each, attention is
scaled_dot_product_attention over a static K/V cache, and a decode step is one CUDA graph: greedy, all
callers at one length. --check compares decoding with prefill in place of timing. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

import torch
from torch.nn import functional

from model_shape import SHAPES, Shape

WARM_STEPS = 3


def bandwidth_and_flops() -> dict:
    """The best of some runs: a sum over 8 GiB, and a square bf16 product of random values."""
    values = torch.ones(1 << 31, dtype=torch.float32, device="cuda")
    read = min(elapsed(lambda: values.sum()) for _ in range(6))
    size = 8192
    a, b = (torch.randn(size, size, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    product = min(elapsed(lambda: [a @ b for _ in range(8)]) for _ in range(6)) / 8
    return {"name": torch.cuda.get_device_name(), "bandwidth": values.numel() * 4 / read,
            "flops": 2 * size ** 3 / product}


def elapsed(run: Callable[[], object], device: str = "cuda") -> float:
    """Seconds until the device has done it."""
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    synchronize()
    begin = time.perf_counter()
    run()
    synchronize()
    return time.perf_counter() - begin


class Layer:
    def __init__(self, shape: Shape, device: str) -> None:
        def matrix(*names: str) -> torch.Tensor:
            sizes = [shape.matrices()[name] for name in names]
            rows, cols = sum(size[0] for size in sizes), sizes[0][1]
            return torch.randn(rows, cols, dtype=torch.bfloat16, device=device) * cols ** -0.5

        self.qkv = matrix("attn_q", "attn_k", "attn_v")
        self.output = matrix("attn_output")
        self.gate_up = matrix("ffn_gate", "ffn_up")
        self.down = matrix("ffn_down")
        ones = torch.ones(shape.d_model, dtype=torch.bfloat16, device=device)
        self.norms = {name: ones.clone() for name in shape.layer_norms()}


class Model:
    """Rows are [callers, positions, d]."""

    def __init__(self, shape: Shape, loops: int, callers: int, length: int, device: str) -> None:
        self.shape = shape
        layers = [Layer(shape, device) for _ in range(shape.blocks)]
        shared = layers[shape.prelude:shape.prelude + shape.shared]
        self.prelude, self.coda = layers[:shape.prelude], layers[shape.prelude + shape.shared:]
        self.iterations = [shared] * loops
        scale = shape.d_model ** -0.5
        self.embedding = torch.randn(shape.vocab, shape.d_model, dtype=torch.bfloat16, device=device)
        self.head = self.embedding if shape.tied else torch.randn_like(self.embedding) * scale
        self.norm = torch.ones(shape.d_model, dtype=torch.bfloat16, device=device)
        size = (shape.executed_layers(loops), callers, shape.kv_heads, length, shape.head_dim)
        self.keys = torch.randn(size, dtype=torch.bfloat16, device=device)
        self.values = torch.randn(size, dtype=torch.bfloat16, device=device)
        powers = torch.arange(0, shape.head_dim, 2, device=device).float() / shape.head_dim
        turns = torch.outer(torch.arange(length, device=device).float(), shape.rope_base ** -powers)
        self.cos = torch.cat((turns.cos(), turns.cos()), dim=-1).bfloat16()
        self.sin = torch.cat((-turns.sin(), turns.sin()), dim=-1).bfloat16()
        self.everywhere = torch.arange(length, device=device)

    def rms(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, weight.shape, weight, self.shape.eps)

    def rotate(self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Of [callers, heads, positions, head_dim], halves against each other."""
        cos, sin = turn
        return torch.addcmul(x * cos, x.roll(self.shape.head_dim // 2, -1), sin)

    def attention(self, layer: Layer, x: torch.Tensor, slot: int, positions: torch.Tensor,
                  mask: torch.Tensor | None) -> torch.Tensor:
        """Without a mask: causal, among the positions given, which are the first ones."""
        s, (callers, count, _) = self.shape, x.shape
        heads = functional.linear(x, layer.qkv).view(callers, count, -1, s.head_dim).transpose(1, 2)
        v = heads[:, s.heads + s.kv_heads:]
        turned = self.rotate(heads[:, :s.heads + s.kv_heads], self.turn)
        q, k = turned[:, :s.heads], turned[:, s.heads:]
        self.keys[slot].index_copy_(2, positions, k)
        self.values[slot].index_copy_(2, positions, v)
        if mask is None:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                        enable_gqa=s.heads != s.kv_heads)
        else:  # one position: the query heads of a K/V head stand as rows over its keys
            group = q.reshape(callers, s.kv_heads, -1, s.head_dim)
            y = functional.scaled_dot_product_attention(group, self.keys[slot], self.values[slot],
                                                        attn_mask=mask)
            y = y.reshape(callers, s.heads, 1, s.head_dim)
        return functional.linear(y.transpose(1, 2).reshape(callers, count, -1), layer.output)

    def run_layer(self, layer: Layer, x: torch.Tensor, slot: int, positions: torch.Tensor,
                  mask: torch.Tensor | None) -> torch.Tensor:
        y = self.attention(layer, self.rms(x, layer.norms["attn_norm"]), slot, positions, mask)
        x = x + (self.rms(y, layer.norms["attn_post_norm"]) if self.shape.post_norms else y)
        hidden = functional.linear(self.rms(x, layer.norms["ffn_norm"]), layer.gate_up)
        gate, up = hidden.chunk(2, dim=-1)
        y = functional.linear(functional.silu(gate) * up, layer.down)
        return x + (self.rms(y, layer.norms["ffn_post_norm"]) if self.shape.post_norms else y)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor,
                mask: torch.Tensor | None) -> torch.Tensor:
        """Logits behind the last position of each caller. tokens: [callers, positions]."""
        x = self.embedding[tokens]
        self.turn = (self.cos[positions], self.sin[positions])
        slot = 0
        for part, ends in ((self.prelude, False), *((layers, True) for layers in self.iterations),
                           (self.coda, False)):
            for layer in part:
                x = self.run_layer(layer, x, slot, positions, mask)
                slot += 1
            if ends and self.shape.loop_norm:
                x = self.rms(x, self.norm)
        x = x[:, -1]
        return functional.linear(x if self.shape.loop_norm else self.rms(x, self.norm), self.head)

    def decode_mask(self, position: torch.Tensor) -> torch.Tensor:
        """What is added to the scores of all places of the cache, behind `position` -inf."""
        hidden = self.everywhere > position
        zeros = torch.zeros(hidden.shape, dtype=torch.bfloat16, device=hidden.device)
        return zeros.masked_fill(hidden, float("-inf")).view(1, 1, 1, -1).expand(
            self.keys.shape[1], self.shape.kv_heads, self.shape.heads // self.shape.kv_heads, -1)


class Decoder:
    """Greedy steps of all callers from one graph."""

    def __init__(self, model: Model, callers: int, context: int, device: str) -> None:
        self.model, self.context = model, context
        self.tokens = torch.zeros(callers, 1, dtype=torch.long, device=device)
        self.position = torch.full((1,), context, dtype=torch.long, device=device)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_STEPS):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()

    def step(self) -> None:
        mask = self.model.decode_mask(self.position)
        logits = self.model.forward(self.tokens, self.position, mask)
        self.tokens.copy_(logits.argmax(-1, keepdim=True))
        self.position.add_(1)

    def run(self, count: int) -> None:
        self.position.fill_(self.context)
        for _ in range(count):
            self.graph.replay()


def repeat(times: int, tokens: int, run: Callable[[], object]) -> dict:
    """The first run warms up and is not counted."""
    elapsed(run)
    times_us = [elapsed(run) * 1e6 for _ in range(times)]
    median = sorted(times_us)[len(times_us) // 2]
    return {"tokens_per_s": tokens * 1e6 / median, "tokens": tokens, "times_us": times_us}


def bench(args: argparse.Namespace) -> None:
    shape = SHAPES[args.shape]
    loops = args.loops or shape.default_loops
    with torch.inference_mode():
        if args.prompt_tokens:
            model = Model(shape, loops, 1, args.prompt_tokens, "cuda")
            tokens = torch.randint(shape.vocab, (1, args.prompt_tokens), device="cuda")
            runs = repeat(args.repeat, args.prompt_tokens,
                          lambda: model.forward(tokens, model.everywhere, None))
            print(json.dumps({"kind": "prefill", "loops": loops, "prompts": 1,
                              "prompt_tokens": args.prompt_tokens, **runs}), flush=True)
            del model
        for callers in args.callers if args.gen_tokens else []:
            length = args.contexts + max(args.gen_tokens, WARM_STEPS + 1)
            model = Model(shape, loops, callers, length, "cuda")
            decoder = Decoder(model, callers, args.contexts, "cuda")
            runs = repeat(args.repeat, callers * args.gen_tokens,
                          lambda: decoder.run(args.gen_tokens))
            print(json.dumps({"kind": "decode", "loops": loops, "callers": callers,
                              "context": args.contexts, "gen_tokens": args.gen_tokens,
                              "sampling": "greedy", **runs}), flush=True)
            del model, decoder
            torch.cuda.empty_cache()


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).float().norm() / a.float().norm())


def check(shape: Shape, loops: int, device: str, length: int = 24) -> dict:
    """`difference`: between the logits of prompts and those of their last tokens decoded behind the
    rest. `sensitivity`: what another first token makes of them, which is to be more."""
    torch.manual_seed(1)
    with torch.inference_mode():
        model = Model(shape, loops, 2, length, device)
        tokens = torch.randint(shape.vocab, (2, length), device=device)
        other = tokens.clone()
        other[:, 0] = (other[:, 0] + 1) % shape.vocab
        changed = model.forward(other, model.everywhere, None)
        whole = model.forward(tokens, model.everywhere, None)
        model.forward(tokens[:, :-1], model.everywhere[:-1], None)
        last = model.everywhere[-1:]
        behind = model.forward(tokens[:, -1:], last, model.decode_mask(last))
        return {"difference": distance(whole, behind), "sensitivity": distance(whole, changed)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=[*SHAPES, "device"])
    parser.add_argument("--callers", type=lambda text: [int(n) for n in text.split(",")],
                        default=[1, 8, 32])
    for name, default in (("loops", 0), ("contexts", 128), ("gen-tokens", 96),
                          ("prompt-tokens", 0), ("repeat", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cuda", help="of --check")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.shape == "device":
        print(json.dumps(bandwidth_and_flops()))
    elif args.check:
        shape = SHAPES[args.shape]
        found = check(shape, args.loops or shape.default_loops, args.device)
        print(json.dumps(found))
        return int(not found["difference"] < min(0.05, found["sensitivity"]))
    else:
        bench(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
