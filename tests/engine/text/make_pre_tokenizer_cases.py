#!/usr/bin/env python3
"""Writes pre_tokenizer_cases.jsonl: texts cut into words by the rules that models' authors publish.

The expressions are those of the models' own tokenizer.json files, run by Python's `regex` module, which has
nothing in common with the engine that Orrery uses. Each line is {"pre", "text", "pieces"}.

    pip install regex && ./make_pre_tokenizer_cases.py > pre_tokenizer_cases.jsonl
"""
import json
import random

import regex

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s"
         r"|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

RULES = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "llama-bpe": [CL100K % "{1,3}"],
    "qwen2": [CL100K % ""],
    "qwen35": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
               r"|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "seed-coder": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+"
                   r"|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
                   r"|\s+(?!\S)|\s+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
                    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "tekken": [O200K % ("", "", "")],
    "gpt-4o": [O200K % (CONTRACTION, CONTRACTION, "{1,3}")],
    "bloom": [r" ?[^(\s|.,!?…。，、।۔،)]+"],
    "viking": [r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}"],
}

TEXTS = [
    "Hello, world!  I'm here; they'LL go, we'd've DON'T it's 'tis",
    "  leading, trailing \t\n\n \r\n  x\ty\n",
    "12345 a1b22c333 3.14159 1,000,000 ½²Ⅳ ٣٤٥ १२३",
    "camelCase PascalCase HTTPServer2Go ÀÉÎõü ßẞ ǅ ПриветМир",
    "从零构建推理引擎：缓存。 日本語のテキスト、カタカナ 한국어 문장.",
    "नमस्ते दुनिया। สวัสดี e\u0301 a\u0300b مرحبا، كيف",
    "def f(x):\n    return x ** 2  # ok\n\n\n\tfor(i=0;i<n;++i){}\n",
    "👍🏽 👩‍👧 ❤️ a👍b\u200b\u00a0c\u3000d\u2028e",
    "$100 €20 £3 50% #tag @me a+b=c <|x|> `q` ^~ |",
    "/usr/bin//env\n/ C:/x\r\n-- ...!? \n",
    "a    b     c \n   d",
    "ﬁﬂ ㎏①② ªº ʰ ˆ _ __x__",
]


def split(text, patterns):
    pieces = [text]
    for pattern in patterns:
        after = []
        for piece in pieces:
            done = 0
            for match in regex.finditer(pattern, piece):
                if match.start() > done:
                    after.append(piece[done:match.start()])
                if match.end() > match.start():
                    after.append(match.group())
                done = match.end()
            if done < len(piece):
                after.append(piece[done:])
        pieces = after
    return pieces


def random_texts(count):
    parts = ["a", "B", "é", "ß", "字", "カ", "한", "я", "ن", "क", "\u0301", "1", "22", "³", " ", "  ", "\t", "\n", "\r\n",
             "\u00a0", "'s", "'LL", "'", ".", ",", "!?", "$", "=", "`", "(", "/", "_", "👍", "\u200d", "، ", "।"]
    chooser = random.Random(1)
    return ["".join(chooser.choice(parts) for _ in range(chooser.randint(5, 40))) for _ in range(count)]


for name, patterns in RULES.items():
    for text in TEXTS + random_texts(25):
        line = {"pre": name, "text": text, "pieces": split(text, patterns)}
        print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))
