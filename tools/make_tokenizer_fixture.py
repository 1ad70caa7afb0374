#!/usr/bin/env python3
"""Makes the tokenizers' fixtures below tests/golden/tokenizer/.

    tools/make_tokenizer_fixture.py families
    tools/make_tokenizer_fixture.py demo TOKENIZER_JSON

`demo` writes gpt2_demo.jsonl: texts and the ids that the `tokenizers` package gives them with the
demo model's tokenizer.json. One JSON object a line: "text", "ids" (special tokens not parsed),
"pieces" (bytes of each piece of the pre-tokenizer), and "special" (ids with special tokens parsed)
where that differs.

`families` trains a small tokenizer of each family with the packages `tokenizers` and
`sentencepiece` and writes into families/:
  texts.jsonl       a text a line, shared by all families
  NAME.json         the tokenizer, by the names of the keys of model files
  NAME.ids.jsonl    for each text: [ids], or [ids, pieces] in byte-level families, or these and an
                    object with "special" where it differs from the ids and "decoded" where the
                    package's text of the ids differs from the text

The texts depend on seeds alone. Packages: tools/requirements.txt.
"""
import argparse
import io
import json
import pathlib
import random
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import tokenizer_texts as texts

SEED = 20240607
FOLDER = pathlib.Path(__file__).parent.parent / "tests/golden/tokenizer"
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # tokenizer.ggml.token_type; SentencePiece's, too

CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USER_SYMBOL = "<tool>"
# Tokens that no merge makes: a family takes them for whole pieces, or never.
UNREACHABLE = [" Supercalifragilistic", " extraordinary", "README", "?!?!", "\n \n", " Москва", "東京タワー"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def write_lines(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for line in lines:
            out.write(json.dumps(line, separators=(",", ":"), ensure_ascii=path.name != "texts.jsonl") + "\n")
    print(path.name, path.stat().st_size, "bytes")


def piece_lengths(tokenizer, text):
    pieces = tokenizer.pre_tokenizer.pre_tokenize_str(text)
    return [len(text[begin:end].encode()) for _, (begin, end) in pieces]


def encode(tokenizer, text, parse_special):
    tokenizer.encode_special_tokens = not parse_special
    return tokenizer.encode(text, add_special_tokens=False).ids


def make_demo(tokenizer_json):
    tokenizer = Tokenizer.from_file(str(tokenizer_json))
    rng = random.Random(SEED)
    characters = texts.assigned_characters()
    cases = []
    for text in dict.fromkeys([*texts.fixed_texts(), *texts.random_texts(rng, characters)]):
        case = {"text": text, "ids": encode(tokenizer, text, False), "pieces": piece_lengths(tokenizer, text)}
        special = encode(tokenizer, text, True)
        if special != case["ids"]:
            case["special"] = special
        cases.append(case)
    write_lines(FOLDER / "gpt2_demo.jsonl", cases)


def family_texts():
    """Without texts that `tokenizers` does not normalise as Unicode 14 says: its tables are older."""
    rng = random.Random(SEED + 1)
    characters = texts.assigned_characters()
    nfc = normalizers.NFC()
    every = [*texts.fixed_texts(texts.GROUPS + texts.MORE_GROUPS),
             *texts.random_texts(rng, characters, texts.MORE_POOLS, 4), *texts.dense_texts(rng, 1)]
    return [text for text in dict.fromkeys(every)
            if nfc.normalize_str(text) == unicodedata.normalize("NFC", text)]


def corpus():
    rng = random.Random(SEED + 2)
    pools = [texts.WORDS] * 6 + [texts.SCRIPTS, texts.CODE, texts.EMOJI] + texts.MORE_POOLS
    lines = []
    for _ in range(6000):
        parts = [rng.choice(rng.choice(pools)) for _ in range(rng.randint(3, 12))]
        lines.append(rng.choice([" ", " ", "", "  ", "\n"]).join(parts))
    for name in CONTROLS + [USER_SYMBOL]:
        lines = [line.replace(name, "") for line in lines]
    return lines


def byte_level(regex=None, digits=False):
    steps = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if regex:
        steps.append(pre_tokenizers.Split(Regex(regex), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex is None))
    return pre_tokenizers.Sequence(steps)


def to_symbols(text):
    return "".join(piece for piece, _ in pre_tokenizers.ByteLevel(False, use_regex=False).pre_tokenize_str(text))


def train_bpe(pre_tokenizer, normalizer=None, whole_pieces=False):
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=CONTROLS + [USER_SYMBOL], show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    trained.train_from_iterator(corpus(), trainer)
    model = json.loads(trained.to_str())["model"]
    vocab, merges = model["vocab"], [tuple(merge) for merge in model["merges"]]
    for text in UNREACHABLE:
        vocab.setdefault(to_symbols(text), len(vocab))

    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=whole_pieces))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in CONTROLS])
    tokenizer.add_tokens([AddedToken(USER_SYMBOL, special=False, normalized=False)])
    return tokenizer, vocab, merges


