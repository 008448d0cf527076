//! Tips for people who know the commands and options of other tools.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Commands of other tools, and the equivalent command here.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["info", "ls", "list", "dump"], "to see what is in a file: modelfmt inspect FILE"),
    (&["cat", "print", "stats"], "for values and statistics of tensors: modelfmt show FILE --stats"),
    (&["hash", "sha256", "digest"], "for the hash of each tensor: modelfmt inspect FILE --hash"),
    (&["scan"], "to look for what could run code: modelfmt check FILE"),
    (&["validate", "lint", "test"], "to check that files are intact: modelfmt verify FILE"),
    (&["compare"], "to compare two models: modelfmt diff A B"),
    (&["export", "import"], "to write another format: modelfmt convert IN OUT"),
    (&["quantize"], "to quantize a model: modelfmt convert IN OUT.gguf --quantize q4_k_m"),
    (&["split", "shard"], "to split a model: modelfmt convert IN OUT --shard-size 2GiB"),
    (
        &["merge", "join"],
        "to join a set: modelfmt convert INDEX OUT; to merge an adapter: modelfmt convert BASE OUT --lora ADAPTER",
    ),
    (&["download", "repair", "get", "pull"], "to get a file or repair a copy: modelfmt fetch URL OUT"),
    (&["rename"], "to rename tensors: modelfmt edit FILE --rename OLD=NEW"),
    (&["encrypt"], "to encrypt a model: modelfmt seal IN OUT.apr --to-recipient KEY.pub"),
    (&["decrypt"], "to decrypt a model: modelfmt unseal IN OUT --identity KEY"),
];

/// Options of other tools.
const OPTIONS: &[(&[&str], &str)] = &[
    (&["--dtype", "--outtype"], "to change types: modelfmt convert IN OUT --cast f16, or --quantize q8_0"),
    (&["--tensors", "--filter", "--only"], "to choose tensors: modelfmt convert IN OUT --include GLOB"),
    (&["--limit", "--top"], "for the largest tensors: modelfmt inspect FILE --sort size | head -20"),
    (&["--remove", "--delete"], "to remove a metadata key: modelfmt edit FILE --unset KEY"),
    (&["--format"], "formats are named by `--to` of `convert`, and by `--spec` of `bom`"),
    (&["--scale"], "to merge an adapter at half strength: modelfmt convert BASE OUT --lora ADAPTER=0.5"),
    (&["--tensor"], "to choose tensors: modelfmt show FILE NAME"),
    (&["--set-file"], "for the text of a file: modelfmt edit FILE --set \"KEY=$(cat TEXT)\""),
    (
        &["--output", "--outfile", "-o"],
        "in `convert`, the last argument is the output: modelfmt convert IN OUT",
    ),
];

/// Tips for missing arguments.
const MISSING: &[(&str, &str)] = &[
    ("--key <KEY>", "to make a key: modelfmt keygen --type p256 -o KEY"),
    (
        "--type <TYPE>",
        "p256 signs any file or folder, ed25519 signs inside APR2 files, and x25519 is for people who open encrypted ones",
    ),
];

/// Adds a tip to an error about a command or option of another tool, a file or URL in place of a command, or
/// a missing argument whose purpose may not be clear.
pub(crate) fn added(mut error: clap::Error) -> clap::Error {
    if let Some(tip) = of(&error) {
        for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg] {
            error.remove(kind);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.to_owned().into()]));
    }
    error
}

fn of(error: &clap::Error) -> Option<&'static str> {
    let known = |list: &[(&[&str], &'static str)], word: &str| {
        list.iter().find(|(words, _)| words.contains(&word)).map(|(_, tip)| *tip)
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let ContextValue::String(word) = error.get(ContextKind::InvalidSubcommand)? else { return None };
            let is_file = || Path::new(word).exists() || word.contains("://");
            known(COMMANDS, word).or_else(|| COMMANDS.first().filter(|_| is_file()).map(|(_, tip)| *tip))
        }
        ErrorKind::UnknownArgument => {
            let ContextValue::String(word) = error.get(ContextKind::InvalidArg)? else { return None };
            known(OPTIONS, word.split('=').next().unwrap_or(word))
        }
        ErrorKind::MissingRequiredArgument => {
            let ContextValue::Strings(missing) = error.get(ContextKind::InvalidArg)? else { return None };
            MISSING
                .iter()
                .find(|(argument, _)| missing.iter().any(|word| word == argument))
                .map(|(_, tip)| *tip)
        }
        _ => None,
    }
}
