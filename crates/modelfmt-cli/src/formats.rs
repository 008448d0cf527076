//! Lists of formats for help and messages, from the library's data.

use modelfmt::Format;

/// The beginnings of the names that most readers look for. They come first.
const FIRST: [&str; 3] = ["safetensors", "gguf", "pytorch"];

/// Returns the names of the listed formats, such as `safetensors, gguf, aero`.
pub(crate) fn names(is_listed: impl Fn(Format) -> bool) -> String {
    let names = Format::ALL.iter().filter(|format| is_listed(**format)).map(|format| format.name());
    let mut names: Vec<_> = names.collect();
    names.sort_by_key(|name| FIRST.iter().position(|first| name.starts_with(first)).unwrap_or(FIRST.len()));
    names.join(", ")
}

/// Returns the extensions of the formats that can be written, such as `.aero, .mag or .aeroset.json`.
pub(crate) fn endings() -> String {
    let (sets, files): (Vec<Format>, Vec<Format>) =
        Format::ALL.iter().filter(|format| format.is_writable()).partition(|format| format.is_set());
    let endings: Vec<&str> = files.iter().chain(&sets).filter_map(|format| format.extension()).collect();
    match endings.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
