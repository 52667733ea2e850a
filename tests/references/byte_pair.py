"""Writes tests/references/byte_pair/: a small byte-level vocabulary made by the PyPI package
`tokenizers`, the text it was trained on, and the ids that the package gives for awkward strings.

Run from the source root: pip install tokenizers && python3 tests/references/byte_pair.py
The tests read the files only; they never run this script.
"""
import json
import os
import tokenizers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXT = """\
The gardener's daughter couldn't say when the river first rose. They'd seen it rise before,
they've seen it fall; it'll rise again, she said, and I'm not afraid, we're not afraid.

In the year 1874 the water stood 12 feet above the bridge; in 1923 it stood 15 feet above it.
"What's the use of a bridge," the miller asked, "if the river doesn't know that it is there?"
The miller's mill had 3 wheels, the baker's oven had 7 doors, and the tailor's shop had 1 window.

    The river was higher than the bridge,
    the bridge was higher than the mill,
    and the highest of all was the price of bread.


Über die Brücke gingen früher die Müller; größere Säcke trugen sie über schmälere Brücken.
Les élèves étaient déjà là: l'été, la rivière était très basse, et l'hiver très élevée.
川の水は高い。川の水は冷たい。橋の上に人がいる。橋の下に水がある。
Река была выше моста, мост был выше мельницы, мельница была выше дороги.
\tfor (int i = 0; i < 10; ++i) { total += weight[i] * value[i]; }
\tfor (int j = 0; j < 10; ++j) { total -= weight[j] * value[j]; }
😀 😀 the boats 🚣 came and went 🚣 and came again 😀...
When the water had gone, they were gathering what the river had brought: wheels, windows, doors.
They were laughing, they were singing, they were gathering the higher and the higher planks.
""" * 2

CASES = [
    "", " ", "  ", "a", " a", "a ", "  a", "the", " the river's bridge",
    "They'd said we're sure it's theirs, I'm not, you'll see, they've gone, don't",
    "THEY'D SAY IT'S 'tis ''s '' 'x",
    "in 1874 and 1923, 3.14159, 1,000,000 and ½ or Ⅳ or ٣",
    "one\ntwo\n\nthree\n\n\nfour", "line\r\nline\r\n", "\n", "\n\n\n", "\t\tx", " \n \n x",
    "spaces   before     words      ", "tab\tand\x0bvertical\x0cfeed",
    "Über größere Brücken, Müller! ÄÖÜ äöü ß", "élève déjà là", "e\u0301 as two code points",
    "川の水は高い。東京タワー", "Река была", "안녕하세요 세계", "नमस्ते दुनिया", "مرحبا بالعالم", "שלום",
    "😀 🚣 👩‍👩‍👧‍👦 🇩🇪 👍🏽", " 😀😀😀", "…—“quoted”—‘single’",
    "non\u00a0breaking\u2003em\u3000wide\u2028line\u2029end\u0085next \u00a0 x",
    "zero\u200bwidth\ufeffmark", "a\u180eb \u180e c", "nul\x00in\x01side\x7f\x1c\x1d\x1e\x1f x",
    "<|endoftext|>", "a<|endoftext|>b", "one <|endoftext|> two<|endoftext|><|endoftext|>",
    "<|endoftext", "< |endoftext|>", "<|endoftext|",
    "!!! ??? ... -- == != <= >= -> => :: // /* */ #include <vector>",
    "snake_case camelCase kebab-case x1y2 3rd", "aaaaaaaaaaaaaaaaaaaaa", "hihihihihihihihihi",
    "\U0001f600" * 5, "\ue000 private \U0010ffff", "ǅ ʰ ª º ² ⁴ ₃ 一二三", TEXT,
]

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator(
    [TEXT],
    trainers.BpeTrainer(
        vocab_size=560, min_frequency=2, show_progress=False,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "byte_pair")
os.makedirs(folder, exist_ok=True)
tokenizer.model.save(folder)
with open(os.path.join(folder, "text.txt"), "w", newline="") as file:
    file.write(TEXT)
cases = [{"text": case, "ids": tokenizer.encode(case).ids} for case in CASES]
for case in cases:
    assert tokenizer.decode(case["ids"], skip_special_tokens=False) == case["text"], case
with open(os.path.join(folder, "expected.json"), "w") as file:
    json.dump({"script": "tests/references/byte_pair.py", "tokenizers": tokenizers.__version__,
               "cases": cases}, file)
    file.write("\n")
print(tokenizer.get_vocab_size(), "tokens,", len(cases), "cases")
