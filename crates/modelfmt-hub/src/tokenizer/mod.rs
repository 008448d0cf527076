//! Tokenizers: converts the files of a folder to the keys that llama.cpp reads.
//!
//! | files | `tokenizer.ggml.model` |
//! | --- | --- |
//! | `tokenizer.json` with BPE over bytes; `vocab.json` and `merges.txt` | `gpt2` |
//! | `tokenizer.json` with BPE over characters; `tokenizer.model` with BPE | `llama` |
//! | `tokenizer.json` or `tokenizer.model` with a unigram model | `t5` |
//! | `tokenizer.json` with WordPiece; `vocab.txt` | `bert` |
//!
//! `tokenizer.ggml.pre` names the way in which llama.cpp cuts texts before it looks for tokens. The name
//! follows from the patterns in `tokenizer.json`.
//!
//! ```
//! use modelfmt_hub::{Config, Key, Tokenizer, TokenizerFiles, TokenizerOptions};
//!
//! let mut files = TokenizerFiles::new();
//! files.insert("vocab.json", br#"{"a": 0, "b": 1, "ab": 2}"#.to_vec());
//! files.insert("merges.txt", b"#version: 0.2\na b\n".to_vec());
//! files.insert("tokenizer_config.json", br#"{"tokenizer_class": "GPT2Tokenizer"}"#.to_vec());
//! let config = Config::parse(br#"{"model_type": "gpt2"}"#)?;
//! let tokenizer = Tokenizer::read(&files, &config, &TokenizerOptions::new())?.unwrap();
//! assert!(tokenizer.keys.contains(&("tokenizer.ggml.pre".to_owned(), Key::Text("gpt-2".to_owned()))));
//! # Ok::<(), modelfmt_hub::MapError>(())
//! ```

mod chat;
mod error;
mod files;
mod gpt2;
mod hub_json;
mod merges;
mod normalizer;
mod parts;
mod patterns;
pub(crate) mod pre;
mod protobuf;
mod sentencepiece;
mod sequence;
mod special;
mod template;
mod vocabulary;
mod wordpiece;

pub use files::Files;

use crate::{Config, Key, MapError};
use error::fault;
use parts::{Model, Parts};
use sentencepiece::{Algorithm, SentencePiece};
use special::{Special, SpecialTokenFiles};
use vocabulary::{Kind, Token};

/// What a caller knows about a tokenizer in addition to its files.
#[derive(Clone, Debug, Default)]
pub struct Options {
    rows: Option<u64>,
    pre: Option<String>,
    name: Option<String>,
}

impl Options {
    /// Makes options for a caller who knows nothing in addition to the files.
    #[must_use]
    pub const fn new() -> Self {
        Self { rows: None, pre: None, name: None }
    }

    /// Sets the number of tokens of the model: the rows of its embedding. The default is `vocab_size` of the
    /// config.
    #[must_use]
    pub const fn rows(mut self, rows: Option<u64>) -> Self {
        self.rows = rows;
        self
    }

    /// Sets llama.cpp's name of the pre-tokenizer, so that it is not derived from the files.
    #[must_use]
    pub fn pre(mut self, name: Option<&str>) -> Self {
        self.pre = name.map(str::to_owned);
        self
    }

    /// Sets the name of the model (`general.name`). By the name, llama.cpp finds out how the tokens of some
    /// models treat spaces beside them.
    #[must_use]
    pub fn name(mut self, name: Option<&str>) -> Self {
        self.name = name.map(str::to_owned);
        self
    }
}

/// A tokenizer as keys of GGUF.
#[derive(Clone, Debug, Default)]
pub struct Tokenizer {
    /// The keys with their values.
    pub keys: Vec<(String, Key)>,
    /// What llama.cpp does differently from the files, in sentences.
    pub notes: Vec<String>,
}

