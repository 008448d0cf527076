//! The parts of a tokenizer, whichever files state them.

use super::template::Template;
use super::vocabulary::Vocabulary;

/// The algorithms of llama.cpp, by its names for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// BPE with ranks of merges.
    Gpt2,
    /// BPE with scores of tokens.
    Llama,
    /// A unigram model.
    T5,
    /// WordPiece.
    Bert,
}

impl Model {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Gpt2 => "gpt2",
            Self::Llama => "llama",
            Self::T5 => "t5",
            Self::Bert => "bert",
        }
    }
}

/// BERT's rules for letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Letters {
    pub(super) lowercase: bool,
    pub(super) strip_accents: bool,
}

/// An added token that takes white space beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stripping {
    pub(super) text: String,
    pub(super) before: bool,
    pub(super) after: bool,
}

/// A tokenizer before its special tokens are known.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// The file with the vocabulary, for errors.
    pub(super) file: &'static str,
    pub(super) model: Model,
    pub(super) pre: String,
    pub(super) vocabulary: Vocabulary,
    pub(super) merges: Vec<String>,
    /// The tokens that are put around each text; `None` if the file does not state them.
    pub(super) template: Option<Template>,
    /// Ids of special tokens that the file states, by their roles.
    pub(super) ids: Vec<(&'static str, Option<u32>)>,
    pub(super) has_space_prefix: Option<bool>,
    /// Whether the space is put before the first word of a text only, and not after special tokens.
    pub(super) is_prefix_first_only: bool,
    /// The added tokens that take the white space before or after them.
    pub(super) stripping: Vec<Stripping>,
    pub(super) removes_extra_whitespaces: Option<bool>,
    pub(super) charsmap: Vec<u8>,
    pub(super) letters: Option<Letters>,
    pub(super) notes: Vec<String>,
}

impl Parts {
    /// Makes a tokenizer that has a vocabulary and nothing else.
    pub(super) fn new(file: &'static str, model: Model, vocabulary: Vocabulary) -> Self {
        Self {
            file,
            model,
            pre: "default".to_owned(),
            vocabulary,
            merges: Vec::new(),
            template: None,
            ids: Vec::new(),
            has_space_prefix: None,
            is_prefix_first_only: false,
            stripping: Vec::new(),
            removes_extra_whitespaces: None,
            charsmap: Vec::new(),
            letters: None,
            notes: Vec::new(),
        }
    }
}
