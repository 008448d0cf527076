//! Checkpoints of PyTorch, one file or several. They are only read, and no code in them is run.

use modelfmt_core::DType;

use super::Format;
use super::capabilities::{Access, Blocks, Capabilities, Contents, Metadata, Names, Properties};
use super::entry::{Detection, Entry, IndexJson, format_fns};

pub(super) static PYTORCH: Entry = Entry {
    name: "pytorch",
    feature: "pytorch",
    detection: Detection::Header(is_checkpoint),
    ending: None,
    sharded: None,
    is_set: false,
    versions: &[],
    capabilities: CAPABILITIES,
    choices: &[],
    fns: format_fns!("pytorch"),
};

pub(super) static PYTORCH_SHARDED: Entry = Entry {
    name: "pytorch-sharded",
    feature: "pytorch",
    detection: Detection::Index(IndexJson {
        keys: &["weight_map"],
        name: None,
        files: &[("weight_map", None)],
        endings: &[".bin", ".pt", ".pth", ".ckpt"],
    }),
    ending: Some(".bin.index.json"),
    sharded: None,
    is_set: true,
    versions: &[],
    capabilities: Capabilities { format: Format::PytorchSharded, ..CAPABILITIES },
    choices: &[],
    fns: format_fns!("pytorch"),
};

const CAPABILITIES: Capabilities = Capabilities {
    format: Format::Pytorch,
    numbers: &[
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F8E8M0,
        DType::F8E4M3Fnuz,
        DType::F8E5M2Fnuz,
    ],
    blocks: Blocks::None,
    complex: true,
    packed: false,
    min_rank: 0,
    max_rank: 255,
    names: Names::Any,
    declared: false,
    quants: false,
    metadata: Metadata::ReadOnly,
    access: Access::ReadOnly(Some("safetensors is what PyTorch's own tools read instead")),
    properties: Properties { contents: Contents::Checkpoint, ..Properties::NONE },
};

/// The magic number in the first pickle of the older stream, with its opcode and its length.
const MAGIC: &[u8] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
/// The same number, as protocols 0 and 1 write it.
const MAGIC_AS_TEXT: &[u8] = b"L119547037146038801333356L\n.";

/// Checks whether a file is an archive whose first member belongs to a checkpoint, or the older stream.
fn is_checkpoint(first: &[u8]) -> bool {
    if let Some(name) = super::zip::first_name(first) {
        let end =
            name.iter().position(|&byte| byte == b'/').and_then(|at| name.get(at..)).unwrap_or_default();
        const WORDS: &[&[u8]] = &[
            b"/data.pkl",
            b"/byteorder",
            b"/version",
            b"/.format_version",
            b"/.storage_alignment",
            b"/constants.pkl",
        ];
        const FOLDERS: &[&[u8]] = &[b"/data/", b"/.data/", b"/code/"];
        return WORDS.contains(&end) || FOLDERS.iter().any(|folder| end.starts_with(folder));
    }
    // PROTO, and a FRAME from protocol 4 on.
    let rest = match first {
        [0x80, 0..=5, 0x95, rest @ ..] => rest.get(8..).unwrap_or_default(),
        [0x80, 0..=5, rest @ ..] => rest,
        rest => rest,
    };
    // With some protocols, the probed bytes end within the magic.
    let begins = |magic: &[u8]| rest.starts_with(magic) || (rest.len() >= 8 && magic.starts_with(rest));
    begins(MAGIC) || begins(MAGIC_AS_TEXT)
}
