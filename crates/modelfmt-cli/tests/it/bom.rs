//! `bom`: documents are valid by their published schemas, whatever the model says about itself.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use modelfmt::bom::{BomOptions, Spec};
use modelfmt::oms::HashedFile;
use modelfmt::{Execution, Model};
use serde_json::{Value, json};

use crate::common::{Run, command, modelfmt, modelfmt_in, program, run, testdata};

const SPECS: [&str; 2] = ["cyclonedx", "spdx"];

/// Fails unless every document in the folder is valid and there are `count` documents.
fn assert_valid(folder: &Path, count: usize) {
    let mut paths: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .filter(|path| path.ends_with(".bom.json"))
        .collect();
    paths.sort_unstable();
    assert_eq!(paths.len(), count, "{paths:?}");
    let script = fs::read_to_string(testdata("../xtask/oracles/bills_of_materials.py")).unwrap();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let printed = testkit::python_with("bills-of-materials", &script, &paths);
    assert_eq!(printed.trim(), count.to_string());
}

/// Writes a document of a model.
fn write(model: &Path, out: &Path, spec: &str, options: &[&str]) -> Run {
    let args = ["bom".as_ref(), model.as_os_str(), "-o".as_ref(), out.as_os_str()];
    modelfmt(args.into_iter().chain(["--spec", spec].iter().chain(options).map(OsStr::new)))
}

/// Writes both documents of a model, and returns them.
fn both(model: &Path, folder: &Path, name: &str, options: &[&str]) -> [Value; 2] {
    SPECS.map(|spec| {
        let out = folder.join(format!("{name}.{spec}.bom.json"));
        write(model, &out, spec, options).ok();
        serde_json::from_slice(&fs::read(out).unwrap()).unwrap()
    })
}