impl Tokenizer {
    /// Reads the files. `None` if none of them has a vocabulary.
    ///
    /// # Errors
    /// [`MapError::Tokenizer`] for a file that is not what it should be, or that has no counterpart in
    /// llama.cpp, and [`MapError::UnknownPreTokenizer`] if the name of its pre-tokenizer is not known.
    pub fn read(files: &Files, config: &Config, options: &Options) -> Result<Option<Self>, MapError> {
        let special_files = SpecialTokenFiles::read(files, config)?;
        let Some(mut parts) = parts(files, &special_files, options)? else { return Ok(None) };
        check_charsmap(&parts)?;
        let special = Special::find(&special_files, &parts);
        let mut notes = std::mem::take(&mut parts.notes);
        notes.extend(special.notes.iter().cloned());
        if parts.letters.is_some_and(|letters| letters.strip_accents) {
            notes.push(format!(
                "llama.cpp strips marks of Korean and of South Asian scripts otherwise than {} says",
                parts.file
            ));
        }
        notes.extend(spaces(&parts, options.name.as_deref()));
        let model = parts.model;
        let mut keys = own_keys(&mut parts);
        for token in parts.vocabulary.iter_mut() {
            match model {
                Model::Bert => token.text = wordpiece::marked(token),
                Model::Llama | Model::T5 if token.kind == Kind::UserDefined => {
                    token.text = hub_json::with_spaces(&token.text);
                }
                _ => {}
            }
        }
        let rows = options.rows.or_else(|| config.count("vocab_size").ok());
        let file = parts.file;
        let (tokens, left_out) = parts.vocabulary.finish(file, rows)?;
        vocabulary::check_loadable(file, &tokens, model == Model::Llama)?;
        if left_out > 0 {
            notes.push(format!(
                "{left_out} added tokens are left out, because the embedding has only {} rows",
                tokens.len()
            ));
        }
        keys.extend(special.keys(model, tokens.len()));
        keys.extend(chat::keys(files, &special_files)?);
        keys.extend(lists(model, tokens));
        Ok(Some(Self { keys, notes }))
    }
}

/// The tokens of a tokenizer, as its own files have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// The kind of the tokenizer: `BPE`, `Unigram` or `WordPiece`.
    pub kind: &'static str,
    /// The texts of the tokens by their ids. An id without a token has a text of its own.
    pub tokens: Vec<String>,
    /// The merges of BPE over bytes, two tokens with a space between.
    pub merges: Vec<String>,
}

impl Vocabulary {
    /// Reads the files. `None` if none of them has a vocabulary.
    ///
    /// # Errors
    /// [`MapError::Tokenizer`] for a file that is not what it should be.
    pub fn read(files: &Files, config: &Config) -> Result<Option<Self>, MapError> {
        // The way in which texts are cut does not matter here.
        let options = Options::new().pre(Some("default"));
        let Some(parts) = parts(files, &SpecialTokenFiles::read(files, config)?, &options)? else {
            return Ok(None);
        };
        let kind = match parts.model {
            Model::Gpt2 | Model::Llama => "BPE",
            Model::T5 => "Unigram",
            Model::Bert => "WordPiece",
        };
        let (tokens, _) = parts.vocabulary.finish(parts.file, None)?;
        let tokens = tokens.into_iter().map(|token| token.text).collect();
        Ok(Some(Self { kind, tokens, merges: parts.merges }))
    }
}

fn name(key: &str) -> String {
    format!("tokenizer.ggml.{key}")
}

/// Reads the parts from the first file that has a vocabulary.
fn parts(
    files: &Files,
    special_files: &SpecialTokenFiles<'_>,
    options: &Options,
) -> Result<Option<Parts>, MapError> {
    let pre = options.pre.as_deref();
    if let Some(mut parts) = hub_json::read(files, pre)? {
        if let Some(flag) = special_files.flag("add_prefix_space").filter(|_| parts.model == Model::Llama) {
            parts.has_space_prefix = Some(flag);
        }
        keep_spaces(&mut parts, special_files, pre);
        return Ok(Some(parts));
    }
    let mut parts = match sentencepiece::file(files) {
        Some((file, bytes)) => of_sentencepiece(file, SentencePiece::parse(file, bytes)?, special_files),
        None => match gpt2::read(files, special_files.text("tokenizer_class"), pre)? {
            Some(parts) => parts,
            None => match wordpiece::read(files, special_files.flag("do_lower_case") != Some(false))? {
                Some(parts) => parts,
                None => return Ok(None),
            },
        },
    };
    if let Some(pre) = pre {
        pre.clone_into(&mut parts.pre);
    }
    keep_spaces(&mut parts, special_files, pre);
    special_files.add_tokens(&mut parts.vocabulary)?;
    Ok(Some(parts))
}

/// Chooses the name of the pre-tokenizer that keeps the spaces before punctuation in the text of tokens, if
/// the files say so and the caller does not state a name.
fn keep_spaces(parts: &mut Parts, special_files: &SpecialTokenFiles<'_>, pre: Option<&str>) {
    let keeps = special_files.flag("clean_up_tokenization_spaces") == Some(false);
    if let Some(name) = pre::uncleaned(&parts.pre).filter(|_| keeps && pre.is_none()) {
        name.clone_into(&mut parts.pre);
    }
}

