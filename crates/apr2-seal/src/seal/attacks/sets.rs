//! Attacks on sets that are signed as one: our own sets, and the set of the vectors.

use std::sync::Arc;

use apr2::{Metadata, SetPlan, WriteOptions};
use modelfmt_core::source::MemoryFiles;
use modelfmt_core::value::Object;
use modelfmt_core::{DType, Execution, Limits, Source as _, VerifyLevel};
use modelfmt_write::edit::Preview;
use modelfmt_write::{MemoryFolder, TensorSpec};

use super::{Access, Parts, SealOptions, alice, carol, mallory, vector};
use crate::reader::OpenOptions;
use crate::seal::Passphrase;
use crate::seal::derive::FileKeys;
use crate::seal::keys_section::KeysSection;
use crate::seal::passphrase_cost::Costs;
use crate::set::{SetIndex, SetReader};

const MANIFEST: &str = "model.apr";
const FIRST: &str = "model-00001-of-00002.apr";
const SECOND: &str = "model-00002-of-00002.apr";

fn ours(seal: &SealOptions, fill: u8) -> MemoryFiles {
    let specs = ["a.weight", "big"].map(|name| TensorSpec::new(name, DType::U8, vec![9000]));
    let metadata = Metadata::new("set", Object::default());
    let plan = SetPlan::new(MANIFEST, specs, &metadata, &WriteOptions::new().shard_size(12_000)).unwrap();
    let folder = MemoryFolder::default();
    let values = [[fill; 9000], [fill + 1; 9000]];
    seal.write_set(&plan, &values, &folder, &Execution::default()).unwrap();
    folder.files()
}

fn both() -> SealOptions {
    SealOptions::new().sign(alice()).recipient(carol().recipient()).revision(7)
}

struct Set {
    name: &'static str,
    files: MemoryFiles,
    access: Access,
}

fn sets() -> Vec<Set> {
    let trust = || Access::new().trust(alice().verifying_key());
    let read = |name: &str| (name.to_owned(), vector(&format!("set/{name}")).into());
    let vector = MemoryFiles([MANIFEST, FIRST, SECOND].into_iter().map(read).collect());
    let set = |name, files, access| Set { name, files, access };
    vec![
        set("vector", vector, trust()),
        set("ours, signed", ours(&SealOptions::new().sign(alice()).revision(7), 1), trust()),
        set("ours, both", ours(&both(), 1), trust().open_with(carol())),
        set("ours, hidden", ours(&both().hide_index(true), 1), trust().open_with(carol())),
        set("ours, hidden, no key", ours(&both().hide_index(true), 1), trust()),
    ]
}

/// Returns the first check that fails while the set is opened and read. Asserts that `verify` agrees on
/// whether the set is good.
fn outcome(files: &MemoryFiles, access: &Access) -> String {
    let options = OpenOptions::new().with_extension(access.clone());
    let read = || {
        let set = SetReader::from_files_with(files.clone(), MANIFEST, &options)?;
        let report = set.verify(VerifyLevel::Full);
        (0..set.index().names().len())
            .try_for_each(|position| set.tensor(position).map(|_| ()))
            .inspect_err(|_| assert!(!report.is_ok(), "read fails, and verify finds nothing"))
    };
    read().map_or_else(|error: crate::Error| error.to_string(), |()| "ok".to_owned())
}

#[track_caller]
fn refused(set: &Set, what: &str, by: &str, change: impl FnOnce(&mut MemoryFiles)) {
    let mut files = set.files.clone();
    change(&mut files);
    let found = outcome(&files, &set.access);
    assert!(found.contains(by), "{}, {what}: {found}, not {by}", set.name);
}

fn text(files: &MemoryFiles) -> String {
    String::from_utf8(files.0[MANIFEST].to_vec()).unwrap()
}

fn put(files: &mut MemoryFiles, name: &str, bytes: impl Into<Arc<[u8]>>) {
    files.0.insert(name.to_owned(), bytes.into());
}

/// Corrects the sizes and CRCs in the manifest. They are not signed, because they change when a shard is
/// rekeyed.
fn put_sizes_right(files: &mut MemoryFiles) {
    let mut out = String::new();
    let manifest = text(files);
    let mut names = [FIRST, SECOND].iter();
    if manifest.find(SECOND) < manifest.find(FIRST) {
        names = [SECOND, FIRST].iter();
    }
    for line in manifest.split_inclusive('\n') {
        match line.trim_start().strip_prefix("\"size\": ") {
            Some(rest) => {
                let len = files.0[*names.next().unwrap()].len();
                let comma = if rest.trim_end().ends_with(',') { "," } else { "" };
                out += &format!("\"size\": {len}{comma}\n");
            }
            None => out += line,
        }
    }
    put(files, MANIFEST, out.into_bytes());
}

fn edit(files: &mut MemoryFiles, from: &str, to: &str) {
    let manifest = text(files);
    assert!(manifest.contains(from), "{from}: {manifest}");
    put(files, MANIFEST, manifest.replacen(from, to, 1).into_bytes());
}

