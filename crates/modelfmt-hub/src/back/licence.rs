//! The licence of a model, in its card and in a GGUF.

/// Returns the keys of a GGUF that state the licence, each after its name in a model card.
pub fn licence_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    const LICENCE: [(&str, &str); 3] = [
        ("license", "general.license"),
        ("license_name", "general.license.name"),
        ("license_link", "general.license.link"),
    ];
    LICENCE.into_iter()
}
