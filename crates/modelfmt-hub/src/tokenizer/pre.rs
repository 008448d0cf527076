//! Pre-tokenizers: how a text is cut before tokens are looked for, and llama.cpp's names for the ways to do
//! so.

use modelfmt_value::Value;

use super::normalizer::SPACE;
use super::patterns::{
    BAILING, BLOOM, DEEPSEEK_ASIAN, DEEPSEEK_LETTERS, DEEPSEEK_PUNCTUATION, DEEPSEEK_V3, DEEPSEEK_V3_ASIAN,
    EXAONE_MOE, JAIS2, LLAMA3, MINICPM, O200K, QWEN2, QWEN35, SEED, TEKKEN, TRIPLES, UNCONTRACTED,
};
use super::sequence::flat;
use crate::MapError;
use Step::{Bytes, DigitRuns, Digits, Punctuation, Split, Words};

/// A step of a pre-tokenizer, with its texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step<T = String> {
    /// Each byte becomes a character.
    Bytes,
    /// GPT-2's own pattern, which `ByteLevel` has built in.
    Words,
    /// Each digit alone.
    Digits,
    /// Digits in runs.
    DigitRuns,
    /// Punctuation in runs.
    Punctuation,
    /// Each match of a pattern, and the text between matches.
    Split(T),
    /// Each space begins a word, in SentencePiece's way.
    Metaspace {
        has_prefix: bool,
        /// Whether only the first word of a text begins with a space that is not there.
        is_first_only: bool,
    },
    /// White space is dropped.
    WhiteSpace,
    /// Spaces end words.
    SpaceSplit,
    /// BERT's rules.
    Bert,
    /// Another step, by its name.
    Other(T),
}

impl Step {
    /// Returns the same step with borrowed texts.
    fn borrowed(&self) -> Step<&str> {
        match self {
            Split(pattern) => Split(pattern),
            Step::Other(name) => Step::Other(name),
            Bytes => Bytes,
            Words => Words,
            Digits => Digits,
            DigitRuns => DigitRuns,
            Punctuation => Punctuation,
            Step::Metaspace { has_prefix, is_first_only } => {
                Step::Metaspace { has_prefix: *has_prefix, is_first_only: *is_first_only }
            }
            Step::WhiteSpace => Step::WhiteSpace,
            Step::SpaceSplit => Step::SpaceSplit,
            Step::Bert => Step::Bert,
        }
    }
}

/// The names of all pre-tokenizers that llama.cpp loads.
pub const PRE_TOKENIZERS: &[&str] = &[
    "a.x-4.0",
    "afmoe",
    "bailingmoe",
    "bailingmoe2",
    "bloom",
    "chameleon",
    "chatglm-bpe",
    "codeshell",
    "cohere2moe",
    "command-r",
    "dbrx",
    "deepseek-coder",
    "deepseek-llm",
    "deepseek-r1-qwen",
    "deepseek-v3",
    "default",
    "exaone",
    "exaone-moe",
    "exaone4",
    "f2llmv2",
    "falcon",
    "falcon-h1",
    "falcon3",
    "gemma4",
    "gigachat",
    "glm4",
    "glm5",
    "gpt-2",
    "gpt-4o",
    "gpt3-finnish",
    "granite-docling",
    "granite-embed-multi-311m",
    "granite-embed-multi-97m",
    "grok-2",
    "hunyuan",
    "hunyuan-dense",
    "hy_v4",
    "jais",
    "jais-2",
    "jina-de",
    "jina-es",
    "jina-v1-en",
    "jina-v2-code",
    "jina-v2-de",
    "jina-v2-es",
    "jina-v5-nano",
    "joyai-llm",
    "kanana2",
    "kimi-k2",
    "kormo",
    "laguna",
    "lfm2",
    "llada-moe",
    "llama-bpe",
    "llama-v3",
    "llama3",
    "llama4",
    "megrez",
    "mellum",
    "mellum2",
    "midm-2.0",
    "minerva-7b",
    "minicpm5",
    "minimax-m2",
    "modern-bert",
    "mpt",
    "olmo",
    "phi-2",
    "pixtral",
    "poro-chat",
    "qwen2",
    "qwen35",
    "refact",
    "roberta-bpe",
    "sarvam-moe",
    "seed-coder",
    "smaug-bpe",
    "smollm",
    "solar-open",
    "spark2_5",
    "stablelm2",
    "starcoder",
    "superbpe",
    "talkie",
    "tekken",
    "tiny_aya",
    "trillion",
    "ufakzeka",
    "viking",
    "whitespace",
    "youtu",
];

