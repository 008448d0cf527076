"""Trains a byte-level BPE for each pre-tokenizer in the JSON list that argument 1 names, into folders of argument 2.

Each folder gets a tokenizer.json, its companions, and `expected.json`: the texts with their ids.
"""

import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

for entry in json.loads(Path(sys.argv[1]).read_text()):
    folder = Path(sys.argv[2]) / entry["name"]
    folder.mkdir()
    tokenizer = Tokenizer(models.BPE())
    described = json.loads(tokenizer.to_str())
    described["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": entry["steps"]}
    described["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    tokenizer = Tokenizer.from_str(json.dumps(described))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=1100, initial_alphabet=alphabet, special_tokens=["<s>", "<|endoftext|>"], show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 2, trainer)
    tokenizer.add_tokens([AddedToken("<|user|>", normalized=False)])
    if entry["bos"]:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    described = json.loads(tokenizer.to_str())
    described["model"]["ignore_merges"] = entry["keeps_words"]
    if not entry["pairs"]:
        merges = described["model"]["merges"]
        described["model"]["merges"] = [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
    (folder / "tokenizer.json").write_text(json.dumps(described, ensure_ascii=False))
    config = {"bos_token": "<s>", "eos_token": {"content": "<|endoftext|>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    final = Tokenizer.from_file(str(folder / "tokenizer.json"))
    texts = TEXTS + SPECIAL
    expected = [[text, final.encode(text).ids] for text in texts]
    (folder / "expected.json").write_text(json.dumps(expected))
