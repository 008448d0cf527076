//! The commands that are run with each file.
//!
//! A line holds the arguments of one run, or of several runs separated by `; `. `@` is the file, `+PATH`
//! another file of `testdata/`, `%b3` the BLAKE3 of the file, `%u` a UUID, and `<@` passes the file as
//! standard input.

/// The UUID for AERO files, which is random by default.
pub(super) const UUID: &str = "000102030405060708090a0b0c0d0e0f";
/// The mark at the end of a line whose output is random.
pub(super) const RANDOM: &str = " (random)";

/// Commands for files that are not models, and for single files of a set.
pub(super) const SHORT: &[&str] = &[
    "inspect @",
    "inspect @ --json",
    "show @ --stats",
    "verify @ --json",
    "check @",
    "convert @ out.safetensors --lossy --widen",
    "edit @ --set k=1 --dry-run",
];

/// Commands for a damaged file.
pub(super) const DAMAGED: &str =
    "inspect @ --json; verify @ --json; convert @ out.aero --lossy --widen --uuid %u";

/// Commands for every model, which read it.
const READING: &[&str] = &[
    "inspect @",
    "inspect @ --json",
    "inspect @ --json --hash",
    "inspect @ --tree",
    "inspect @ --summary --pin b3:%b3",
    "inspect @ --sort size --tensors *e*",
    "inspect - --json <@",
    "show @",
    "show @ --json",
    "show @ --stats --slice 0:1",
    "show @ *a* --bars",
    "check @",
    "check @ --json",
    "verify @",
    "verify @ --json",
    "verify @ --json --level control",
    "verify @ --json --level header",
    "verify @ --pin aero:%b3",
    "verify @ --key +keys/ed25519.pub",
    "plan @",
    "plan @ *a* --json",
    "extract @ * -o out/",
    "extract @ * -o out.npz --cast f32",
    "extract @ * -o out.safetensors --dequantize f32",
    "extract @ * -o -",
    "extract @ *0* -o out.bin --pin b3:%b3",
    "outboard @; verify @ --json --pin b3:%b3",
];

/// The outputs of `convert`, with the options that they need.
const TARGETS: &[&str] = &[
    "out.aero --uuid %u",
    "out.aeroset.json --uuid %u",
    "out.apr --to apr",
    "out.apr --to apr2",
    "out.gguf",
    "out.mag",
    "out.mag --to mag@0.3",
    "out.oinf",
    "out.oinf --to oinf@2",
    "out.safetensors",
];

/// Options that are tried with every target.
const WAYS: &[&str] = &["", " --dry-run --json", " --json --lossy --widen --dequantize f32"];

/// Targets with options of their own.
const SPECIAL: &[&str] = &[
    "out.aero --uuid %u --lossy --control-hash --page-hashes=4KiB --tensor-hashes --shard-size 1KiB --outboard",
    "out.aero --uuid %u --lossy --dedupe --no-zstd --reserve 4KiB --model-name m --architecture a",
    "out.aeroset.json --uuid %u --lossy --shard-size 1KiB",
    "out.apr --to apr2 --lossy --widen --dequantize f32 --compress lz4 --align 32",
    "out.apr --to apr2 --lossy --widen --dequantize f32 --shard-size 1KiB",
    "out.gguf --stringify --align 64 --reserve 4KiB",
    "out.gguf --lossy --shard-size 1KiB",
    "out.gguf --lossy --quantize q8_0",
    "out.gguf --lossy --quantize q4_k --widen --rename *=x.*",
    "out.mag --lossy --dequantize f32 --checksum crc32c --exclude *0*",
    "out.oinf --lossy --dequantize f32 --allow-extended-types --sizevar N=3 --declare y:i16[4,4]",
    "out.safetensors --lossy --shard-size 1KiB",
    "out.safetensors --lossy --cast f16 --include *a*",
    "- --to safetensors --lossy",
];

/// Commands for every model, which change, sign or encrypt it.
const CHANGING: &[&str] = &[
    "edit @",
    "edit @ --set k=1; verify @ --json",
    "edit @ --unset *",
    "edit @ --rename *=x.*; inspect @ --json",
    "edit @ --drop *a*; inspect @ --json",
    "edit @ --metadata +oms/sample/config.json --dry-run",
    "sign @ --key +keys/ed25519.pem; verify @ --key +keys/ed25519.pub --json (random)",
    "sign @ --key +keys/p256.pem; verify @ --key +keys/p256.pub --json; inspect @ --key +keys/p384.pub",
    "seal @ out.apr --to-recipient +keys/x25519.pub --lossy --widen; show out.apr --identity +keys/x25519.pem (random)",
];

