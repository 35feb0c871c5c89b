"""tokenizers/: small tokenizer.json files as Hugging Face's library `tokenizers` writes them, and ids.json, its ids of texts that are hard to cut.

    python make_tokenizers.py [COUNT DIRECTORY]

Needs the package tokenizers (0.23.3 made what is committed). With COUNT it leaves tokenizers/ alone, and writes COUNT random texts and their ids
to DIRECTORY/texts.jsonl, a line each: the text, then the ids by each tokenizer. The texts have characters of Unicode 14 and before alone, because
the libraries of a build may know no later ones."""
import json
import pathlib
import random
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MERGES = 480
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
LOWER, UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
NEMO = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = ["[\r\n]", "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-Ϋό-ϳ]+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+"]


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def bytes_of(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def special(*contents):
    return [AddedToken(content, special=True, normalized=False) for content in contents]


def around(before, after, ids):
    single = [part for part in (before, "$A", after) if part]
    return processors.TemplateProcessing(single=" ".join(single), pair=None, special_tokens=[(t, ids[t]) for t in (before, after) if t])


# name: pre-tokenizer, normalizer, added tokens
FORMS = {
    "llama3": (pre_tokenizers.Sequence([split(LLAMA3), bytes_of(False)]), None,
               special("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|eot")),
    "gpt2": (bytes_of(True), None, special("<|endoftext|>")),
    "qwen": (pre_tokenizers.Sequence([split(QWEN), bytes_of(False)]), normalizers.NFC(),
             special("<|endoftext|>", "<|im_start|>") + [AddedToken("<tool>", special=False, normalized=False),
                                                         AddedToken("caf\u00e9s", special=False, normalized=True),
                                                         AddedToken("   ", special=False, normalized=True)]),
    "smollm": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_of(True)]), None,
               special("<|endoftext|>", "<repo_name>")),
    "nemo": (pre_tokenizers.Sequence([split(NEMO), bytes_of(False)]), None, special("<unk>", "<s>", "</s>", "[INST]")),
    "deepseek": (pre_tokenizers.Sequence([*map(split, DEEPSEEK), pre_tokenizers.Digits(individual_digits=False), bytes_of(False)]), None,
                 special("<\uff5cend\u2581of\u2581sentence\uff5c>")),
}

TEXTS = ["", " ", "  ", "\n", "\n\n", " \n ", "a", " a", "a ", "  a", "a  ", "\ta", "a\t\tb", "a \n b", "a\n\n  b\n", "a\r\nb\r\n\r\n c", "a\r b", "\r\n ",
         "it's IT'S it'S we'LL We'll they'Re I'vE i'M he'D don't DON'T 's 'S'", "it\u2019s it'\u017f it'\u017fx x's's 'tis 'll'll", "'\ufb06 '\ufb05",
         "1 12 123 1234 12345 123456 1234567", "a1b22c333d4444", "3.14 1,000,000 -5 +7 1e10", "\u0663\u0664 \u096b\u096c\u096d\u096e \u00bd\u00be \u2167 \u00b2\u00b3",
         "caf\u00e9 cafe\u0301 caf\u00e9s cafe\u0301s na\u00efve nai\u0308ve", "\u1e69 s\u0323\u0307 s\u0307\u0323 \u212b \u00c5 A\u030a \ufb01 \uff21",
         "\uac00\ub098 \u1100\u1161\u11a8 \u0344 \u0958 \u2126", "\u4f60\u597d\uff0c\u4e16\u754c\u3002\n\u3053\u3093\u306b\u3061\u306f \u4e2d\u6587abc123", "\u3000\u3000\u7b2c\u4e00\u7ae0\n",
         "\U0001f600\U0001f469\u200d\U0001f680\U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd!", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
         "\u01c5\u02b0\u0294 XMLHttpRequest iPhone ABCdef abcDEF \u00df\u1e9e", "".join(map(chr, range(32))) + "\x7f\x80\x9f",
         *(f"a{chr(c)}b{chr(c)}{chr(c)}c {chr(c)} d{chr(c)}\n" for c in (*range(9, 14), *range(0x1c, 0x21), 0x85, 0xa0, 0x1680, 0x180e, *range(0x2000, 0x2010), 0x2028, 0x2029,
                                                                         0x202f, 0x205f, 0x2060, 0x3000, 0xfeff)),
         "<|begin_of_text|>a<|end_of_text|><|eot_id|>b <|eot <|eot|> <|eot_id<|eot_id|>|>", "x<|endoftext|>y <|endoftext|> z<|endoftext|", "<|im_start|>user\n<tool>a<tool> b<|im_end|>",
         "<s>a</s>[INST]<unk>b</s> <repo_name>x", "<\uff5cend\u2581of\u2581sentence\uff5c> \u2581a", "a   b    c     d      e\n   f   \n", "  \n\n  \n x", "...!!!\n\n\n??? //\n/ -->\r\n\r\n",
         "a" * 300, " " * 100 + "x", "ab" * 120, "!" * 90 + "\n" * 20, "0" * 50, "\u00e9" * 40, "e\u0301" * 20, "the  cat\tsat.On the\u00a0mat, 'twas \"fine\"; (yes) [no] {a: 1}",
         "def f(x):\n    return x**2  # comment\n\n\nclass A:\n\tpass\n", "https://example.com/a_b?c=d&e=%20f#g", "\ufffd \ufffe \U0010ffff \ue000", "end of text  ", "end\n   "]

