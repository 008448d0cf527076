//! Imports that close a circle today. Nothing is added here: when a circle is mended, its line is taken out.

/// The crate, the module that should not need the other, the other, and what it needs of it.
pub(super) const KNOWN: &[(&str, &str, &str, &str)] = &[
    ("crates/modelfmt", "convert::options", "convert::tensors", "the rule for names"),
    (
        "crates/modelfmt",
        "convert::tensors",
        "convert::metadata",
        "reserved keys, the source's content, config.json",
    ),
    ("crates/modelfmt", "convert::values", "convert::tensors", "the tensors that were chosen, and how"),
    ("crates/modelfmt", "edit", "seal", "signs what it has changed, while seal is an edit"),
    ("crates/modelfmt", "error", "convert", "what does not fit the target"),
    ("crates/modelfmt", "formats", "convert", "the options, and what each format makes of them"),
    ("crates/modelfmt", "pin", "error", "fails with the errors that show a pin"),
    ("crates/modelfmt", "pin", "formats", "detects the format of what is pinned"),
    ("crates/modelfmt", "pin", "model", "the pins that an open model states"),
    ("crates/modelfmt-cli", "secrets", "args", "the options that name files of secrets, which call it"),
];