/// Commands for the folder of a set.
const FOLDER: &[&str] = &[
    "inspect . --json",
    "verify -r .",
    "convert -r . out --to safetensors --lossy --widen (random)",
    "sign . --key +keys/p256.pem; verify . --key +keys/p256.pub --json",
];

/// Commands for encrypted and signed files.
pub(super) const SEALED: &[&str] = &[
    "inspect @ --json --key-file +raw",
    "verify @ --json --passphrase-file +phrase",
    "show @ --identity +recipient",
    "convert @ out.safetensors --lossy --key-file +raw --passphrase-file +phrase --identity +recipient",
    "unseal @ out.gguf --lossy --key-file +raw --passphrase-file +phrase --identity +recipient",
    "diff @ +seal/signed.apr --key-file +raw --passphrase-file +phrase --identity +recipient",
    "inspect @ --passphrase-file +raw",
];

/// Commands without a file.
pub(super) const WITHOUT_FILE: &[&str] = &[
    "",
    "-h",
    "--help",
    "--version",
    "man",
    "completions bash",
    "completions elvish",
    "completions fish",
    "completions powershell",
    "completions zsh",
    "completions tcsh",
    "help",
    "help pins",
    "check --help",
    "completions --help",
    "convert --help",
    "diff --help",
    "edit --help",
    "extract --help",
    "fetch --help",
    "inspect --help",
    "keygen --help",
    "man --help",
    "outboard --help",
    "plan --help",
    "prove --help",
    "report --help",
    "seal --help",
    "show --help",
    "sign --help",
    "unseal --help",
    "verify --help",
    "check -h",
    "convert -h",
    "diff -h",
    "edit -h",
    "extract -h",
    "inspect -h",
    "keygen -h",
    "outboard -h",
    "plan -h",
    "seal -h",
    "show -h",
    "sign -h",
    "unseal -h",
    "verify -h",
    "hash x",
    "info x",
    "inspct x",
    "merge x",
    "quantize x",
    "convert",
    "convert +gguf/types.gguf",
    "convert +gguf/types.gguf out",
    "convert +gguf/types.gguf out.gguf --cast q9",
    "convert +gguf/types.gguf out.gguf --tensor-hashes",
    "convert +gguf/types.gguf out.gguf --unknown",
    "convert +gguf/types.gguf out.pt",
    "convert +gguf/types.gguf no/such/folder/out.aero",
    "convert +gguf/types.gguf +gguf/shapes.gguf out.gguf",
    "convert +gguf/types.gguf +gguf/types.gguf out.gguf --json",
    "convert +gguf/types.gguf +gguf/types.gguf --force",
    "convert missing.gguf out.aero --json",
    "diff +gguf/types.gguf",
    "edit missing.aero --set k=1",
    "extract +gguf/types.gguf no.such.tensor -o out.npy",
    "fetch missing.gguf out",
    "inspect",
    "inspect .",
    "inspect missing.gguf +gguf/types.gguf",
    "inspect missing.gguf --json",
    "keygen --type ed25519 -o key; verify key.pub (random)",
    "keygen --type p256 -o missing/key",
    "plan +gguf/types.gguf no.such.tensor --json",
    "convert +reference/gguf/types.gguf out.gguf --quantize q4_k_m --lossy",
    "sign missing.gguf --key missing.pem",
    "sign +apr2/dtypes.apr --key +keys/ed25519.pem --revision 3; verify other/dtypes.apr --key +keys/ed25519.pub --min-revision 4 (random)",
    "sign +gguf/types.gguf --key +keys/rsa.pub",
    "show +gguf/types.gguf no.such.tensor",
    "verify +aero/dtypes.aero +gguf/types.gguf +mag/foreign.mag missing.oinf",
    "verify -r no/such/folder --json",
];

/// Returns all lines for a model. `is_set` says whether it is a set.
pub(super) fn full(is_set: bool) -> Vec<String> {
    let mut lines: Vec<String> = READING.iter().chain(CHANGING).map(|line| (*line).to_owned()).collect();
    // The index of a new AEROSET has a new UUID.
    lines.push(format!("edit @ --set k=[1,2] --unset * -o out{}", if is_set { RANDOM } else { "" }));
    for target in TARGETS {
        lines.extend(WAYS.iter().map(|way| format!("convert @ {target}{way}")));
    }
    lines.extend(SPECIAL.iter().map(|special| format!("convert @ {special}")));
    lines.extend(FOLDER.iter().filter(|_| is_set).map(|line| (*line).to_owned()));
    lines
}

/// Returns the lines that compare a model with another.
pub(super) fn compared(other: &str) -> [String; 3] {
    [
        format!("diff @ +{other}"),
        format!("diff @ +{other} --json --norms --ignore-metadata"),
        "diff @ @ --json".to_owned(),
    ]
}
