//! Makes a `tokenizer.json` from the keys of a GGUF alone: the vocabulary, and the steps that llama.cpp does
//! for the names in the keys.

use modelfmt_value::{Object, Value};

use super::tokenizer::{Form, Tokens};
use crate::tokenizer::pre;

/// The mark of a space in tokens.
const SPACE: &str = "▁";

impl Tokens<'_> {
    /// Makes a `tokenizer.json` that splits texts like llama.cpp, as far as that is known. The second value
    /// tells the user what is not known.
    pub(super) fn made(&self) -> (Value, Option<String>) {
        let form = Form { has_added_beside: true, ..Form::default() };
        let mut top = self.hub_json(form).into_object();
        let mut unknown = None;
        match self.model() {
            "gpt2" => unknown = self.add_bytes(&mut top),
            "llama" => self.add_sentencepiece(&mut top),
            "bert" => self.add_wordpiece(&mut top),
            other => unknown = Some(format!("the steps of the tokenizer {other:?}")),
        }
        if let Some(processor) = self.processor() {
            top.insert("post_processor", processor);
        }
        (Value::Object(top), unknown)
    }

    /// Adds the steps of BPE over bytes: texts are cut by a pattern, and bytes become characters.
    fn add_bytes(&self, top: &mut Object) -> Option<String> {
        let level =
            || typed("ByteLevel", [("add_prefix_space", false.into()), ("trim_offsets", true.into())]);
        top.insert("decoder", level());
        let name = self.text("pre").unwrap_or("default");
        match pre::written(name) {
            Some((pre_tokenizer, keeps_words)) => {
                top.insert("pre_tokenizer", pre_tokenizer);
                if let Some(model) = top.get_mut("model").and_then(Value::as_object_mut) {
                    model.insert("ignore_merges", keeps_words);
                }
                None
            }
            None => {
                top.insert("pre_tokenizer", level());
                Some(format!("the pattern of the pre-tokenizer {name:?}, and uses GPT-2's instead"))
            }
        }
    }

    /// Adds the steps of SentencePiece: spaces become marks, and what is not a token becomes bytes.
    fn add_sentencepiece(&self, top: &mut Object) {
        let pattern = |text: &str| Value::Object(Object::from_iter([("String", Value::from(text))]));
        let replace =
            |from: &str, to: &str| typed("Replace", [("pattern", pattern(from)), ("content", to.into())]);
        let has_prefix = self.flag("add_space_prefix").unwrap_or(true);
        let prepend = has_prefix.then(|| typed("Prepend", [("prepend", SPACE.into())]));
        let normalizers = prepend.into_iter().chain([replace(" ", SPACE)]);
        top.insert("normalizer", typed("Sequence", [("normalizers", normalizers.collect())]));
        let mut decoders = vec![replace(SPACE, " "), typed("ByteFallback", []), typed("Fuse", [])];
        if has_prefix {
            let one = [("content", " ".into()), ("start", 1u64.into()), ("stop", 0u64.into())];
            decoders.push(typed("Strip", one));
        }
        top.insert("decoder", typed("Sequence", [("decoders", decoders.into_iter().collect())]));
    }

    fn add_wordpiece(&self, top: &mut Object) {
        let lowercase = self.flag("normalizer.lowercase").unwrap_or(true);
        let accents = self.flag("normalizer.strip_accents").map_or(Value::Null, Value::from);
        let normalizer = [
            ("clean_text", true.into()),
            ("handle_chinese_chars", true.into()),
            ("strip_accents", accents),
            ("lowercase", lowercase.into()),
        ];
        top.insert("normalizer", typed("BertNormalizer", normalizer));
        top.insert("pre_tokenizer", typed("BertPreTokenizer", []));
        let decoder = [("prefix", "##".into()), ("cleanup", true.into())];
        top.insert("decoder", typed("WordPiece", decoder));
    }

    /// Makes the step that puts tokens around a text.
    fn processor(&self) -> Option<Value> {
        let is_bert = self.model() == "bert";
        let first = if is_bert { "cls_token_id" } else { "bos_token_id" };
        let first = self.special(first).or_else(|| self.special("bos_token_id").filter(|_| is_bert));
        let last = if is_bert { "seperator_token_id" } else { "eos_token_id" };
        let adds = |key: &str, default: bool| self.flag(key).unwrap_or(default);
        let is_llama = self.model() == "llama" || self.text("pre") == Some("llama-bpe");
        let first = first.filter(|_| is_bert || adds("add_bos_token", is_llama));
        let last = self.special(last).filter(|_| is_bert || adds("add_eos_token", false));
        if first.is_none() && last.is_none() {
            return None;
        }
        let mark = |text: &str| one("SpecialToken", text, 0);
        let sequence = |name: &str, side: u64| one("Sequence", name, side);
        let around = |side: u64, name: &str| -> Vec<Value> {
            let first = first.filter(|_| side == 0 || !is_bert).map(mark);
            first.into_iter().chain([sequence(name, side)]).chain(last.map(mark)).collect()
        };
        let single: Value = around(0, "A").into_iter().collect();
        let pair: Value = around(0, "A").into_iter().chain(around(1, "B")).collect();
        let mut tokens = Object::new();
        for text in first.into_iter().chain(last) {
            let id = self.id(text)?;
            let token = Object::from_iter([
                ("id", Value::from(text)),
                ("ids", [id].into_iter().collect()),
                ("tokens", [text].into_iter().collect()),
            ]);
            tokens.insert(text, token);
        }
        let parts = [("single", single), ("pair", pair), ("special_tokens", Value::Object(tokens))];
        Some(typed("TemplateProcessing", parts))
    }
}

/// Makes a part of a template.
fn one(kind: &str, id: &str, side: u64) -> Value {
    let inner = Object::from_iter([("id", Value::from(id)), ("type_id", side.into())]);
    Value::Object(Object::from_iter([(kind, inner)]))
}

/// Makes an object with a `type`.
fn typed<const N: usize>(kind: &str, members: [(&str, Value); N]) -> Value {
    let first = ("type", Value::from(kind));
    Value::Object([first].into_iter().chain(members).collect())
}