/// Returns the first element of this type.
fn element<'a>(spdx: &'a Value, kind: &str) -> &'a Value {
    let graph = spdx["@graph"].as_array().unwrap();
    graph.iter().find(|element| element["type"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

/// Writes a safetensors file with this metadata, and tensors of one byte.
fn safetensors(path: &Path, metadata: &Value, tensors: usize) {
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".to_owned(), metadata.clone());
    for at in 0..tensors {
        let entry = json!({"dtype": "U8", "shape": [1], "data_offsets": [at, at + 1]});
        header.insert(format!("t{at:05}\u{202e}\"\n"), entry);
    }
    let header = Value::Object(header).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + tensors, 7);
    fs::write(path, bytes).unwrap();
}

/// Makes both documents of a model without starting the program, for the thousands of files of the conformance
/// suite. `None` if it is no model, or one whose values cannot be read.
fn made(path: &Path) -> Option<[String; 2]> {
    let model = Model::open(path).ok()?;
    let options = BomOptions::new().tensors(true);
    let bom = modelfmt::bom::bom(&[&model], &options, &Execution::default()).ok()?;
    Some(Spec::ALL.map(|spec| bom.to_json(spec).unwrap()))
}

#[test]
fn documents_of_every_golden_file_are_valid() {
    let out = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    files_below(&testdata(""), &mut paths);
    paths.sort_unstable();
    let suite = testdata("conformance");
    let mut count = 0;
    for path in paths {
        let documents = SPECS.map(|spec| out.path().join(format!("{count:04}.{spec}.bom.json")));
        let run = |at: usize| write(&path, &documents[at], SPECS[at], &["--tensors"]);
        let is_made = if path.starts_with(&suite) {
            let texts = made(&path);
            for (document, text) in documents.iter().zip(texts.iter().flatten()) {
                fs::write(document, text).unwrap();
            }
            texts.is_some()
        } else {
            let is_made = run(0).status == 0;
            if is_made {
                run(1).ok();
            }
            is_made
        };
        if !is_made {
            // It is no model, or one whose values cannot be read.
            let inspected = modelfmt(["inspect".as_ref(), "--hash".as_ref(), path.as_os_str()]);
            assert_ne!(inspected.status, 0, "{}", path.display());
            continue;
        }
        count += 1;
    }
    assert!(count > 100, "{count}");
    assert_valid(out.path(), 2 * count);
}

#[test]
fn hashes_are_those_of_all_files() {
    let out = tempfile::tempdir().unwrap();
    let set = testdata("safetensors/set.safetensors.index.json");
    let split = testdata("reference/gguf/split-00002-of-00003.gguf");
    let sealed = testdata("seal/signed.apr");
    let names = |folder: &Path, pattern: &[String]| -> Vec<PathBuf> {
        pattern.iter().map(|name| folder.join(name)).collect()
    };
    let shards: Vec<String> = (1..=5).map(|n| format!("set-0000{n}-of-00005.safetensors")).collect();
    let splits: Vec<String> = (1..=3).map(|n| format!("split-0000{n}-of-00003.gguf")).collect();
    for (model, files) in [
        (&set, [vec![set.clone()], names(set.parent().unwrap(), &shards)].concat()),
        (&split, names(split.parent().unwrap(), &splits)),
        (&sealed, vec![sealed.clone()]),
    ] {
        let name = model.file_stem().unwrap().to_string_lossy().into_owned();
        let [cyclonedx, spdx] = both(model, out.path(), &name, &[]);
        let expected = HashedFile::of(&files, &Execution::default()).unwrap();
        let found = cyclonedx["components"][0]["components"].as_array().unwrap();
        assert_eq!(found.len(), expected.len(), "{}", model.display());
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found["name"], *expected.name);
            assert_eq!(found["hashes"][0], json!({"alg": "SHA-256", "content": expected.sha256}));
            assert_eq!(found["hashes"][1], json!({"alg": "BLAKE3", "content": expected.blake3}));
        }
        let of_spdx = spdx["@graph"].as_array().unwrap().iter();
        let of_spdx: Vec<&Value> = of_spdx.filter(|element| element["type"] == "software_File").collect();
        assert_eq!(of_spdx.len(), expected.len());
        for (found, expected) in of_spdx.iter().zip(&expected) {
            assert_eq!(found["verifiedUsing"][0]["hashValue"], *expected.sha256);
            assert_eq!(found["verifiedUsing"][1]["hashValue"], *expected.blake3);
        }
        // The digests of a model are those of its file, if there is only one file.
        let own = &cyclonedx["components"][0]["hashes"];
        assert_eq!(own.is_array(), expected.len() == 1, "{own}");
    }
    assert_valid(out.path(), 6);
}