/// A pre-tokenizer of llama.cpp.
struct Known {
    name: &'static str,
    /// Whether a word that is a token stays whole whatever the merges say (`ignore_merges`).
    keeps_words: bool,
    steps: &'static [Step<&'static str>],
}

const fn known(name: &'static str, keeps_words: bool, steps: &'static [Step<&'static str>]) -> Known {
    Known { name, keeps_words, steps }
}

/// Pre-tokenizers that llama.cpp computes in a simpler way, with the texts for which that makes a difference.
const NEARLY: &[(&str, &str)] = &[
    ("gpt-4o", "letters with combining marks and capital letters beyond ASCII"),
    ("tekken", "letters with combining marks and capital letters beyond ASCII"),
    ("tiny_aya", "digits beside letters of scripts without spaces"),
];

/// Returns the texts that llama.cpp cuts differently than the hub, for the pre-tokenizer with this name.
pub(super) fn exceptions(name: &str) -> Option<&'static str> {
    NEARLY.iter().find(|(own, _)| *own == name).map(|(_, texts)| *texts)
}

/// Every pre-tokenizer whose name can be found. If llama.cpp has several names for one, it is listed with the
/// best known.
const KNOWN: &[Known] = &[
    known("llama-bpe", true, &[Split(LLAMA3), Bytes]),
    known("dbrx", false, &[Split(LLAMA3), Bytes]),
    known("qwen2", false, &[Split(QWEN2), Bytes]),
    known("qwen35", false, &[Split(QWEN35), Bytes]),
    known("gpt-2", false, &[Words, Bytes]),
    known("starcoder", false, &[Digits, Words, Bytes]),
    known("falcon", false, &[Punctuation, Words, Bytes, Split("[0-9][0-9][0-9]")]),
    known("falcon", false, &[Punctuation, Words, Bytes, DigitRuns, Split("[0-9][0-9][0-9]")]),
    known(
        "deepseek-llm",
        false,
        &[
            Split(r"[\r\n]"),
            Split(DEEPSEEK_LETTERS),
            Split(DEEPSEEK_PUNCTUATION),
            Split(r"\s+$"),
            Split(DEEPSEEK_ASIAN),
            Digits,
            Bytes,
        ],
    ),
    known(
        "deepseek-coder",
        false,
        &[Split(r"[\r\n]"), Split(r"\s?\p{L}+"), Split(r"\s?\p{P}+"), Split(DEEPSEEK_ASIAN), Digits, Bytes],
    ),
    known("deepseek-v3", false, &[Split(r"\p{N}{1,3}"), Split(DEEPSEEK_V3_ASIAN), Split(DEEPSEEK_V3), Bytes]),
    known("tekken", true, &[Split(TEKKEN), Bytes]),
    known("gpt-4o", false, &[Split(O200K), Bytes]),
    known("tiny_aya", false, &[Split(TRIPLES), Split(O200K), Bytes]),
    known("bloom", false, &[Split(BLOOM), Bytes]),
    known("viking", false, &[Split(BLOOM), Digits, Bytes]),
    known("bailingmoe", false, &[Split(BAILING), Bytes]),
    known("seed-coder", false, &[Split(SEED), Bytes]),
    known("exaone-moe", false, &[Split(EXAONE_MOE), Bytes]),
    known("jais-2", false, &[Split(JAIS2), Bytes]),
    known("minicpm5", true, &[Split(r"\p{N}{1,3}"), Split(MINICPM), Bytes]),
    known("ufakzeka", false, &[Split(UNCONTRACTED), Bytes]),
];

/// Pre-tokenizers, each with another name of the same one, under which llama.cpp keeps the spaces before
/// punctuation when it makes a text of tokens.
const UNCLEANED: &[(&str, &str)] = &[("bloom", "poro-chat"), ("gpt-2", "trillion"), ("starcoder", "smollm")];

