//! Architectures that have rules of their own.

/// Architectures that llama.cpp's rules treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// LLaMA, Mistral and Mixtral: a model of 80 layers whose heads share keys and values counts as large.
    Llama,
    /// A model with this many layers counts as large.
    LargeAt(u64),
    /// Has rules of its own in several places.
    Falcon,
    /// Has rules of its own that this crate does not implement.
    Glm5Next,
    /// Every other architecture, and a model that does not state its architecture.
    Other,
}

/// The names of architectures, in lower case, in GGUF (`general.architecture`) and Hugging Face (`model_type`, `architectures`).
const FAMILIES: &[(&[&str], Family)] = &[
    (
        &["llama", "mistral", "mixtral", "llamaforcausallm", "mistralforcausallm", "mixtralforcausallm"],
        Family::Llama,
    ),
    (&["qwen2", "qwen2forcausallm"], Family::LargeAt(80)),
    (&["olmo", "olmoforcausallm"], Family::LargeAt(80)),
    (&["deci", "nemotron-nas", "decilmforcausallm"], Family::LargeAt(80)),
    (&["jais2", "jais2forcausallm"], Family::LargeAt(68)),
    (&["falcon", "refinedweb", "refinedwebmodel", "falconforcausallm", "rwforcausallm"], Family::Falcon),
    (&["glm5-next"], Family::Glm5Next),
];

impl Family {
    pub(super) fn of(architecture: Option<&str>) -> Self {
        let name = architecture.unwrap_or_default().to_ascii_lowercase();
        let found = FAMILIES.iter().find(|(names, _)| names.contains(&name.as_str()));
        found.map_or(Self::Other, |&(_, family)| family)
    }
}