def make_byte_level(name, pre, cases, **training):
    tokenizer, vocab, merges = train_bpe(**training)
    tokens = sorted(vocab, key=vocab.get)
    types = [CONTROL if token in CONTROLS else USER_DEFINED if token == USER_SYMBOL else NORMAL
             for token in tokens]
    write_lines(FOLDER / "families" / f"{name}.json",
                [{"model": "gpt2", "pre": pre, "tokens": tokens, "token_type": types,
                  "merges": [" ".join(merge) for merge in merges], "bos_token_id": 1, "eos_token_id": 0,
                  "add_bos_token": False}])
    lines = []
    for text in cases:
        ids, special = encode(tokenizer, text, False), encode(tokenizer, text, True)
        decoded = tokenizer.decode(ids, skip_special_tokens=False)
        extra = {"special": special} if special != ids else {}
        if decoded != text:
            extra["decoded"] = decoded
        lines.append([ids, piece_lengths(tokenizer, text)] + ([extra] if extra else []))
    write_lines(FOLDER / "families" / f"{name}.ids.jsonl", lines)


def train_sentencepiece(**options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=model, model_type="bpe", vocab_size=1500,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        allow_whitespace_only_pieces=True, character_coverage=0.99, num_threads=1, minloglevel=2,
        user_defined_symbols=[USER_SYMBOL, "\u2581\u2581\u2581\u2581", "\n\n"], **options)
    return sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())


def make_sentencepiece(name, cases, prefix=True, unused_every=None, **options):
    """With `unused_every`, each so many-th normal token of several characters is marked unused."""
    proto = train_sentencepiece(add_dummy_prefix=prefix, **options)
    normal = [piece for piece in proto.pieces if piece.type == NORMAL and len(piece.piece) > 1]
    for piece in normal[::unused_every] if unused_every else []:
        piece.type = UNUSED
    model = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    write_lines(FOLDER / "families" / f"{name}.json",
                [{"model": "llama", "pre": "default", "tokens": [piece.piece for piece in proto.pieces],
                  "scores": [piece.score for piece in proto.pieces],
                  "token_type": [piece.type for piece in proto.pieces],
                  "bos_token_id": model.bos_id(), "eos_token_id": model.eos_id(),
                  "unknown_token_id": model.unk_id(), "add_bos_token": False, "add_space_prefix": prefix}])
    lines = []
    for text in cases:
        ids = model.encode(text)
        decoded = model.decode(ids)
        lines.append([ids] + ([{"decoded": decoded}] if decoded != text else []))
    write_lines(FOLDER / "families" / f"{name}.ids.jsonl", lines)


def make_families():
    cases = family_texts()
    print(len(cases), "texts")
    write_lines(FOLDER / "families" / "texts.jsonl", cases)
    make_byte_level("gpt-2", "gpt-2", cases, pre_tokenizer=byte_level())
    make_byte_level("smollm", "smollm", cases, pre_tokenizer=byte_level(digits=True))
    make_byte_level("llama-bpe", "llama-bpe", cases, pre_tokenizer=byte_level(LLAMA3), whole_pieces=True)
    make_byte_level("qwen2", "qwen2", cases, pre_tokenizer=byte_level(QWEN2), normalizer=normalizers.NFC())
    make_sentencepiece("llama", cases, byte_fallback=True)
    make_sentencepiece("llama-no-prefix", cases, byte_fallback=True, prefix=False)
    make_sentencepiece("llama-no-bytes", cases, byte_fallback=False, unused_every=5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    commands.add_parser("families").set_defaults(run=lambda arguments: make_families())
    demo = commands.add_parser("demo")
    demo.add_argument("tokenizer_json", type=pathlib.Path)
    demo.set_defaults(run=lambda arguments: make_demo(arguments.tokenizer_json))
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