#[test]
fn what_a_model_states_is_in_the_documents() {
    let out = tempfile::tempdir().unwrap();
    let model = out.path().join("m.gguf");
    fs::copy(testdata("reference/trained.mag"), out.path().join("m.mag")).unwrap();
    let run = |args: &str| modelfmt_in(out.path(), args).ok();
    run("convert m.mag m.gguf --lossy --widen --stringify --quiet");
    for set in [
        "general.name=Tiny",
        "general.version=\"2.1\"",
        "general.license=apache-2.0",
        "general.architecture=llama",
        "general.base_model.0.name=Base",
        "general.base_model.0.version=\"1\"",
        "general.base_model.0.organization=Org",
        "general.base_model.0.repo_url=https://user:secret@example.org/a",
    ] {
        run(&format!("edit m.gguf --set {set} --quiet"));
    }
    let [cyclonedx, spdx] = both(&model, out.path(), "m", &["--tensors"]);
    let component = &cyclonedx["components"][0];
    assert_eq!(component["type"], "machine-learning-model");
    assert_eq!((&component["name"], &component["version"]), (&json!("Tiny"), &json!("2.1")));
    assert_eq!(component["licenses"], json!([{"license": {"id": "Apache-2.0"}}]));
    let base = &component["pedigree"]["ancestors"][0];
    let vcs = json!([{"type": "vcs", "url": "https://example.org/a"}]);
    assert_eq!(
        (&base["name"], &base["group"], &base["version"]),
        (&json!("Base"), &json!("Org"), &json!("1"))
    );
    assert_eq!(base["externalReferences"], vcs);
    assert_eq!(component["modelCard"]["modelParameters"]["modelArchitecture"], "llama");
    let inspected = modelfmt(["inspect", "--json", "--hash", model.to_str().unwrap()]).json();
    let properties = component["modelCard"]["properties"].as_array().unwrap();
    let property = |name: &str| {
        let found = properties.iter().find(|property| property["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}"))["value"].as_str().unwrap().to_owned()
    };
    assert_eq!(property("modelfmt:parameters"), inspected["model"]["parameters"].to_string());
    assert_eq!(property("modelfmt:tensors"), "6");
    assert_eq!(property("modelfmt:dtype:f32:tensors"), "3");
    let tensors: Vec<&Value> =
        component["components"].as_array().unwrap().iter().filter(|part| part["type"] == "data").collect();
    let expected = inspected["tensors"].as_array().unwrap();
    assert_eq!(tensors.len(), expected.len());
    for (tensor, expected) in tensors.iter().zip(expected) {
        assert_eq!(
            (&tensor["name"], &tensor["hashes"][0]["content"]),
            (&expected["name"], &expected["blake3"])
        );
    }
    let package = element(&spdx, "ai_AIPackage");
    assert_eq!((&package["name"], &package["software_packageVersion"]), (&json!("Tiny"), &json!("2.1")));
    assert_eq!(package["ai_typeOfModel"], json!(["llama"]));
    let licence = element(&spdx, "simplelicensing_LicenseExpression");
    assert_eq!(licence["simplelicensing_licenseExpression"], "Apache-2.0");
    let snippet = element(&spdx, "software_Snippet");
    let (offset, nbytes) = (&expected[0]["offset"], &expected[0]["stored_nbytes"]);
    assert_eq!(snippet["software_byteRange"]["beginIntegerRange"], offset.as_u64().unwrap() + 1);
    let end = offset.as_u64().unwrap() + nbytes.as_u64().unwrap();
    assert_eq!(snippet["software_byteRange"]["endIntegerRange"], end);
    let kinds = ["contains", "hasDeclaredLicense", "descendantOf"];
    let related = spdx["@graph"].as_array().unwrap().iter().filter(|e| e["type"] == "Relationship");
    assert_eq!(related.map(|e| e["relationshipType"].as_str().unwrap()).collect::<Vec<_>>(), kinds);
    assert_valid(out.path(), 2);
}

#[test]
fn a_folder_of_the_hub_is_its_files_and_its_card() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("model");
    fs::create_dir(&folder).unwrap();
    safetensors(&folder.join("model.safetensors"), &json!({"format": "pt"}), 2);
    let card = "---\nlicense: other\nlicense_name: mine\nlicense_link: https://example.org/a b\nbase_model:\n- org/base\n---\n# Mine\n";
    fs::write(folder.join("README.md"), card).unwrap();
    fs::write(folder.join("adapter_config.json"), r#"{"base_model_name_or_path": "org/other", "r": 8}"#)
        .unwrap();
    fs::write(folder.join("config.json"), r#"{"model_type": "llama", "_name_or_path": "org/tiny"}"#).unwrap();
    fs::write(folder.join("notes.txt"), "not of the model").unwrap();
    let [cyclonedx, spdx] = both(&folder, place.path(), "m", &[]);
    let component = &cyclonedx["components"][0];
    // config.json may say that it was loaded from another model.
    assert_eq!(component["name"], "model");
    let licence = json!([{"license": {"name": "mine", "url": "https://example.org/a%20b"}}]);
    assert_eq!(component["licenses"], licence);
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&component["pedigree"]["ancestors"]), ["org/base", "org/other"]);
    let files = ["model.safetensors", "config.json", "adapter_config.json", "README.md"];
    assert_eq!(names(&component["components"]), files);
    let text = element(&spdx, "simplelicensing_SimpleLicensingText");
    assert_eq!(text["name"], "mine");
    // For a model that states nothing, the documents have nothing.
    let bare = place.path().join("bare.safetensors");
    safetensors(&bare, &json!({}), 1);
    let [cyclonedx, spdx] = both(&bare, place.path(), "bare", &[]);
    for key in ["version", "licenses", "pedigree", "properties"] {
        assert!(cyclonedx["components"][0].get(key).is_none(), "{key}");
    }
    assert_eq!(cyclonedx["components"][0]["name"], "bare");
    let package = element(&spdx, "ai_AIPackage");
    assert!(package.get("software_packageVersion").is_none() && package.get("ai_typeOfModel").is_none());
    assert_valid(place.path(), 4);
}

