"""Texts for the tokenizers' fixtures: many scripts, signs and kinds of white space, fixed and random
ones. They depend on the random generator's seed alone."""
import unicodedata

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
GROUPS = (WORDS, EMOJI, SPACES, MARKS, NUMBERS, CONTRACTIONS, CODE, SPECIALS)
POOLS = [WORDS, WORDS, WORDS, EMOJI, SPACES, MARKS, NUMBERS, CONTRACTIONS, SPECIALS]

# Besides these, for the fixtures of the families.
SCRIPTS = """สวัสดีครับ ภาษาไทยไม่เว้นวรรค กำลัง ٱلسَّلَامُ عَلَيْكُمْ ﷺ كِتَاب שָׁלוֹם עוֹלָם בְּרֵאשִׁית नमस्ते क्षत्रिय ज़िंदगी हिन्दी
বাংলা தமிழ் ქართული Հայերեն ភាសាខ្មែរ ພາສາລາວ བོད་ཡིག አማርኛ ᏣᎳᎩ 東京タワー ひらがな カタカナ ｶﾀｶﾅ 漢字仮名交じり文 简体中文 繁體中文
안녕하세요 대한민국 Ἀθῆναι ЁЖИК Ĳsselmeer ǅungla İstanbul ıspanak ΣΊΣΥΦΟΣ""".split()
MORE_EMOJI = ["🇨🇭🇯🇵", "🇦", "👨🏻‍❤️‍💋‍👨🏿", "👋🏿👋🏻", "🏳️‍🌈", "🏴‍☠️", "#️⃣*️⃣", "🫠", "☺︎", "♾️", "🎉🎉🎉", "🀄", "‍", "️"]
MORE_SPACES = ["   ", "    ", "\t\t", " \t ", "\n \n", "\r", "\r\r\n", " \n", "\n ", "  \n\n  ", "\u2009",
               "\u205f", "\u1680", "\u2029", "\u2060", " \u00a0 ", "\u3000\n", "\n\u3000", "\u0085\n"]
MORE_CONTRACTIONS = ["'M", "'RE", "'Ve", "'lL", "'D", "'T", "'ſ", "'ſx", "IT'S", "we'LL've", "!'s", "\n's",
                     " 'S", "'ſt", "'Re1", "'ß", "\t'll", "x'", "'K", "'ﬆ"]
MORE_NUMBERS = ["12", "123", "1234", "00000000000", "1 2  3   4", "v1.2.3", "²²²²", "१२३४५", "१ ", " 99",
                "  100", "\n7", "１２３４", "1\u00a0000", "x1y22z333", "Ⅻ1½", "㊿", "𐒠𐒡", "2024-06-07T12:30"]
# What NFC changes, or must leave alone.
COMPOSITION = ["e\u0301", "A\u030a", "\u212b", "\u2126", "\uf900", "\u0958", "\u0344", "q\u0323\u0307",
               "q\u0307\u0323", "\u1112\u1161\u11ab", "\uac00\u11a8", "a\u0327\u0301\u0323", "\u0f73\u0f71",
               "\u0b47\u0b3e", "\ufb1d", "\u0301", "\u00e9\u0301", "\u1e9b\u0323", "\u2adc", "\U0001d15e",
               "o\u0308\u0304", "n\u0303\u0303n\u0303", "\u3046\u3099", "\u09c7\u09be"]
SYMBOLS = ["\u2581", "\u2581\u2581", " \u2581 ", "\u2585", "\u2047", " \u2047 ", "\ufffd", "\ufffe", "\uffff", "\x00",
           "\x01\x02", "\x7f", "\x1b[0m", "\u0300", "\u061c", "\u202e", "\u00ad", "\U000e0001",
           "\U0010ffff", "\ue000", "…", "—", "“”", "«»", "¿¡", "†‡", "€£¥", "≤≠∞", "→⇒", "░▒▓", "...", "?!?!",
           "==>", "!\n", "...\n\n", ";\r\n", "/*\n*/"]
MORE_SPECIALS = ["<|im_start|>", "<|im_end|>", "<|im_start|>user\n", "<tool>", " <tool>", "<tool> x", "a<tool>b",
                 "<tool><tool>", "<tool", "tool>", "<s>", "</s>", "<unk>", "<s> a</s>", "<0x41>", "<0x0A>",
                 "<0xZZ>", "<0x>", "\u0120the", "\u010a"]
MORE_GROUPS = (SCRIPTS, MORE_EMOJI, MORE_SPACES, MORE_CONTRACTIONS, MORE_NUMBERS, COMPOSITION, SYMBOLS,
               MORE_SPECIALS)
MORE_POOLS = [WORDS, WORDS, SCRIPTS, EMOJI, MORE_EMOJI, SPACES, SPACES, MORE_SPACES, MORE_CONTRACTIONS,
              NUMBERS, MORE_NUMBERS, COMPOSITION, SYMBOLS, MORE_SPECIALS, MARKS]


def assigned_characters():
    """Every character of Unicode 14, as Python 3.11 knows it, without surrogates and private use."""
    return [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]


def fixed_texts(groups=GROUPS):
    yield ""
    for group in groups:
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


def random_texts(rng, characters, pools=POOLS, scale=1):
    ascii_text = [chr(c) for c in range(32, 127)]
    letters = [c for c in characters if unicodedata.category(c)[0] == "L"]
    numbers = [c for c in characters if unicodedata.category(c)[0] == "N"]
    low = [c for c in characters if ord(c) < 0x600]
    for alphabet, count, longest in ((characters, 350, 10), (low, 250, 14), (ascii_text, 250, 40),
                                     (letters, 100, 8), (numbers, 80, 8), (list("ab "), 80, 40),
                                     (list("'sdltrvem "), 150, 24), (list(" \n\tx"), 120, 16)):
        for _ in range(count * scale):
            yield "".join(rng.choice(alphabet) for _ in range(rng.randint(1, longest)))
    for _ in range(350 * scale):
        parts = (rng.choice(rng.choice(pools)) for _ in range(rng.randint(2, 8)))
        yield rng.choice(["", " "]).join(parts)
    for _ in range(120 * scale):
        yield " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 14))) + rng.choice(".!?\n")


def dense_texts(rng, scale):
    """What the families' rules differ in: contractions, line ends, numbers, signs, spaces, marks."""
    for alphabet, count, longest in ((list("'sSdDlLtTrRvVeEmMſ "), 300, 12), (list(" \n\r\t\u00a0\u3000x!"), 400, 12),
                                     (list("0123456789 ,.-xⅫ²१\n"), 300, 14), (list("!?.;'\"-_ \n\ra1"), 300, 12),
                                     (list("aeiouAn \u0301\u0308\u0327\u0323\u030a\u0344ᄒ\u1161\u11ab"), 200, 8),
                                     (list("\u2581 a\u00a0<s>"), 150, 10), (MORE_EMOJI + EMOJI, 100, 3)):
        for _ in range(count * scale):
            yield "".join(rng.choice(alphabet) for _ in range(rng.randint(1, longest)))