#[test]
fn what_is_not_attacked_is_good() {
    for set in sets() {
        refused(&set, "as it is", "ok", |_| ());
        refused(&set, "sizes", "ok", put_sizes_right);
    }
}

#[test]
fn shards_swapped_replaced_or_dropped() {
    for set in sets() {
        refused(&set, "swapped", "SealSet", |files| {
            let (first, second) = (files.0[FIRST].clone(), files.0[SECOND].clone());
            put(files, FIRST, second);
            put(files, SECOND, first);
            put_sizes_right(files);
        });
        refused(&set, "dropped", "cannot open", |files| drop(files.0.remove(SECOND)));
        // Replaced by files that alice has also signed: a shard of another model, and an older revision.
        let other = ours(&both(), 5);
        refused(&set, "replaced by one of another set", "SealSet", |files| {
            put(files, SECOND, other.0[SECOND].clone());
            put_sizes_right(files);
        });
        refused(&set, "replaced by a plain file", "SealMissing", |files| {
            put(files, SECOND, std::fs::read(testkit::testdata("apr2/dtypes.apr")).unwrap());
            put_sizes_right(files);
        });
    }
}

#[test]
fn list_or_map_edited() {
    for set in sets() {
        let manifest = text(&set.files);
        let of = |key: &str| {
            let at = manifest.find(key).unwrap();
            manifest[at..]
                .split('"')
                .find(|part| part.len() >= 32 && part.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        let (uuid, statement) = (of("set_uuid").unwrap(), of("statements").unwrap());
        let other = |hex: &str| format!("{}{}", &hex[1..], &hex[..1]);
        refused(&set, "statement", "SealBadSignature", |f| edit(f, statement, &other(statement)));
        refused(&set, "uuid", "SealBadSignature", |f| edit(f, uuid, &other(uuid)));
        if manifest.contains("a.weight") {
            refused(&set, "map", "SealBadSignature", |f| edit(f, "\"a.weight\": 0", "\"a.weight\": 1"));
            refused(&set, "a name", "SealBadSignature", |f| edit(f, "\"a.weight\": 0", "\"b.weight\": 0"));
        } else {
            let (from, to) = ("\"tensor_shard_map\": {", "\"tensor_shard_map\": {\"a.weight\": 0");
            refused(&set, "a map", "SealBadSignature", |f| edit(f, from, to));
        }
        refused(&set, "a file", "SealBadSignature", |files| {
            edit(files, SECOND, "other.apr");
            let shard = files.0[SECOND].clone();
            put(files, "other.apr", shard);
        });
        refused(&set, "no seal", "SealMissing", |f| edit(f, "\"seal\"", "\"other\""));
        let revision = manifest.split("\"revision\": ").nth(1).unwrap().split(',').next().unwrap();
        let (from, to) = (format!("\"revision\": {revision}"), "\"revision\": 70");
        refused(&set, "revision", "SealBadSignature", |f| edit(f, &from, to));
    }
}

#[test]
fn signed_by_another_key() {
    let mut by_mallory = sets();
    let seal = SealOptions::new().sign(mallory());
    for set in &mut by_mallory {
        set.files = ours(&seal, 1);
        refused(set, "by mallory", "SealNoTrustedSignature", |_| ());
        // Each shard is signed by alice, but their list is not.
        let files = ours(&SealOptions::new().sign(alice()), 1);
        refused(set, "mallory's list", "Seal", |of_mallory| {
            put(of_mallory, FIRST, files.0[FIRST].clone());
            put(of_mallory, SECOND, files.0[SECOND].clone());
        });
    }
}

#[test]
fn older_version_replayed() {
    for set in sets() {
        let access = set.access.clone().min_revision(100);
        assert!(outcome(&set.files, &access).contains("SealRevision"), "{}", set.name);
    }
}

/// The manifest does not list the tensors that the shards hide, but a name may still occur only once.
#[test]
fn a_name_in_two_hidden_shards() {
    let files = ours(&both().hide_index(true), 1);
    let manifest = text(&files);
    assert!(!manifest.contains("a.weight") && !manifest.contains("big"), "{manifest}");
    let options = OpenOptions::new().with_extension(Access::new().open_with(carol()));
    let statement = |name: &str| {
        let reader = options.open_source(files.0[name].to_vec()).unwrap();
        (reader.index().file_len(), reader.index().seal().unwrap().statement())
    };
    let set = SetIndex::parse(manifest.as_bytes(), &Limits::default()).unwrap();
    let access = Access::new().trust(alice().verifying_key()).open_with(carol());
    for (second, by) in [(SECOND, "ok"), (FIRST, "\"a.weight\"")] {
        let shards = [statement(FIRST), statement(second)];
        let signed = set.sign_anew(manifest.as_bytes(), &shards, &[alice()], 7).unwrap();
        let signed = Preview::new(signed, manifest.as_bytes());
        let mut bytes = vec![0; usize::try_from(signed.len()).unwrap()];
        signed.read_into(0, &mut bytes).unwrap();
        let set = Set { name: "signed anew", files: files.clone(), access: access.clone() };
        refused(&set, second, by, |files| {
            put(files, MANIFEST, bytes);
            put(files, SECOND, files.0[second].clone());
        });
    }
}

/// A list binds the content of its shards, even against attackers who have the key, because digests are then
/// checked in addition to AES-GCM.
#[test]
fn a_list_binds_what_a_recipient_could_forge() {
    let files = ours(&both(), 1);
    let options = OpenOptions::new().with_extension(Access::new().open_with(carol()));
    let shard = options.open_source(files.0[SECOND].to_vec()).unwrap();
    let keys: FileKeys = shard.index().seal.as_deref().unwrap().keys.clone().unwrap();
    let mut parts = Parts::of(&files.0[SECOND]);
    let listed = parts.listed[0].clone();
    let identity = apr2::author::identity(&listed.name, listed.dtype, &listed.dims);
    let cipher = crate::seal::segments::Cipher::of_tensor(&keys, 0, &identity, parts.body.segment, 9000);
    let at = usize::try_from(listed.offset).unwrap();
    let other = cipher.sealed(0, &[0xee; 9000]).unwrap();
    parts.data[at..at + other.len()].copy_from_slice(&other);
    let forged = parts.join();
    assert_eq!(options.open_source(forged.clone()).unwrap().tensor("big").unwrap().bytes(), [0xee; 9000]);
    let key = Access::new().open_with(carol());
    for access in [key.clone(), key.trust(alice().verifying_key())] {
        let set = Set { name: "forged", files: files.clone(), access };
        refused(&set, "a tensor", "SealDigest", |files| put(files, SECOND, forged.clone()));
    }
}

/// All shards of a set have the same salt for a passphrase, so that it is tried once for all of them. Their
/// keys are different anyway, and so are the salts of two sets that are written in the same way.
#[test]
fn a_passphrase_is_tried_once_for_a_set() {
    let phrase = || Passphrase::from_bytes(b"correct horse").unwrap();
    let seal = SealOptions::new().passphrase_at(phrase(), Costs { memory: 64, passes: 1, lanes: 1 });
    let payload =
        |bytes: &[u8]| KeysSection::decode(&Parts::of(bytes).keys).unwrap().slots[0].payload.clone();
    let mut salts = Vec::new();
    for hides in [true, false] {
        let files = ours(&seal.clone().hide_index(hides), 1);
        let [first, second] = [FIRST, SECOND].map(|name| payload(&files.0[name]));
        assert_eq!(first[..28], second[..28], "salt and costs");
        assert_ne!(first[28..40], second[28..40], "the nonce");
        assert_ne!(first[40..], second[40..], "the wrapped key");
        salts.push(first[..16].to_vec());
        let phrase = phrase();
        let options = OpenOptions::new().with_extension(Access::new().open_with(phrase.clone()));
        let set = SetReader::from_files_with(files.clone(), MANIFEST, &options).unwrap();
        assert_eq!(
            (set.tensor("a.weight").unwrap().bytes(), set.tensor("big").unwrap().bytes()),
            (&[1; 9000][..], &[2; 9000][..])
        );
        assert_eq!(phrase.remembered(), 1, "Argon2id ran more than once");
        let uuids = [FIRST, SECOND].map(|name| Parts::of(&files.0[name]).body.uuid);
        assert_ne!(uuids[0], uuids[1]);
    }
    assert_ne!(salts[0], salts[1]);
    // Files outside a set have their own salts.
    let single = || {
        let specs = [TensorSpec::new("w", DType::U8, vec![3])];
        let plan = crate::Plan::new(specs, &Metadata::new("tiny", Object::default()), &WriteOptions::new());
        let file = modelfmt_write::MemoryFile::new();
        seal.write(&plan.unwrap(), &[[1u8, 2, 3]], &file, &Execution::default()).unwrap();
        payload(&file.into_bytes())[..16].to_vec()
    };
    assert_ne!(single(), single());
}

/// The report on the encryption of a set covers all of its shards.
#[test]
fn the_tensors_of_all_shards_are_counted() {
    for (hides, key) in [(false, true), (false, false), (true, true), (true, false)] {
        let files = ours(&both().hide_index(hides), 1);
        let access = if key { Access::new().open_with(carol()) } else { Access::new() };
        let set =
            SetReader::from_files_with(files, MANIFEST, &OpenOptions::new().with_extension(access)).unwrap();
        let details = modelfmt_core::Container::details(&set).unwrap().into_object();
        let encryption = details.get("encryption").unwrap().as_object().unwrap();
        assert_eq!(encryption.get("tensors").unwrap().as_u64(), Some(2), "{hides} {key}");
        assert_eq!(encryption.get("is_open").unwrap().as_bool(), Some(key));
        assert_eq!(details.get("revision").unwrap().as_u64(), Some(7));
    }
}