#[test]
fn documents_of_hostile_models_are_valid() {
    let out = tempfile::tempdir().unwrap();
    let long = "9".repeat(2000);
    let strange = "a\u{1b}[31m\"\\\u{0}\u{202e}b\u{2028}\u{feff}</script>\u{10ffff}";
    for (name, metadata) in [
        ("long", json!({"version": long, "name": long, "license": long, "base_model": long})),
        ("strange", json!({"version": strange, "name": strange, "license": strange, "base_model": strange})),
        ("nothing", json!({"version": " ", "name": "", "license": "\n", "base_model": "\t"})),
        ("expression", json!({"license": "MIT OR (Apache-2.0 AND BSD-3-Clause)"})),
        ("nonsense", json!({"license": "MIT OR", "license_link": "https://[x/ y"})),
        ("reference", json!({"license": "LicenseRef-mine", "license_link": "http://a b:c@d:e/%zz#a#b"})),
        ("nested", json!({"license": "(".repeat(1000) + "MIT" + &")".repeat(1000)})),
        ("link", json!({"license": "mit", "license_link": "javascript:alert(1)"})),
        ("url", json!({"license": "mit", "license_link": "https://ex ample.org/ü\u{202e}?a[b]=\\#|"})),
    ] {
        let model = out.path().join(format!("{name}\u{202e}\n\" .safetensors"));
        safetensors(&model, &metadata, 3);
        let [cyclonedx, spdx] = both(&model, out.path(), name, &["--tensors"]);
        let version = cyclonedx["components"][0].get("version").and_then(Value::as_str).unwrap_or_default();
        assert!(version.chars().count() <= 1024, "{name}");
        assert!(!cyclonedx.to_string().contains("javascript:"), "{name}");
        for document in [cyclonedx, spdx] {
            let text = fs::read_to_string(out.path().join(format!("{name}.cyclonedx.bom.json"))).unwrap();
            assert!(!text.contains(['\u{202e}', '\u{1b}', '\u{2028}']), "{name}");
            assert!(document.to_string().contains("t00000"), "{name}");
        }
    }
    assert_valid(out.path(), 18);
}

#[test]
fn documents_of_large_models_are_valid() {
    let out = tempfile::tempdir().unwrap();
    let bases = (0..2000).map(|n| (format!("general.base_model.{n}.name"), json!(format!("base {n}"))));
    let metadata = Value::Object(bases.collect());
    // The validator of CycloneDX compares each component with every other one.
    for (count, name) in [(1000, "thousand"), (10_000, "many")] {
        let model = out.path().join(format!("{name}.safetensors"));
        safetensors(&model, &metadata, count);
        let [cyclonedx, _] = both(&model, out.path(), name, &["--tensors"]);
        let component = &cyclonedx["components"][0];
        assert_eq!(component["pedigree"]["ancestors"].as_array().unwrap().len(), 1000);
        assert_eq!(component["components"].as_array().unwrap().len(), count + 1);
    }
    fs::remove_file(out.path().join("many.cyclonedx.bom.json")).unwrap();
    assert_valid(out.path(), 3);
}

