//! The names of files in a hub folder.

/// The names of the files in a hub folder that describe the model: its configuration, its tokenizer, its
/// templates.
pub const ABOUT_WEIGHTS: [&str; 20] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "chat_template.json",
    "config_sentence_transformers.json",
    "modules.json",
    "preprocessor_config.json",
    "processor_config.json",
    "sentence_bert_config.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "video_preprocessor_config.json",
    "vocab.txt",
];

/// The other files beside weights that are read: an adapter's configuration, how a model of sentences pools,
/// the model card.
pub const READ_BESIDE: [&str; 3] = ["adapter_config.json", "1_Pooling/config.json", "README.md"];

/// The signature of a folder.
pub const SIGNATURE: &str = "model.sig";
