#!/usr/bin/env python3
"""Times llama.cpp on one model file, or compares its log-probabilities, and prints JSON.

  peer_llama.py bench MODEL --threads N [--prompt-tokens N] [--gen-tokens N] [--contexts N]
                            [--callers N] [--repeat N]
  peer_llama.py score MODEL --threads N --tokens 1,2,3 --prompt N
  peer_llama.py info

The counterpart of `tinyloop bench --json`: the same runs, the same names; of decoding, or without
--gen-tokens of prefill. Only llama.cpp's C interface lies inside the timed calls, with its own
defaults but for the sizes and the threads. Needs scripts/install-peer.sh.
"""

import argparse
import ctypes
import json
import sys
import time

import llama_cpp as llama
import numpy as np

ALIGN = 256  # llama.cpp rounds the positions of a sequence up to this


class PeerError(Exception):
    """llama.cpp refused something that the message names."""


def some_tokens(count: int, vocab: int, salt: int) -> list[int]:
    """The same tokens every time; which ones does not matter to the speed."""
    return [(i * 7919 + salt * 104729) % vocab for i in range(count)]


class Batch:
    """Tokens for one llama_decode: one position each in `tokens`, all with their own sequence."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.raw = llama.llama_batch_init(capacity, 0, 1)

    def fill(self, entries: list[tuple[int, int, int, bool]]) -> None:
        """(token, position, sequence, whether its logits are wanted) each."""
        if len(entries) > self.capacity:
            raise PeerError(f"a batch of {len(entries)} tokens: at most {self.capacity} fit")
        self.raw.n_tokens = len(entries)
        for i, (token, position, sequence, wanted) in enumerate(entries):
            self.raw.token[i] = token
            self.raw.pos[i] = position
            self.raw.n_seq_id[i] = 1
            self.raw.seq_id[i][0] = sequence
            self.raw.logits[i] = wanted


class Peer:
    def __init__(self, path: str, threads: int, sequences: int, positions: int):
        """`positions` of context for each of `sequences`."""
        llama.llama_backend_init()
        self.model = llama.llama_model_load_from_file(path.encode(), self.model_parameters())
        if not self.model:
            raise PeerError(f"model {path}: cannot be loaded")
        parameters = llama.llama_context_default_params()
        parameters.n_ctx = sequences * (-(-positions // ALIGN) * ALIGN)
        parameters.n_seq_max = sequences
        parameters.n_threads = parameters.n_threads_batch = threads
        self.context = llama.llama_init_from_model(self.model, parameters)
        if not self.context:
            raise PeerError(f"model {path}: no context of {parameters.n_ctx} positions")
        self.vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        self.batch = Batch(parameters.n_batch)

    def model_parameters(self):
        """Random models have no tokenizer; llama.cpp wants to be told so."""
        self.overrides = (llama.llama_model_kv_override * 2)()  # ends with an empty key
        self.overrides[0].tag = llama.LLAMA_KV_OVERRIDE_TYPE_STR
        self.overrides[0].key = b"tokenizer.ggml.model"
        self.overrides[0].value.val_str = b"no_vocab"
        parameters = llama.llama_model_default_params()
        parameters.kv_overrides = ctypes.cast(
            self.overrides, ctypes.POINTER(llama.llama_model_kv_override))
        return parameters

    def clear(self) -> None:
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)

    def decode(self) -> float:
        """Runs the batch; microseconds."""
        begin = time.perf_counter_ns()
        code = llama.llama_decode(self.context, self.batch.raw)
        llama.llama_synchronize(self.context)
        took = time.perf_counter_ns() - begin
        if code != 0:
            raise PeerError(f"llama_decode of {self.batch.raw.n_tokens} tokens: {code}, expected 0")
        return took / 1e3

    def prompt(self, tokens: list[int], sequence: int) -> float:
        last = len(tokens) - 1
        self.batch.fill([(t, i, sequence, i == last) for i, t in enumerate(tokens)])
        return self.decode()

    def logits(self) -> np.ndarray:
        """Of the last token of the last batch."""
        row = llama.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(row, shape=(self.vocab,)).copy()


def time_prefill(peer: Peer, prompt: int) -> float:
    peer.clear()
    return peer.prompt(some_tokens(prompt, peer.vocab, 0), 0)


def time_decode(peer: Peer, sequences: int, prompt: int, gen: int) -> float:
    """`gen` calls with one token of every sequence, after prompts that are not timed."""
    peer.clear()
    for sequence in range(sequences):
        peer.prompt(some_tokens(prompt, peer.vocab, sequence), sequence)
    took = 0.0
    for step in range(gen):
        tokens = some_tokens(sequences, peer.vocab, 1 + step)
        peer.batch.fill([(token, prompt + step, s, True) for s, token in enumerate(tokens)])
        took += peer.decode()
    return took


def repeat(times: int, tokens: int, run) -> dict:
    """The first run warms up and is not counted."""
    run()
    return {"tokens": tokens, "times_us": [run() for _ in range(times)]}


def bench(args: argparse.Namespace) -> dict:
    positions = max(args.prompt_tokens, args.contexts + args.gen_tokens)
    peer = Peer(args.model, args.threads, args.callers, positions)
    if args.gen_tokens == 0:
        return repeat(args.repeat, args.prompt_tokens,
                      lambda: time_prefill(peer, args.prompt_tokens))
    return repeat(args.repeat, args.callers * args.gen_tokens,
                  lambda: time_decode(peer, args.callers, args.contexts, args.gen_tokens))


def score(args: argparse.Namespace) -> dict:
    """At each position after the prompt: the greedy choice, the given token's log-probability."""
    tokens = [int(token) for token in args.tokens.split(",")]
    peer = Peer(args.model, args.threads, 1, len(tokens))
    choices, logprobs = [], []
    for position in range(args.prompt, len(tokens)):
        if position == args.prompt:
            peer.prompt(tokens[:position], 0)
        else:
            peer.batch.fill([(tokens[position - 1], position - 1, 0, True)])
            peer.decode()
        logits = peer.logits().astype(np.float64)
        choices.append(int(logits.argmax()))
        total = logits.max() + np.log(np.exp(logits - logits.max()).sum())
        logprobs.append(float(logits[tokens[position]] - total))
    return {"choices": choices, "logprobs": logprobs}


def info(_: argparse.Namespace) -> dict:
    return {"bindings": llama.__version__, "system": llama.llama_print_system_info().decode()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("bench")
    command.add_argument("model")
    command.add_argument("--threads", type=int, required=True)
    for name, default in (("prompt-tokens", 0), ("gen-tokens", 0), ("contexts", 32),
                          ("callers", 1), ("repeat", 5)):
        command.add_argument(f"--{name}", type=int, default=default)
    command.set_defaults(run=bench)
    command = commands.add_parser("score")
    command.add_argument("model")
    command.add_argument("--threads", type=int, required=True)
    command.add_argument("--tokens", required=True)
    command.add_argument("--prompt", type=int, required=True, help="how many of them are given")
    command.set_defaults(run=score)
    commands.add_parser("info").set_defaults(run=info)
    args = parser.parse_args()
    try:
        print(json.dumps(args.run(args)))
    except PeerError as error:
        print(f"peer_llama: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