/// Runs `bom` with this specification and this time in the environment.
fn at(epoch: &str, model: &Path, spec: &str) -> Run {
    let args = ["bom".as_ref(), model.as_os_str(), "--spec".as_ref(), spec.as_ref()];
    run(command(program()).args(args).env("SOURCE_DATE_EPOCH", epoch))
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    let place = tempfile::tempdir().unwrap();
    let model = testdata("reference/one-shard.aero");
    let copy = place.path().join("one-shard.aero");
    fs::copy(&model, &copy).unwrap();
    for spec in SPECS {
        let args = |model: &Path| {
            ["bom", "--spec", spec, "--tensors"]
                .map(str::to_owned)
                .into_iter()
                .chain([model.display().to_string()])
        };
        let first = modelfmt(args(&model)).ok();
        assert_eq!(first, modelfmt(args(&copy)).ok());
        assert_eq!(first, modelfmt(args(&model).chain(["--threads".to_owned(), "1".to_owned()])).ok());
        let other = modelfmt(["bom", "--spec", spec, model.to_str().unwrap()]).ok();
        let id = |text: &str| {
            let at = text.find("urn:uuid:").unwrap();
            text[at..at + 45].to_owned()
        };
        assert_ne!(id(&first), id(&other));
        assert_eq!(&id(&first)[23..24], "8");
    }
    let created = |epoch| at(epoch, &model, "spdx").ok();
    assert!(created("951782400").contains(r#""created": "2000-02-29T00:00:00Z""#));
    let without = modelfmt(["bom", "--spec", "spdx", model.to_str().unwrap()]).ok();
    assert_eq!(without, created("0"));
    assert!(without.contains(r#""created": "1970-01-01T00:00:00Z""#));
    for nonsense in ["", "today", "-1", "253402300800"] {
        let error = at(nonsense, &model, "spdx").error();
        assert!(error.starts_with(&format!("error: SOURCE_DATE_EPOCH={nonsense}: expected")), "{error}");
        // CycloneDX gets no time, so the variable is not read.
        assert!(!at(nonsense, &model, "cyclonedx").ok().contains("timestamp"));
    }
}

#[test]
fn only_verified_signers_are_named() {
    let place = tempfile::tempdir().unwrap();
    let here = |args: &str| modelfmt_in(place.path(), args);
    for (from, to) in [
        ("keys/ed25519.pem", "ed.pem"),
        ("keys/ed25519.pub", "ed.pub"),
        ("keys/p256.pem", "p256.pem"),
        ("keys/p256.pub", "p256.pub"),
        ("keys/p384.pub", "other.pub"),
        ("reference/trained.mag", "m.mag"),
    ] {
        fs::copy(testdata(from), place.path().join(to)).unwrap();
    }
    here("convert m.mag m.apr --to apr2 --lossy --widen --quiet").ok();
    here("sign m.apr --key ed.pem --quiet").ok();
    here("sign m.mag --key p256.pem --quiet").ok();
    for (model, key) in [("m.apr", "ed.pub"), ("m.mag", "p256.pub")] {
        let signed = here(&format!("bom {model} --key {key}")).json();
        let properties = &signed["components"][0]["properties"];
        let signer =
            |file: &str| modelfmt_keys::PublicKey::read(&place.path().join(file)).unwrap().id().to_string();
        assert_eq!(*properties, json!([{"name": "modelfmt:signedBy", "value": signer(key)}]));
        let spdx = here(&format!("bom {model} --key {key} --spec spdx")).json();
        let statement = format!("verified: signed by the key {}", signer(key));
        assert_eq!(element(&spdx, "Annotation")["statement"], *statement);
        fs::write(place.path().join(format!("{model}.bom.json")), spdx.to_string()).unwrap();
        // A signature that nobody has verified is only a claim.
        let unchecked = here(&format!("bom {model}")).json();
        assert!(unchecked["components"][0].get("properties").is_none());
        here(&format!("bom {model} --key other.pub")).error();
    }
    assert_valid(place.path(), 2);
}

#[test]
fn outputs_are_files_that_appear_whole() {
    let place = tempfile::tempdir().unwrap();
    fs::copy(testdata("reference/trained.mag"), place.path().join("m.mag")).unwrap();
    fs::copy(testdata("reference/one-shard.aero"), place.path().join("a.aero")).unwrap();
    let here = |args: &str| modelfmt_in(place.path(), args);
    let printed = here("bom m.mag a.aero").ok();
    assert_eq!(here("bom m.mag a.aero -o -").ok(), printed);
    let written = here("bom m.mag a.aero -o out.bom.json");
    assert!(written.stderr.starts_with("wrote out.bom.json: 2 files, "), "{}", written.stderr);
    assert_eq!(fs::read_to_string(place.path().join("out.bom.json")).unwrap(), printed);
    let both: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(both["components"].as_array().unwrap().len(), 2);
    assert!(here("bom m.mag -o out.bom.json").error().contains("--force replaces it"));
    here("bom m.mag --spec spdx -o out.bom.json --force").ok();
    assert_valid(place.path(), 1);
    let before = fs::read(place.path().join("m.mag")).unwrap();
    here("bom m.mag -o m.mag --force").error();
    assert_eq!(fs::read(place.path().join("m.mag")).unwrap(), before);
    here("bom missing.mag").error();
    // Other files that are read are not replaced either.
    fs::write(place.path().join("config.json"), "{}").unwrap();
    here("keygen --type p256 -o key").ok();
    here("bom m.mag -o config.json --force").error();
    fs::write(place.path().join("m.mag.sig"), "{}").unwrap();
    here("bom m.mag -o m.mag.sig --force").error();
    fs::remove_file(place.path().join("m.mag.sig")).unwrap();
    here("bom m.mag --key key.pub -o key.pub --force").error();
    fs::write(place.path().join("all.toml"), "default = \"allow\"").unwrap();
    here("bom m.mag --policy all.toml -o all.toml --force").error();
    assert_eq!(fs::read_to_string(place.path().join("all.toml")).unwrap(), "default = \"allow\"");
    let stream = fs::File::open(place.path().join("m.mag")).unwrap();
    let piped = run(command(program()).args(["bom", "-"]).stdin(stream)).json();
    let named = here("bom m.mag").json();
    assert_eq!(piped["components"][0]["hashes"], named["components"][0]["hashes"]);
    assert_eq!(piped["components"][0]["name"], "model");
    assert_eq!(here("bom m.mag --spec x").status, 2);
    assert_eq!(here("bom m.mag -o https://example.org/x").status, 2);
    let pin = "aero:0000000000000000000000000000000000000000000000000000000000000000";
    here(&format!("bom a.aero --pin {pin}")).error();
    assert_eq!(here(&format!("bom a.aero m.mag --pin {pin}")).status, 2);
}

/// A model that states nothing gets the name of its folder, even if that is `.`. Tokens in addresses are left
/// out everywhere.
#[test]
fn names_are_those_of_folders_and_addresses_have_no_secrets() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("tiny");
    fs::create_dir(&folder).unwrap();
    let secret = "https://user:SECRET@example.org/x?token=SECRET#SECRET";
    let metadata =
        json!({"license": secret, "general.version": format!("1 of {secret}"), "base_model": secret});
    safetensors(&folder.join("model.safetensors"), &metadata, 1);
    for spec in ["cyclonedx", "spdx"] {
        let run = modelfmt_in(&folder, &format!("bom . --spec {spec}"));
        let text = run.ok();
        assert!(text.contains("\"tiny\"") && text.contains("1 of https://example.org/x"), "{text}");
        assert!(!text.contains("SECRET"), "{text}");
    }
}
