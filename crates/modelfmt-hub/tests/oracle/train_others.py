"""Trains tokenizers of the other kinds, into folders of argument 1: each has its files, and `expected.json`, the texts with their ids."""

import io
import json
import sys
from pathlib import Path

import sentencepiece
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

ROOT = Path(sys.argv[1])
SPACE = "\u2581"


def sentence_piece(**settings: object) -> bytes:
    """Trains a model, and returns the bytes of its `tokenizer.model`."""
    written = io.BytesIO()
    texts = iter([text for text in TEXTS * 4 if text.strip()])
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=texts, model_writer=written, character_coverage=1.0, num_threads=1, minloglevel=2, hard_vocab_limit=False, **settings
    )
    return written.getvalue()


def save(name: str, files: dict[str, object], expected: list[tuple[str, list[int]]]) -> None:
    """Writes a folder."""
    folder = ROOT / name
    folder.mkdir()
    for file, content in files.items():
        if isinstance(content, bytes):
            (folder / file).write_bytes(content)
        else:
            (folder / file).write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
    (folder / "expected.json").write_text(json.dumps(expected))


def ids_of_model(model: bytes, before: list[int], after: list[int]) -> list[tuple[str, list[int]]]:
    """Returns sentencepiece's ids for each text."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [(text, before + processor.encode(text) + after) for text in TEXTS + SPECIAL]


def ids(tokenizer: Tokenizer, texts: list[str]) -> list[tuple[str, list[int]]]:
    """Returns the ids of the library tokenizers for each text."""
    return [(text, tokenizer.encode(text).ids) for text in texts]


def merges_of(model: bytes) -> list[tuple[str, str]]:
    """Returns every pair of tokens that makes a token, the pairs of the best tokens first."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = {processor.id_to_piece(i): i for i in range(processor.vocab_size()) if not processor.is_control(i)}
    found = []
    for piece, i in pieces.items():
        pairs = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
        pairs = [pair for pair in pairs if pair[0] in pieces and pair[1] in pieces]
        found += [(processor.get_score(i), pair) for pair in sorted(pairs, key=lambda pair: (pieces[pair[0]], pieces[pair[1]]))]
    return [pair for _, pair in sorted(found, key=lambda one: -one[0])]


def character_bpe(model: bytes, normalizer: object, pre_tokenizer: object) -> Tokenizer:
    """Makes a tokenizer with the tokens of a `tokenizer.model`, as the hub writes them into a tokenizer.json."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocab = {processor.id_to_piece(i): i for i in range(processor.vocab_size())}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges_of(model), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>", AddedToken("<|endoftext|>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<|user|>", normalized=False)])
    return tokenizer


def field(message: bytes, wanted: int) -> bytes:
    """Returns the bytes of a field of a protobuf message."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while True:
        key = varint()
        length = {0: lambda: varint() * 0, 1: lambda: 8, 2: varint, 5: lambda: 4}[key & 7]()
        if key == wanted << 3 | 2:
            return message[at : at + length]
        at += length


LLAMA = {"model_type": "bpe", "byte_fallback": True, "vocab_size": 900, "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "split_digits": True}
llama = sentence_piece(**LLAMA)
save("llama-model", {"tokenizer.model": llama, "config.json": {"vocab_size": 907}}, ids_of_model(llama, [1], []))
save(
    "llama-no-prefix",
    {"tokenizer.model": (bare := sentence_piece(**LLAMA, add_dummy_prefix=False)), "tokenizer_config.json": {"add_bos_token": False, "add_eos_token": True}},
    ids_of_model(bare, [], [2]),
)
legacy = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
old = character_bpe(llama, legacy, None)
old.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
save("llama-json", {"tokenizer.json": old.to_str()}, ids(old, TEXTS + SPECIAL))
save("llama-both", {"tokenizer.json": old.to_str(), "tokenizer.model": llama}, ids(old, TEXTS + SPECIAL))
meta = character_bpe(llama, None, pre_tokenizers.Metaspace(prepend_scheme="always", split=False))
save("llama-metaspace", {"tokenizer.json": meta.to_str()}, ids(meta, [text for text in TEXTS if not text.startswith(" ")]))
spaces = [SPACE * count for count in range(2, 9)] + ["\n" * count for count in range(1, 5)]
gemma = sentence_piece(**LLAMA, add_dummy_prefix=False, user_defined_symbols=spaces)
save("gemma-model", {"tokenizer.model": gemma}, ids_of_model(gemma, [1], []))
like = character_bpe(gemma, normalizers.Replace(" ", SPACE), pre_tokenizers.Split(" ", "merged_with_previous"))
like.add_tokens([AddedToken(text, normalized=False) for text in spaces])
save("gemma-json", {"tokenizer.json": like.to_str()}, ids(like, [text for text in TEXTS if "  " not in text]))

unigram = sentence_piece(model_type="unigram", vocab_size=700, normalization_rule_name="nmt_nfkc")
save("unigram-model", {"spiece.model": unigram}, ids_of_model(unigram, [], [2]))
of_unigram = sentencepiece.SentencePieceProcessor(model_proto=unigram)
scores = [(of_unigram.id_to_piece(i), of_unigram.get_score(i)) for i in range(of_unigram.vocab_size())]
t5 = Tokenizer(models.Unigram(scores, unk_id=0, byte_fallback=False))
t5.normalizer = normalizers.Precompiled(field(field(unigram, 3), 2))
t5.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
t5.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
t5.add_special_tokens(["<unk>", "<s>", "</s>", AddedToken("<|endoftext|>", normalized=False)])
save("unigram-json", {"tokenizer.json": t5.to_str(), "special_tokens_map.json": {"eos_token": "</s>", "unk_token": "<unk>"}}, ids(t5, TEXTS + SPECIAL[:2]))

for name, lowercase in [("bert-uncased", True), ("bert-cased", False)]:
    bert = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=10000))
    bert.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    bert.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    bert.train_from_iterator(TEXTS * 2, trainers.WordPieceTrainer(vocab_size=700, special_tokens=marks, show_progress=False))
    bert.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    config = {mark: {"content": text} for mark, text in zip(["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"], marks)}
    expected = ids(bert, TEXTS + ["[CLS]a[MASK]b[SEP]"])
    save(name, {"tokenizer.json": bert.to_str(), "tokenizer_config.json": config, "config.json": {"type_vocab_size": 2}}, expected)
    lines = sorted(bert.get_vocab().items(), key=lambda item: item[1])
    text = "".join(f"{token}\n" for token, _ in lines)
    save(f"{name}-txt", {"vocab.txt": text, "tokenizer_config.json": {"do_lower_case": lowercase}}, expected)

for name, settings, around in [("gpt2", {"tokenizer_class": "GPT2Tokenizer"}, ([], [])), ("roberta", {"tokenizer_class": "RobertaTokenizerFast"}, ([0], [1]))]:
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet, special_tokens=["<s>", "</s>"], show_progress=False)
    words.train_from_iterator(TEXTS * 2, trainer)
    described = json.loads(words.to_str())["model"]
    merges = "".join(f"{first} {second}\n" for first, second in described["merges"])
    expected = [(text, around[0] + words.encode(text).ids + around[1]) for text in TEXTS]
    companions = {"tokenizer_config.json": settings, "special_tokens_map.json": {"bos_token": "<s>", "eos_token": "</s>"}}
    save(name, {"vocab.json": described["vocab"], "merges.txt": "#version: 0.2\n" + merges, **companions}, expected)