BLOCKS = [(0x20, 0x7f), (0x20, 0x7f), (0x0, 0x20), (0x80, 0x250), (0x250, 0x370), (0x370, 0x530), (0x590, 0x780), (0x900, 0xe80), (0x1000, 0x1200), (0x1e00, 0x2070),
          (0x2070, 0x2400), (0x2460, 0x2800), (0x2e80, 0x3100), (0x3100, 0x3400), (0x4e00, 0x9fff), (0xac00, 0xd7a4), (0xf900, 0xfb50), (0xfe00, 0x10000),
          (0x10000, 0x10200), (0x10330, 0x10500), (0x11000, 0x11400), (0x1d100, 0x1d800), (0x1f100, 0x1fa70), (0x20000, 0x20200), (0xe0000, 0xe0080)]
PARTS = [" ", "  ", "\n", "\n\n", "\r\n", "\t", "'s", "'LL", "'\u017f", "the", " The", "1", "23", "456", "\u0301", "\u0323", "\u200d", ".", ", ", "<|eot_id|>", "<|endoftext|>", "<tool>", "</s>",
         "caf\u00e9s", "cafe\u0301s", "\u3000", "\u00a0", "\u180e", "\u0085", "/", "ABC", "aB"]


def random_text(r, longest):
    made = ""
    for _ in range(r.randrange(1, longest)):
        low, high = r.choice(BLOCKS)
        c = chr(r.randrange(low, high))
        made += r.choice(PARTS) if r.random() < 0.4 else c if unicodedata.category(c) not in ("Cn", "Cs") else ""
    return made


def train(name, texts):
    pre, normalizer, added = FORMS[name]
    made = Tokenizer(models.BPE())
    # It learns from texts that are not cut. So there are merges over the ends of words, and the ids tell where those are.
    made.pre_tokenizer, made.decoder = bytes_of(False), decoders.ByteLevel()
    if normalizer:
        made.normalizer = normalizer
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=256 + MERGES, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    made.pre_tokenizer = pre
    made.add_tokens(added)
    ids = {token.content: made.token_to_id(token.content) for token in added}
    if name == "llama3":
        made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), around("<|begin_of_text|>", None, ids)])
    elif name == "nemo":
        made.post_processor = around("<s>", "</s>", ids)
    else:
        made.post_processor = processors.ByteLevel(trim_offsets=False)
    file = json.loads(made.to_str())
    model = file["model"]
    if name == "llama3":  # words that no merge makes, which ignore_merges finds all the same
        model["ignore_merges"] = True
        model["merges"] = [pair for i, pair in enumerate(model["merges"]) if i % 9 or any("".join(pair) in other for other in model["merges"])]
    if name == "gpt2":  # the form of the oldest files: merges are texts, and much is missing
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
        model["vocab"]["<|endoftext|>"] = ids["<|endoftext|>"]
        for key in ("type", "byte_fallback", "ignore_merges"):
            del model[key]
        del file["pre_tokenizer"]["use_regex"]
    return json.dumps(file, separators=(",", ":")) + "\n"


def main():
    directory = HERE / "tokenizers"
    if len(sys.argv) == 3:
        r = random.Random(int(sys.argv[1]))
        library = {name: Tokenizer.from_file(str(directory / (name + ".json"))) for name in FORMS}
        with open(pathlib.Path(sys.argv[2]) / "texts.jsonl", "w") as out:
            for _ in range(int(sys.argv[1])):
                text = random_text(r, 40)
                out.write(json.dumps([text, {name: t.encode(text, add_special_tokens=False).ids for name, t in library.items()}]) + "\n")
        return
    directory.mkdir(exist_ok=True)
    r = random.Random(8)
    pages = TEXTS * 3 + [random_text(r, 16) for _ in range(2000)] + [(ROOT / "LICENSE").read_text()]
    r = random.Random(7)
    texts = TEXTS + [random_text(r, 16) for _ in range(60)]
    ids = {}
    for name in FORMS:
        path = directory / (name + ".json")
        path.write_text(train(name, pages))
        library = Tokenizer.from_file(str(path))
        ids[name] = [library.encode(text, add_special_tokens=False).ids for text in texts]
        print(f"{path}: {path.stat().st_size} bytes, {library.get_vocab_size()} ids")
    golden = {"made_by": "tokenizers " + tokenizers.__version__, "texts": texts, "ids": ids}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in golden.items())
    (directory / "ids.json").write_text("{\n" + lines.replace("]],", "]],\n") + "\n}\n")
    print(f"{directory / 'ids.json'}: {(directory / 'ids.json').stat().st_size} bytes, {len(texts)} texts")


main()
