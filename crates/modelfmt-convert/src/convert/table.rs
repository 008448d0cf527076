//! The table of conversion options: their names, their values and their help.
//!
//! The program's help and the option names in its errors come from this table. Tests compare the table with
//! [`ConvertOptions`](crate::convert::ConvertOptions), with the arguments of the program, with the keywords
//! of the Python package, and with the options of the web page.

use modelfmt_model::formats::Format;
use modelfmt_rules::wording::Choice;

/// An option of a conversion.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OptionInfo {
    /// The field of [`ConvertOptions`](crate::convert::ConvertOptions) that contains the option, such as
    /// `aero`; empty if the option is a field of `ConvertOptions` itself.
    pub group: &'static str,
    /// The name of the option's field. The rules that cast, quantize and dequantize are all in `rules`.
    pub name: &'static str,
    /// The flag of the program.
    pub flag: &'static str,
    /// The keyword in Python and JavaScript.
    pub keyword: &'static str,
    /// The values that the program takes for the flag.
    pub takes: Takes,
    /// The choice by which errors and notes refer to the option, if there is one.
    pub choice: Option<Choice>,
    /// Whether the web page and the npm package have the option.
    pub in_page: bool,
    /// What the option does: the text of the program's help.
    pub help: &'static str,
}

/// The values that an option takes, with their name in the program's help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No value: the flag is given or not.
    Nothing,
    /// One value.
    One(&'static str),
    /// Any number of values.
    Many(&'static str),
}

impl OptionInfo {
    const fn new(group: &'static str, name: &'static str, takes: Takes, help: &'static str) -> Self {
        Self { group, name, flag: "", keyword: name, takes, choice: None, in_page: false, help }
    }

    const fn flag(self, flag: &'static str) -> Self {
        Self { flag, ..self }
    }

    const fn keyword(self, keyword: &'static str) -> Self {
        Self { keyword, ..self }
    }

    const fn choice(self, choice: Choice) -> Self {
        Self { choice: Some(choice), ..self }
    }

    const fn in_page(self) -> Self {
        Self { in_page: true, ..self }
    }

    /// Finds the option that errors refer to by this choice.
    #[must_use]
    pub fn of_choice(choice: Choice) -> Option<&'static Self> {
        OPTIONS.iter().find(|option| option.choice == Some(choice))
    }

    /// Returns the formats that can be written with the option.
    pub fn formats(&self) -> impl Iterator<Item = Format> {
        let choice = self.choice.filter(|choice| Format::ALL.iter().any(|format| format.takes(*choice)));
        let takes = move |format: &Format| choice.is_none_or(|choice| format.takes(choice));
        Format::ALL.iter().copied().filter(|format| format.is_writable()).filter(takes)
    }
}

