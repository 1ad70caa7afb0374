#!/usr/bin/env python3
"""Makes tests/golden/tokenizer/gpt2_demo.jsonl: texts and the ids that the `tokenizers` package
gives them with a model's tokenizer.json.

One JSON object a line: "text", "ids" (special tokens not parsed), "pieces" (bytes of each piece of
the pre-tokenizer), and "special" (ids with special tokens parsed) where that differs. The texts
depend on the seed alone.

    pip install tokenizers
    tools/make_tokenizer_fixture.py TOKENIZER_JSON [OUTPUT]
"""
import argparse
import json
import pathlib
import random
import unicodedata

from tokenizers import Tokenizer

SEED = 20240607
OUTPUT = pathlib.Path(__file__).parent.parent / "tests/golden/tokenizer/gpt2_demo.jsonl"

WORDS = """once upon a time there was little girl who liked to play in the park with her big red ball
mother said don't it's we've I'm you'll they'd can't o'clock Tom's friends' running extraordinary
Supercalifragilistic internationalization iPhone HTTP README x2 42nd naïve café Straße Ελλάδα Москва
привет עברית العربية हिन्दी ไทย 日本語 中文字符 한국어 Việt Nam þæt ŒUVRE ﬁne""".split()
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣", "🤷‍♀️", "☕", "🧑🏿‍🚀"]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085",
          "\u200b", "\v", "\f", "\u180e", "\ufeff", "\u202f", "\x1c", "\x1f"]
MARKS = ["\u0301", "\u0308", "\u0327", "\u20dd", "\u0e31", "\u093f", "\u05b0", "\ufe0f"]
NUMBERS = ["7", "1234567890", "3.14159", "1,000,000", "²³", "½", "Ⅻ", "①", "٣٤", "०१", "〇", "一二三",
           "0x1F", "1e-9", "𝟘𝟙"]
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'x", "''s", " 's", "’s",
                "'", "'''", "'r", "'v", "'l", "'s's", "'tt", "'red", "'dare"]
CODE = ["int main(int argc, char** argv) {\n    return 0;\n}\n", "def f(x):\n\treturn x ** 2  # y\n",
        "for (auto&& [k, v] : map) std::cout << k << '\\n';", "<div class=\"a b\">&nbsp;</div>",
        "SELECT * FROM t WHERE a >= 10 AND b != 'x';", "a->b::c<d>(e[f]) ? g : !h;",
        "https://example.org/a/b?c=d&e=f#g", "{\"k\": [1, 2.5, null, true]}", "$x = @{y}; %z%~^|",
        "if [ -z \"$A\" ]; then echo 'no'; fi", "\\frac{1}{2} \\sum_{i=0}^{n} x_i"]
SPECIALS = ["<|endoftext|>", "<|endoftext|><|endoftext|>", "<|endoftext", "|endoftext|>",
            "<<|endoftext|>>", "<|endof<|endoftext|>text|>"]


def assigned_characters():
    """Every character of Unicode 14, as this Python knows it, without surrogates and private use."""
    return [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]


def fixed_texts():
    yield ""
    for group in (WORDS, EMOJI, SPACES, MARKS, NUMBERS, CONTRACTIONS, CODE, SPECIALS):
        yield from group
        yield from ("a" + text + "b" for text in group)
        yield from (" " + text + " " for text in group)
    for space in (" ", "\n", "\t", "\u3000"):
        for count in (2, 3, 7, 64, 300):
            yield space * count
            yield "x" + space * count + "y"
    yield from ("a" * n for n in (2, 3, 5, 16, 100, 1000))
    yield from ("ab" * n + "a" for n in (2, 9, 200))
    yield from (chr(c) for c in range(256))


def random_texts(rng, characters):
    ascii_text = [chr(c) for c in range(32, 127)]
    letters = [c for c in characters if unicodedata.category(c)[0] == "L"]
    numbers = [c for c in characters if unicodedata.category(c)[0] == "N"]
    low = [c for c in characters if ord(c) < 0x600]
    for alphabet, count, longest in ((characters, 350, 10), (low, 250, 14), (ascii_text, 250, 40),
                                     (letters, 100, 8), (numbers, 80, 8), (list("ab "), 80, 40),
                                     (list("'sdltrvem "), 150, 24), (list(" \n\tx"), 120, 16)):
        for _ in range(count):
            yield "".join(rng.choice(alphabet) for _ in range(rng.randint(1, longest)))
    pools = [WORDS, WORDS, WORDS, EMOJI, SPACES, MARKS, NUMBERS, CONTRACTIONS, SPECIALS]
    for _ in range(350):
        parts = (rng.choice(rng.choice(pools)) for _ in range(rng.randint(2, 8)))
        yield rng.choice(["", " "]).join(parts)
    for _ in range(120):
        yield " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 14))) + rng.choice(".!?\n")


def piece_lengths(tokenizer, text):
    pieces = tokenizer.pre_tokenizer.pre_tokenize_str(text)
    return [len(text[begin:end].encode()) for _, (begin, end) in pieces]


def encode(tokenizer, text, parse_special):
    tokenizer.encode_special_tokens = not parse_special
    return tokenizer.encode(text, add_special_tokens=False).ids


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer_json", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path, nargs="?", default=OUTPUT)
    arguments = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(arguments.tokenizer_json))
    rng = random.Random(SEED)
    texts = dict.fromkeys([*fixed_texts(), *random_texts(rng, assigned_characters())])
    with arguments.output.open("w", encoding="ascii") as out:
        for text in texts:
            case = {"text": text, "ids": encode(tokenizer, text, False),
                    "pieces": piece_lengths(tokenizer, text)}
            special = encode(tokenizer, text, True)
            if special != case["ids"]:
                case["special"] = special
            out.write(json.dumps(case, separators=(",", ":")) + "\n")
    print(f"{len(texts)} texts, {arguments.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