/// Returns the name of the same pre-tokenizer under which llama.cpp keeps all spaces, if there is one.
pub(super) fn uncleaned(name: &str) -> Option<&'static str> {
    UNCLEANED.iter().find(|(own, _)| *own == name).map(|(_, other)| *other)
}

/// Returns llama.cpp's name for a pre-tokenizer of bytes; `None` if no name is known here.
pub(super) fn name(steps: &[Step], keeps_words: bool) -> Option<&'static str> {
    let found = KNOWN.iter().find(|known| {
        known.keeps_words == keeps_words && steps.iter().map(Step::borrowed).eq(known.steps.iter().copied())
    });
    found.map(|known| known.name)
}

/// Returns the pre-tokenizer with this name of llama.cpp in the form of `tokenizer.json`, and whether a word
/// that is a token stays whole whatever the merges say. `None` for a name that is not known here.
pub(crate) fn written(name: &str) -> Option<(Value, bool)> {
    let name = UNCLEANED.iter().find(|(_, other)| *other == name).map_or(name, |(own, _)| *own);
    let known = KNOWN.iter().find(|known| known.name == name)?;
    let mut steps: Vec<Value> = Vec::new();
    let mut rest = known.steps;
    while let Some((step, after)) = rest.split_first() {
        rest = match (step, after) {
            // One step of the file has both GPT-2's pattern and its bytes.
            (Words, [Bytes, after @ ..]) => {
                steps.push(byte_level(true));
                after
            }
            _ => {
                steps.push(value_of(step)?);
                after
            }
        };
    }
    let value = match steps.len() {
        1 => steps.pop()?,
        _ => object([("type", Value::from("Sequence")), ("pretokenizers", steps.into_iter().collect())]),
    };
    Some((value, known.keeps_words))
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.into_iter().collect())
}

fn byte_level(has_pattern: bool) -> Value {
    object([
        ("type", "ByteLevel".into()),
        ("add_prefix_space", false.into()),
        ("trim_offsets", true.into()),
        ("use_regex", has_pattern.into()),
    ])
}

fn value_of(step: &Step<&str>) -> Option<Value> {
    let digits = |alone: bool| object([("type", "Digits".into()), ("individual_digits", alone.into())]);
    Some(match step {
        Bytes => byte_level(false),
        Digits => digits(true),
        DigitRuns => digits(false),
        Punctuation => object([("type", "Punctuation".into()), ("behavior", "Contiguous".into())]),
        Split(pattern) => object([
            ("type", "Split".into()),
            ("pattern", object([("Regex", Value::from(*pattern))])),
            ("behavior", "Isolated".into()),
            ("invert", false.into()),
        ]),
        _ => return None,
    })
}

/// Reads the steps of the pre-tokenizer in a `tokenizer.json`.
pub(super) fn steps(file: &str, value: Option<&Value>) -> Result<Vec<Step>, MapError> {
    let mut steps = Vec::new();
    for value in flat(file, value, "pretokenizers")? {
        match step(&value) {
            Words => steps.extend([Words, Bytes]),
            step => steps.push(step),
        }
    }
    Ok(steps)
}

fn step(value: &Value) -> Step {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let flag = |key: &str| value.get(key).and_then(Value::as_bool);
    let kind = text("type").unwrap_or_default();
    match kind {
        "ByteLevel" if flag("add_prefix_space") == Some(true) => {
            Step::Other("ByteLevel with add_prefix_space".to_owned())
        }
        "ByteLevel" if flag("use_regex") == Some(false) => Bytes,
        "ByteLevel" => Words,
        "Digits" if flag("individual_digits") == Some(true) => Digits,
        "Digits" => DigitRuns,
        "Punctuation" if text("behavior") == Some("Contiguous") => Punctuation,
        "Metaspace" if text("replacement").is_none_or(|text| text == SPACE.to_string()) => {
            let scheme = text("prepend_scheme");
            let has_prefix = scheme.map(|scheme| scheme != "never").or(flag("add_prefix_space"));
            Step::Metaspace { has_prefix: has_prefix.unwrap_or(true), is_first_only: scheme == Some("first") }
        }
        "WhitespaceSplit" => Step::WhiteSpace,
        "BertPreTokenizer" => Step::Bert,
        "Split" => split_step(value),
        other => Step::Other(other.to_owned()),
    }
}

