//! Lists of formats for help and messages, from the library's data.

use modelfmt::Format;

/// The names of the listed formats, such as `aero, mag, gguf`.
pub(crate) fn names(is_listed: impl Fn(Format) -> bool) -> String {
    let names = Format::ALL.iter().filter(|format| is_listed(**format)).map(|format| format.name());
    names.collect::<Vec<_>>().join(", ")
}

/// The extensions of the formats that can be written, such as `.aero, .mag or .aeroset.json`.
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
