//! The short help that `-h` prints: one screen for each command, with the options that most people need.

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// The most needed options of `convert`, `seal` and `unseal`, which have many.
const OF_CONVERT: [&str; 19] = [
    "to",
    "recursive",
    "force",
    "dry-run",
    "json",
    "cast",
    "dequantize",
    "quantize",
    "include",
    "exclude",
    "rename",
    "lora",
    "lossy",
    "metadata",
    "shard-size",
    "shards",
    "tensor-hashes",
    "seal",
    "to-recipient",
];
/// Short help for options whose first clause says too little or too much.
const SHORT: [(&str, &str); 18] = [
    ("quiet", "Only warnings and errors"),
    ("to", "The format to write, if OUT does not say it"),
    ("recursive", "Every model below a folder"),
    ("force", "Replace what exists"),
    ("dry-run", "Say what would be written, and what would be lost; write nothing"),
    ("cast", "Change floats, or tensors that match, to this type"),
    ("dequantize", "Decode blocks, and weights of GPTQ, AWQ and others"),
    ("quantize", "Quantize: q8_0, q4_k, …, or q4_k_m as llama.cpp does"),
    ("lora", "Merge an adapter into the model"),
    ("metadata", "A JSON file whose keys replace those of OUT's metadata"),
    ("shard-size", "Several files, of at most this size"),
    ("shards", "That many files, about equally large"),
    ("tensor-hashes", "AERO: a hash of each tensor"),
    ("seal", "APR2: encrypt OUT"),
    ("to-recipient", "APR2: the public key of somebody who can open OUT"),
    ("resume", "With -r: a list of what was ok, which the next run skips"),
    ("map", "Show the names and metadata that this map would write"),
    ("norms", "How much each tensor changed; the most changed first"),
];
/// Options of all commands that few people need.
const RARE: [&str; 2] = ["threads", "policy"];
/// Headings of options that few people need, except in the commands that they are about.
const RARE_HEADINGS: [&str; 3] = ["Reading", "Signatures and keys", "Sealing"];
/// The number of examples.
const EXAMPLES: usize = 4;

/// Returns the command line with short help, without rarely needed options.
pub(crate) fn brief() -> Command {
    let program = Cli::command();
    let names: Vec<String> = program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    names.iter().fold(program, |program, name| program.mut_subcommand(name, of_command)).mut_args(|arg| {
        let hide = is_one_of(&arg, &RARE);
        in_a_line(arg).hide(hide)
    })
}

/// Shortens the help of an argument to one line.
fn in_a_line(arg: Arg) -> Arg {
    let known = SHORT.iter().find(|(name, _)| is_one_of(&arg, &[*name]));
    let help = arg.get_help().map(|help| match known {
        Some((_, help)) => (*help).to_owned(),
        None => first_clause(&help.to_string(), !arg.is_positional()),
    });
    match help {
        Some(help) => arg.help(help),
        None => arg,
    }
}

fn of_command(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let is_hidden = |arg: &Arg| match &*name {
        "convert" | "seal" | "unseal" => !arg.is_positional() && !is_one_of(arg, &OF_CONVERT),
        "sign" | "verify" if is_one_of(arg, &["key", "sign", "revision"]) => false,
        _ => arg.get_help_heading().is_some_and(|heading| RARE_HEADINGS.contains(&heading)),
    };
    let hidden =
        command.get_arguments().filter(|arg| !arg.is_hide_set() && is_hidden(arg)).count() + RARE.len();
    let examples = command.get_after_help().map(|text| examples(&text.to_string())).unwrap_or_default();
    let all = format!("{examples}\n`modelfmt {name} --help` says more, and has {hidden} more options.");
    let flat = |arg: Arg| {
        let hide = arg.is_hide_set() || is_hidden(&arg);
        let takes_values = arg.get_action().takes_values();
        let arg = arg.hide(hide).help_heading(None::<&str>).hide_possible_values(takes_values);
        // A long value name would leave no room for the help next to it.
        let arg =
            if is_one_of(&arg, &["dequantize", "quantize"]) { arg.value_name("[GLOB=]TYPE") } else { arg };
        in_a_line(arg)
    };
    command.mut_args(flat).after_help(all.trim_start().to_owned())
}

fn is_one_of(arg: &Arg, names: &[&str]) -> bool {
    arg.get_long().is_some_and(|long| names.contains(&long))
}

/// Returns the first examples in a text.
fn examples(text: &str) -> String {
    let lines = text.lines().filter(|line| line.starts_with("  modelfmt "));
    let lines: Vec<&str> = lines.take(EXAMPLES).collect();
    if lines.is_empty() { String::new() } else { format!("Examples:\n{}\n", lines.join("\n")) }
}

/// Returns the first sentence of a help text. For an option, returns the first clause that is not too short.
fn first_clause(text: &str, is_option: bool) -> String {
    const LEAST: usize = 24;
    let ends: &[&str] = if is_option { &[". ", "; ", ": ", ", such as "] } else { &[". "] };
    let ends = ends.iter().flat_map(|end| text.match_indices(end)).map(|(at, _)| at);
    let end = ends.filter(|at| *at >= LEAST).min().unwrap_or(text.len());
    text.get(..end).unwrap_or(text).replace('\n', " ")
}
