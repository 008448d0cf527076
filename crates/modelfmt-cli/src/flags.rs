//! The program's options for what the library names by its fields.

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
            Choice::Include => "--include",
            Choice::Exclude => "--exclude",
            Choice::Dedupe => "--dedupe",
            Choice::Cast => "--cast",
            Choice::Dequantize => "--dequantize",
            Choice::Scales => "--scale",
            Choice::Quantize => "--quantize",
            Choice::Sizevars => "--sizevar",
            Choice::Declare => "--declare",
            Choice::ModelName => "--model-name",
            Choice::Architecture => "--architecture",
            Choice::ModelType => "--model-type",
            Choice::Stringify => "--stringify",
            Choice::ShardSize => "--shard-size",
            Choice::ControlHash => "--control-hash",
            Choice::PageHashes => "--page-hashes",
            Choice::TensorHashes => "--tensor-hashes",
            Choice::Uuid => "--uuid",
            Choice::NoZstd => "--no-zstd",
            Choice::Compress => "--compress",
            Choice::Align => "--align",
            Choice::Checksum => "--checksum",
            Choice::ExtendedTypes => "--allow-extended-types",
            Choice::Outboard => "--outboard",
            Choice::Reserve => "--reserve",
            Choice::Seal => "--seal",
            Choice::Sign => "--sign",
            Choice::Rename => "--rename",
            Choice::Set => "--set",
            Choice::Unset => "--unset",
            Choice::Drop => "--drop",
            other => other.name(),
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

    use super::*;

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
