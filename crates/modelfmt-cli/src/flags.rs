//! The program's options for choices that the library names by its fields.

use modelfmt::convert::OptionInfo;
use modelfmt::wording::{Choice, Remedy, Words};

/// The options and arguments of the program.
pub(crate) struct Flags;

impl Words for Flags {
    fn choice(&self, choice: Choice) -> &str {
        match choice {
            Choice::Models => "IN",
            Choice::Target => "--to",
            Choice::Output => "OUT",
            Choice::Names => "TENSOR",
            Choice::Tensors => "--tensors",
            Choice::Seal => "--seal",
            Choice::Sign => "--sign",
            Choice::Set => "--set",
            Choice::Unset => "--unset",
            Choice::Drop => "--drop",
            other => OptionInfo::of_choice(other).map_or(other.name(), |option| option.flag),
        }
    }

    fn remedy(&self, remedy: Remedy) -> String {
        match remedy {
            Remedy::Overwrite => "--force".to_owned(),
            Remedy::SkipVerification => "--no-verify".to_owned(),
            Remedy::AllowTies => "--allow-ties".to_owned(),
            Remedy::Lossy => "--lossy".to_owned(),
            Remedy::Stringify => "--stringify".to_owned(),
            Remedy::Exclude => "--exclude".to_owned(),
            Remedy::Widen(_) => "--widen".to_owned(),
            Remedy::Cast { to, by_name: true } => format!("--cast NAME={to}"),
            Remedy::Cast { to, by_name: false } => format!("--cast {to}"),
            Remedy::Dequantize(to) => format!("--dequantize {to}"),
            Remedy::Quantize(to) => format!("--quantize {to}"),
            Remedy::Scales => "--scale WEIGHT=SCALE".to_owned(),
            Remedy::ListNames => "`modelfmt inspect`".to_owned(),
            Remedy::Recover => "`modelfmt edit` with the file alone".to_owned(),
            Remedy::Unlock => "--identity, --passphrase-file or --key-file".to_owned(),
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use modelfmt::convert::{OPTIONS, Takes};

    use super::*;

    /// The arguments of `convert` from the table of options match the table.
    #[test]
    fn arguments_are_those_of_the_table() {
        let cli = crate::args::Cli::command();
        for name in ["convert", "seal", "unseal"] {
            let command = cli.find_subcommand(name).unwrap();
            for option in OPTIONS {
                let is_this = |arg: &&clap::Arg| arg.get_long() == option.flag.strip_prefix("--");
                let arg = command.get_arguments().find(is_this).unwrap_or_else(|| panic!("{}", option.flag));
                let value = || arg.get_value_names().unwrap()[0].to_string();
                match (option.takes, arg.get_action()) {
                    (Takes::Nothing, clap::ArgAction::SetTrue) => {}
                    (Takes::One(name), clap::ArgAction::Set)
                    | (Takes::Many(name), clap::ArgAction::Append) => {
                        assert_eq!(value(), name, "{}", option.flag);
                    }
                    (takes, action) => panic!("{}: {takes:?}, {action:?}", option.flag),
                }
                assert_eq!(arg.get_help().unwrap().to_string(), option.help);
            }
        }
    }

    /// Every option of `convert` about the conversion is in the table.
    #[test]
    fn the_table_has_every_option_of_values_metadata_and_layout() {
        let cli = crate::args::Cli::command();
        let of_conversion =
            |arg: &&clap::Arg| matches!(arg.get_help_heading(), Some("Values" | "Metadata" | "Layout"));
        for arg in cli.find_subcommand("convert").unwrap().get_arguments().filter(of_conversion) {
            let flag = format!("--{}", arg.get_long().unwrap());
            assert!(OPTIONS.iter().any(|option| option.flag == flag), "{flag}");
        }
    }

    #[test]
    fn every_flag_is_an_option_of_the_program() {
        let mut known = std::collections::BTreeSet::new();
        for command in crate::args::Cli::command().get_subcommands() {
            known.extend(command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))));
        }
        let choices = [
            Choice::Target,
            Choice::Tensors,
            Choice::Include,
            Choice::Exclude,
            Choice::Rename,
            Choice::Dedupe,
            Choice::Map,
            Choice::Lora,
            Choice::Base,
            Choice::Imatrix,
            Choice::Pre,
            Choice::Cast,
            Choice::Dequantize,
            Choice::Scales,
            Choice::Quantize,
            Choice::Sizevars,
            Choice::Declare,
            Choice::ModelName,
            Choice::Architecture,
            Choice::ModelType,
            Choice::Stringify,
            Choice::ShardSize,
            Choice::Shards,
            Choice::ControlHash,
            Choice::PageHashes,
            Choice::TensorHashes,
            Choice::Uuid,
            Choice::NoZstd,
            Choice::Compress,
            Choice::Align,
            Choice::Checksum,
            Choice::ExtendedTypes,
            Choice::Outboard,
            Choice::Reserve,
            Choice::Seal,
            Choice::Sign,
            Choice::Rename,
            Choice::Set,
            Choice::Unset,
            Choice::Drop,
        ];
        for choice in choices {
            assert!(known.contains(Flags.choice(choice)), "{choice}");
        }
        let f32 = modelfmt::DType::F32;
        let remedies = [
            Remedy::Overwrite,
            Remedy::SkipVerification,
            Remedy::AllowTies,
            Remedy::Lossy,
            Remedy::Stringify,
            Remedy::Exclude,
            Remedy::Widen(f32),
            Remedy::Cast { to: f32, by_name: true },
            Remedy::Dequantize(f32),
            Remedy::Quantize(modelfmt::DType::Q4K),
            Remedy::Scales,
            Remedy::Unlock,
        ];
        for remedy in remedies {
            let text = Flags.remedy(remedy);
            assert!(known.contains(text.split([' ', ',']).next().unwrap()), "{text}");
        }
    }
}