/// The options of a conversion. Some have no entry: `ConvertOptions::apr2.seal` (who signs and who can
/// decrypt) is a set of keys, not one option; the version and the hub folder are parts of the
/// [`Target`](modelfmt_model::Target); and `inputs` is not set by the user.
pub const OPTIONS: &[OptionInfo] = &[
    OptionInfo::new("tensors", "include", Takes::Many("GLOB"), "Only tensors whose names match, such as 'layers.*'; may be repeated")
        .flag("--include")
        .choice(Choice::Include)
        .in_page(),
    OptionInfo::new("tensors", "exclude", Takes::Many("GLOB"), "Leave out tensors whose names match; may be repeated")
        .flag("--exclude")
        .choice(Choice::Exclude)
        .in_page(),
    OptionInfo::new("tensors", "rename", Takes::Many("OLD=NEW"), "Give tensors another name: a * in OLD stands for any text, and the * at the same place in NEW for the same text; may be repeated, and the last match wins. All other options use the names in IN")
        .flag("--rename")
        .choice(Choice::Rename),
    OptionInfo::new("tensors", "allow_ties", Takes::Nothing, "Write each tensor that shares its bytes with another separately, however large that makes OUT")
        .flag("--allow-ties")
        .in_page(),
    OptionInfo::new("tensors", "map", Takes::One("NAME|FILE|none"), "GGUF: the map that gives a folder of the hub the names and metadata that llama.cpp loads; by default the map for the `model_type` of its config.json. `none` writes names and metadata unchanged")
        .flag("--map")
        .choice(Choice::Map),
    OptionInfo::new("tensors", "lora", Takes::Many("ADAPTER[=SCALE]"), "Merge an adapter (LoRA), a folder of PEFT or a GGUF of llama.cpp, times SCALE; may be repeated. Sums are of f32, rounded once to the types of IN")
        .flag("--lora")
        .choice(Choice::Lora),
    OptionInfo::new("tensors", "base", Takes::One("FOLDER"), "GGUF: if IN is a PEFT adapter (LoRA), the folder of its base model; needed if the adapter does not name a local folder")
        .flag("--base")
        .choice(Choice::Base),
    OptionInfo::new("types", "cast", Takes::Many("[GLOB=]DTYPE"), "Change floats to this type, or all numbers whose tensors' names match GLOB; values are rounded if necessary. This option and the next two may be repeated, and for each tensor the last one that matches counts, so give general ones first. DTYPE has its usual names: f16, fp16, float16, half")
        .flag("--cast")
        .choice(Choice::Cast)
        .in_page(),
    OptionInfo::new("types", "dequantize", Takes::Many("[GLOB=]f32|f16|bf16"), "Decode block-quantized tensors to f32, f16 or bf16, multiply weights of 8 bits or fewer by the scales beside them, decode weights in several tensors (GPTQ, AWQ, bitsandbytes and others), and apply the scales and zero points of OINF 2")
        .flag("--dequantize")
        .choice(Choice::Dequantize)
        .in_page(),
    OptionInfo::new("types", "quantize", Takes::Many("[GLOB=]TYPE|PRESET"), "Quantize float tensors of rank 2 and more whose rows are whole blocks: of 32 for q8_0, q4_0, q4_1, q5_0, q5_1 and iq4_nl, of 256 for q2_k, q3_k, q4_k, q5_k, q6_k and iq4_xs; the others stay as they are. Or give each tensor the type that llama.cpp gives it: q2_k_s, q3_k_s, q3_k_m, q3_k_l, q4_k_s, q4_k_m, q5_k_s, q5_k_m, and with mostly_ before the name of a type, such as mostly_q8_0")
        .flag("--quantize")
        .choice(Choice::Quantize)
        .in_page(),
    OptionInfo::new("types", "imatrix", Takes::One("FILE"), "For --quantize: an importance matrix of llama.cpp, a GGUF or .dat, which says how important each column of a weight is")
        .flag("--imatrix")
        .choice(Choice::Imatrix),
    OptionInfo::new("types", "scales", Takes::Many("WEIGHT=SCALE"), "For --dequantize: the tensor that holds the scales of a weight, if its name does not say so; a * in both names stands for the same text")
        .flag("--scale")
        .choice(Choice::Scales)
        .in_page(),
    OptionInfo::new("types", "widen", Takes::Nothing, "Change types that the target lacks to larger ones that hold every value")
        .flag("--widen")
        .in_page(),
    OptionInfo::new("metadata", "set", Takes::One("FILE.json"), "A JSON object whose top-level keys replace those of the target's metadata")
        .flag("--metadata")
        .keyword("metadata")
        .in_page(),
    OptionInfo::new("metadata", "lossy", Takes::Nothing, "Drop metadata that the target cannot hold, listing each")
        .flag("--lossy")
        .in_page(),
    OptionInfo::new("metadata", "stringify", Takes::Nothing, "Turn metadata that the target can hold only as text into JSON text (safetensors; in GGUF null, objects and mixed lists)")
        .flag("--stringify")
        .choice(Choice::Stringify)
        .in_page(),
    OptionInfo::new("metadata", "pre", Takes::One("NAME"), "GGUF: llama.cpp's name for the pre-tokenizer of a folder of the hub, if it does not follow from tokenizer.json")
        .flag("--pre")
        .choice(Choice::Pre),
    OptionInfo::new("metadata", "model_name", Takes::One("NAME"), "The model's name, for AERO and APR2")
        .flag("--model-name")
        .choice(Choice::ModelName)
        .in_page(),
    OptionInfo::new("metadata", "architecture", Takes::One("NAME"), "The architecture, for AERO and APR2")
        .flag("--architecture")
        .choice(Choice::Architecture)
        .in_page(),
    OptionInfo::new("metadata", "model_type", Takes::One("NAME"), "The model type, for APR2")
        .flag("--model-type")
        .choice(Choice::ModelType)
        .in_page(),
    OptionInfo::new("output", "shard_size", Takes::One("SIZE"), "The largest size of a weight shard (AERO) or of a file (AEROSET, APR2, safetensors, GGUF; the last three become sets), such as 2GiB or 500MB")
        .flag("--shard-size")
        .choice(Choice::ShardSize)
        .in_page(),
    OptionInfo::new("output", "shards", Takes::One("N"), "Write a set of N files that are about equally large, in place of --shard-size; of fewer if there are not so many tensors")
        .flag("--shards")
        .choice(Choice::Shards),
    OptionInfo::new("output", "align", Takes::One("N"), "Alignment of tensors in bytes. APR2: 32 or 64; GGUF: a power of two. By default that of a source in the same format, else 64 and 32")
        .flag("--align")
        .choice(Choice::Align)
        .in_page(),
    OptionInfo::new("output", "reserve", Takes::One("SIZE"), "Leave this much room in the header, so that later edits can be made in place; not for OINF")
        .flag("--reserve")
        .choice(Choice::Reserve),
    OptionInfo::new("output", "outboard", Takes::Nothing, "Also write OUT.obao4, which lets any range of OUT be verified against its BLAKE3; for a set, one for each file")
        .flag("--outboard")
        .choice(Choice::Outboard),
    OptionInfo::new("output", "overwrite", Takes::Nothing, "Replace OUT if it exists")
        .flag("--force"),
    OptionInfo::new("", "no_verify", Takes::Nothing, "Do not check the values against the file's hashes and checksums; also opens a MAG file whose checksum is wrong")
        .flag("--no-verify")
        .keyword("verify")
        .in_page(),
    OptionInfo::new("aero", "dedupe", Takes::Nothing, "AERO: tensors with equal values share their bytes; values that may be equal are read once more to find them")
        .flag("--dedupe")
        .choice(Choice::Dedupe),
    OptionInfo::new("aero", "control_hash", Takes::Nothing, "AERO: add the hash of header, table of contents and names (IHSH)")
        .flag("--control-hash")
        .choice(Choice::ControlHash)
        .in_page(),
    OptionInfo::new("aero", "page_hashes", Takes::One("SIZE"), "AERO: add the hash of every page of the weights (PHSH); pages of 4MiB unless you give a size")
        .flag("--page-hashes")
        .choice(Choice::PageHashes)
        .in_page(),
    OptionInfo::new("aero", "tensor_hashes", Takes::Nothing, "AERO: add the hash of every tensor (`hash_b3`)")
        .flag("--tensor-hashes")
        .choice(Choice::TensorHashes)
        .in_page(),
    OptionInfo::new("aero", "uuid", Takes::One("HEX"), "AERO: the file's identity, 32 hex digits; random if it is not given")
        .flag("--uuid")
        .choice(Choice::Uuid)
        .in_page(),
    OptionInfo::new("aero", "no_zstd", Takes::Nothing, "AERO: do not compress metadata")
        .flag("--no-zstd")
        .choice(Choice::NoZstd)
        .in_page(),
    OptionInfo::new("apr2", "compress", Takes::One("lz4|none"), "APR2: whether tensors are compressed in LZ4 blocks; by default as in the source if that is APR2, else not")
        .flag("--compress")
        .choice(Choice::Compress)
        .in_page(),
    OptionInfo::new("mag", "checksum", Takes::One("crc32|crc32c"), "MAG: kind of checksum; by default that of a source that is MAG 1 too, else crc32. crc32c is what magnetron writes")
        .flag("--checksum")
        .choice(Choice::Checksum)
        .in_page(),
    OptionInfo::new("oinf", "sizevars", Takes::Many("NAME=N"), "OINF: add a size variable")
        .flag("--sizevar")
        .choice(Choice::Sizevars),
    OptionInfo::new("oinf", "declare", Takes::Many("NAME:DTYPE[DIMS]"), "OINF: add a tensor without data, such as y:i16[4,4]")
        .flag("--declare")
        .choice(Choice::Declare),
    OptionInfo::new("oinf", "allow_extended_types", Takes::Nothing, "OINF 1: write bf16, f8_e5m2 and packed integers too, which its document lacks and the published package reads")
        .flag("--allow-extended-types")
        .choice(Choice::ExtendedTypes),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use modelfmt_rules::options::ConvertOptions;

    /// Returns the fields of the options, as `group.field`, from their `Debug` output.
    fn fields() -> BTreeSet<String> {
        let text = format!("{:#?}", ConvertOptions::default());
        let (mut group, mut fields) = (String::new(), BTreeSet::new());
        for line in text.lines() {
            let depth = line.len() - line.trim_start().len();
            let Some((name, value)) = line.trim().split_once(": ") else { continue };
            match (depth, value.ends_with('{')) {
                (4, true) => name.clone_into(&mut group),
                (4, false) => _ = fields.insert(format!(".{name}")),
                (8, _) => _ = fields.insert(format!("{group}.{name}")),
                _ => {}
            }
        }
        fields
    }

    #[test]
    fn every_field_is_in_the_table() {
        let no_options = ["apr2.seal", "output.inputs", "output.version", "output.hub_folder"];
        let fields: BTreeSet<String> =
            fields().into_iter().filter(|field| !no_options.contains(&field.as_str())).collect();
        let name = |option: &OptionInfo| match option.name {
            "cast" | "dequantize" | "quantize" => "types.rules".to_owned(),
            name => format!("{}.{name}", option.group),
        };
        assert_eq!(OPTIONS.iter().map(name).collect::<BTreeSet<_>>(), fields);
    }

    #[test]
    fn names_are_unique_and_errors_use_them() {
        let unique =
            |name: fn(&OptionInfo) -> &'static str| OPTIONS.iter().map(name).collect::<BTreeSet<_>>().len();
        let lens =
            [unique(|option| option.name), unique(|option| option.flag), unique(|option| option.keyword)];
        assert_eq!(lens, [OPTIONS.len(); 3]);
        for option in OPTIONS {
            assert!(option.choice.is_none_or(|choice| choice.name() == option.keyword), "{}", option.name);
        }
    }

    #[test]
    fn what_one_format_has_is_in_its_group() {
        for option in OPTIONS.iter().filter(|option| matches!(option.group, "apr2" | "mag" | "oinf")) {
            let formats: Vec<Format> = option.formats().collect();
            assert!(
                !formats.is_empty() && formats.iter().all(|format| format.name().starts_with(option.group)),
                "{}",
                option.name
            );
        }
    }
}