/// Returns notes about spaces that llama.cpp treats otherwise than the files say. `name` is that of the
/// model.
fn spaces(parts: &Parts, name: Option<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    if parts.has_space_prefix == Some(true) && parts.is_prefix_first_only {
        notes.push(format!(
            "{} puts a space before the first word of a text only, and llama.cpp also before a word after a special token",
            parts.file
        ));
    }
    let name = name.unwrap_or_default().to_lowercase();
    let strips_after = name.contains("phi-3") || name.contains("phi3");
    // A mask is in no usual text.
    let is_other = |text: &str| !text.to_lowercase().contains("mask");
    let mut kept = parts
        .stripping
        .iter()
        .filter(|token| is_other(&token.text) && (token.before || (token.after && !strips_after)));
    if let Some(first) = kept.next() {
        let more = match kept.count() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        notes.push(format!(
            "{} drops the spaces beside the token {}{more}, and llama.cpp keeps them",
            parts.file,
            error::quoted(&first.text)
        ));
    }
    notes
}

/// Makes the parts of a `tokenizer.model`.
fn of_sentencepiece(
    file: &'static str,
    model: SentencePiece,
    special_files: &SpecialTokenFiles<'_>,
) -> Parts {
    let kind = if model.algorithm == Algorithm::Bpe { Model::Llama } else { Model::T5 };
    let mut parts = Parts::new(file, kind, model.vocabulary);
    parts.ids = model.ids.to_vec();
    parts.has_space_prefix = Some(special_files.flag("add_prefix_space").unwrap_or(model.has_dummy_prefix));
    if kind == Model::T5 {
        parts.removes_extra_whitespaces = Some(model.removes_extra_whitespaces);
        parts.charsmap = model.charsmap;
        return parts;
    }
    if model.removes_extra_whitespaces {
        parts.notes.push(format!("{file} drops spaces beside spaces, and llama.cpp keeps them"));
    }
    if !model.charsmap.is_empty() {
        parts.notes.push(format!("{file} normalizes characters, and llama.cpp does not"));
    }
    parts
}

/// Fails for a table of replacements without its two parts, which llama.cpp does not load.
fn check_charsmap(parts: &Parts) -> Result<(), MapError> {
    let is_sound = match parts.charsmap.split_first_chunk() {
        Some((len, rest)) => usize::try_from(u32::from_le_bytes(*len))
            .is_ok_and(|len| len.is_multiple_of(4) && len < rest.len()),
        None => parts.charsmap.is_empty(),
    };
    if is_sound { Ok(()) } else { Err(fault(parts.file, "its `precompiled_charsmap` is broken")) }
}

/// Returns the keys that need no ids.
fn own_keys(parts: &mut Parts) -> Vec<(String, Key)> {
    let mut keys = vec![
        (name("model"), Key::Text(parts.model.name().to_owned())),
        (name("pre"), Key::Text(std::mem::take(&mut parts.pre))),
    ];
    if let Some(flag) = parts.has_space_prefix {
        keys.push((name("add_space_prefix"), Key::Bool(flag)));
    }
    if let Some(flag) = parts.removes_extra_whitespaces {
        keys.push((name("remove_extra_whitespaces"), Key::Bool(flag)));
    }
    if let Some(letters) = parts.letters {
        keys.push((name("normalizer.lowercase"), Key::Bool(letters.lowercase)));
        keys.push((name("normalizer.strip_accents"), Key::Bool(letters.strip_accents)));
    }
    if !parts.charsmap.is_empty() {
        keys.push((name("precompiled_charsmap"), Key::Bytes(std::mem::take(&mut parts.charsmap))));
    }
    if parts.model == Model::Gpt2 {
        keys.push((name("merges"), Key::Texts(std::mem::take(&mut parts.merges))));
    }
    keys
}

/// Returns the lists with a value for each token.
fn lists(model: Model, tokens: Vec<Token>) -> Vec<(String, Key)> {
    let mut keys =
        vec![(name("token_type"), Key::I32s(tokens.iter().map(|token| token.kind as i32).collect()))];
    if matches!(model, Model::Llama | Model::T5) {
        keys.push((name("scores"), Key::F32s(tokens.iter().map(|token| token.score).collect())));
    }
    keys.push((name("tokens"), Key::Texts(tokens.into_iter().map(|token| token.text).collect())));
    keys
}