fn split_step(value: &Value) -> Step {
    let behavior = value.get("behavior").and_then(Value::as_str).unwrap_or_default();
    let invert = value.get("invert").and_then(Value::as_bool) == Some(true);
    let pattern = |kind: &str| value.get("pattern")?.get(kind)?.as_str();
    match (pattern("Regex"), pattern("String")) {
        // For a pattern that matches everything, it makes no difference whether its matches are kept or the
        // text between them is removed.
        (Some(pattern), _)
            if (behavior, invert) == ("Isolated", false) || (behavior, invert) == ("Removed", true) =>
        {
            let escaped = pattern.replace('\r', r"\r").replace('\n', r"\n").replace('\t', r"\t");
            Split(escaped)
        }
        (_, Some(" ")) if behavior == "MergedWithPrevious" && !invert => Step::SpaceSplit,
        _ => Step::Other(format!("Split with behavior {behavior:?}")),
    }
}

/// Describes the steps in a few words, for an error.
pub(super) fn describe(steps: &[Step], keeps_words: bool) -> String {
    let step = |step: &Step| match step {
        Bytes => "ByteLevel".to_owned(),
        Words => "GPT-2's words".to_owned(),
        Digits => "Digits".to_owned(),
        DigitRuns => "Digits in runs".to_owned(),
        Punctuation => "Punctuation".to_owned(),
        Split(pattern) => format!("Split {}", super::error::quoted(pattern)),
        Step::Metaspace { .. } => "Metaspace".to_owned(),
        Step::WhiteSpace => "WhitespaceSplit".to_owned(),
        Step::SpaceSplit => "Split \" \"".to_owned(),
        Step::Bert => "BertPreTokenizer".to_owned(),
        Step::Other(name) => name.clone(),
    };
    let mut steps: Vec<String> = steps.iter().map(step).collect();
    if keeps_words {
        steps.push("ignore_merges".to_owned());
    }
    if steps.is_empty() { "none".to_owned() } else { steps.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use modelfmt_value::json;

    #[test]
    fn known_names_are_those_of_llama_cpp() {
        assert!(KNOWN.iter().all(|known| PRE_TOKENIZERS.contains(&known.name)));
        for (own, other) in UNCLEANED {
            assert!(
                PRE_TOKENIZERS.contains(other) && written(own).is_some() && written(own) == written(other)
            );
        }
        assert!(PRE_TOKENIZERS.is_sorted());
    }

    #[test]
    fn no_two_entries_are_the_same() {
        for (number, one) in KNOWN.iter().enumerate() {
            let mut others = KNOWN.iter().skip(number + 1);
            let is_same = |other: &Known| other.steps == one.steps && other.keeps_words == one.keeps_words;
            assert!(!others.any(is_same), "{}", one.name);
        }
    }

    #[test]
    fn line_breaks_may_be_written_either_way() {
        let text = r#"{"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "[\r\n]"}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]}"#;
        let parsed = json::parse(text.as_bytes()).unwrap();
        assert_eq!(steps("f", Some(&parsed)).unwrap(), [Split(r"[\r\n]".to_owned()), Bytes]);
    }

    #[test]
    fn what_llama_cpp_does_not_do_is_another_step() {
        for (text, described) in [
            (r#"{"type": "ByteLevel", "add_prefix_space": true}"#, "ByteLevel with add_prefix_space"),
            (r#"{"type": "Whitespace"}"#, "Whitespace"),
            (
                r#"{"type": "Split", "pattern": {"Regex": "a"}, "behavior": "MergedWithNext"}"#,
                "Split with behavior \"MergedWithNext\"",
            ),
            (r#"{}"#, ""),
        ] {
            let parsed = json::parse(text.as_bytes()).unwrap();
            let steps = steps("f", Some(&parsed)).unwrap();
            assert!(matches!(&steps[..], [Step::Other(_)]), "{text}");
            assert_eq!(describe(&steps, false), described);
        }
    }
}
