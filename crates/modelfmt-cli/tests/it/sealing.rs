//! The program writes sealed APR2 files: who can open them and who cannot, what is refused, and that no
//! secret is printed.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use std::fs;
use std::path::Path;

use crate::common::Secrets;
use serde_json::Value;

/// Makes a model that APR2 can hold unchanged.
fn plain(keys: &Secrets) -> String {
    let path = keys.path("plain.safetensors");
    let source = testkit::testdata("seal").join("signed.apr").display().to_string();
    keys.ok(&["convert", &source, &path, "--dequantize", "f32", "--lossy"]);
    path
}

fn is_same(keys: &Secrets, a: &str, b: &str) -> bool {
    let run = keys.run(&["diff", "--ignore-metadata", a, b]);
    assert!(run.status < 2 && run.stderr.is_empty(), "{}", run.stderr);
    run.status == 0
}

#[test]
fn a_sealed_file_opens_for_those_who_were_named_and_nobody_else() {
    let keys = Secrets::new();
    let (model, sealed, back) = (plain(&keys), keys.path("sealed.apr"), keys.path("back.safetensors"));
    let (me, other) = (keys.key("x25519", "me"), keys.key("x25519", "other"));
    let release = keys.key("ed25519", "release");
    let (phrase, raw) = (keys.secret("phrase", "correct horse battery\n"), keys.raw("raw"));
    let cases: [(&[&str], [&str; 2]); 3] = [
        (&["--to-recipient", &format!("{me}.pub")], ["--identity", &me]),
        (&["--passphrase-file", &phrase], ["--passphrase-file", &phrase]),
        (&["--key-file", &raw, "--key-id", "kms/7"], ["--key-file", &raw]),
    ];
    for compress in ["none", "lz4"] {
        for (to, with) in cases {
            let seal = [
                "seal",
                &model,
                &sealed,
                "--force",
                "--compress",
                compress,
                "--sign",
                &release,
                "--revision",
                "3",
            ];
            keys.ok(&[&seal, to].concat());
            let public = format!("{release}.pub");
            let signed = ["--key", &public, "--min-revision", "3"];
            let verified = keys.ok(&[&["verify", &sealed], &signed[..], &with].concat());
            assert!(verified.contains("encryption"), "{verified}");
            keys.ok(&[&["unseal", &sealed, &back, "--force"], &signed[..], &with].concat());
            assert!(is_same(&keys, &model, &back), "{to:?}");
            for wrong in [&["--identity", &other][..], &[]] {
                let error = keys.run(&[&["unseal", &sealed, &back, "--force"], wrong].concat()).error();
                assert!(error.contains("SealNoKey"), "{error}");
            }
            let error = keys.run(
                &[
                    &["convert", &sealed, &back, "--force", "--key", &public, "--min-revision", "4"][..],
                    &with,
                ]
                .concat(),
            );
            assert!(error.error().contains("SealRevision"));
        }
    }
    // A raw key is shown by its name.
    let shown: Value = serde_json::from_str(&keys.ok(&["inspect", "--json", &sealed])).unwrap();
    let shown = &shown["details"]["encryption"]["recipients"][0];
    assert_eq!((&shown["type"], &shown["key_id"]), (&"raw-key".into(), &hex(b"kms/7").into()));
    // A sealed file is sealed again for somebody else.
    let next = keys.path("next.apr");
    keys.ok(&[
        "seal",
        &sealed,
        &next,
        "--old-key-file",
        &raw,
        "--to-recipient",
        &format!("{other}.pub"),
        "--hide-index",
    ]);
    let hidden: Value = serde_json::from_str(&keys.ok(&["inspect", "--json", &next])).unwrap();
    assert_eq!(hidden["tensors"], Value::Array(Vec::new()));
    keys.ok(&["unseal", &next, &back, "--force", "--identity", &other]);
    assert!(is_same(&keys, &model, &back));
    let error = keys.run(&["unseal", &model, &back, "--force"]).error();
    assert!(error.contains("is not encrypted"), "{error}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn convert_signs_and_seals_in_one_pass_files_and_sets() {
    let keys = Secrets::new();
    let model = plain(&keys);
    let (release, me) = (keys.key("ed25519", "release"), keys.key("x25519", "me"));
    let public = format!("{release}.pub");
    let signed = keys.path("signed.apr");
    let run = keys.run(&["convert", &model, &signed, "--sign", &release, "--compress", "lz4"]);
    assert!(run.status == 0 && !run.stderr.contains("--to apr"), "{}", run.stderr);
    assert!(keys.ok(&["verify", &signed, "--key", &public]).contains("signature"));
    assert!(is_same(&keys, &model, &signed));
    let out = keys.path("set/m.apr");
    fs::create_dir(keys.path("set")).unwrap();
    let me_public = format!("{me}.pub");
    keys.ok(&[
        "convert",
        &model,
        &out,
        "--seal",
        "--to-recipient",
        &me_public,
        "--sign",
        &release,
        "--shard-size",
        "8KiB",
    ]);
    assert!(fs::read_dir(keys.path("set")).unwrap().count() > 2);
    keys.ok(&["verify", &out, "--key", &public, "--identity", &me]);
    let back = keys.path("back.safetensors");
    keys.ok(&["unseal", &out, &back, "--key", &public, "--identity", &me]);
    assert!(is_same(&keys, &model, &back));
    // From standard input to standard output.
    let script = format!(
        "cat {model} | {m} seal - - --passphrase-file {p} > {o} && {m} unseal {o} {b} --passphrase-file - < {p} --force",
        m = crate::common::program(),
        p = keys.secret("phrase", "a word\n"),
        o = keys.path("piped.apr"),
        b = back,
    );
    keys.shell(&script).ok();
    assert!(is_same(&keys, &model, &back));
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_written() {
    let keys = Secrets::new();
    let model = plain(&keys);
    let (p256, me, release) =
        (keys.key("p256", "p256"), keys.key("x25519", "me"), keys.key("ed25519", "release"));
    let (me_public, release_public) = (format!("{me}.pub"), format!("{release}.pub"));
    let (empty, short) =
        (keys.secret("empty", "\n"), keys.secret("short", "0123456789abcdef0123456789abcde"));
    let zero = keys.path("zero.pub");
    let weak = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n-----END PUBLIC KEY-----\n";
    fs::write(&zero, weak).unwrap();
    let out = keys.path("out.apr");
    let cases: &[(i32, &[&str], &str)] = &[
        (2, &["seal"], "nobody could open OUT"),
        (1, &["seal", "--passphrase-file", &empty], "the passphrase is empty"),
        (1, &["seal", "--key-file", &short], "a key file has 32 bytes"),
        (1, &["seal", "--to-recipient", &zero], "weak"),
        (1, &["seal", "--to-recipient", &me], "is a private key"),
        (1, &["seal", "--to-recipient", &release_public], "x25519"),
        (1, &["convert", "--sign", &p256], "ed25519"),
        (1, &["convert", "--sign", &release_public], "is a public key"),
        (2, &["convert", "--to-recipient", &me_public], "--seal"),
        (2, &["convert", "--seal", "--passphrase-file", "-", "--key-file", "-"], "two secrets"),
        (2, &["convert", "--revision", "1"], "--sign"),
        (2, &["seal", "--key-file", &release, "--key-id", "a", "--key-id", "b"], "--key-id"),
        (2, &["convert", "--seal", "--to-recipient", &me_public, "--to", "gguf"], "--seal"),
        (2, &["convert", "--sign", &release, "--to", "aero"], "--sign"),
    ];
    for (status, args, why) in cases {
        let run = keys.run(&[args, &[model.as_str(), &out][..]].concat());
        assert!(run.status == *status && run.stderr.contains(why), "{args:?}: {} {}", run.status, run.stderr);
        assert!(!Path::new(&out).exists(), "{args:?}");
    }
    // An output name of another format is refused.
    for name in ["out.gguf", "out.aero", "out.safetensors.index.json"] {
        let out = keys.path(name);
        let run = keys.run(&["seal", &model, &out, "--to-recipient", &me_public]);
        assert!(run.status == 2 && run.stderr.contains("use the extension .apr"), "{}", run.stderr);
        assert!(!Path::new(&out).exists());
    }
    // For a missing file, the error does not suggest another kind of signature.
    let error = keys.run(&["sign", &keys.path("missing.apr"), "--key", &release, "--revision", "2"]).error();
    assert!(error.contains("missing.apr") && !error.contains("--revision"), "{error}");
    // Neither an input nor a key is replaced.
    let seal = ["--to-recipient", &me_public, "--sign", &release, "--force"];
    let apr = keys.path("plain.apr");
    keys.ok(&["convert", &model, &apr]);
    for kept in [&apr, &me_public, &release] {
        let before = fs::read(kept).unwrap();
        let error = keys.run(&[&["seal", apr.as_str(), kept], &seal[..]].concat()).error();
        assert!(error.contains("must not be overwritten"), "{error}");
        assert!(before == fs::read(kept).unwrap());
    }
}

/// Returns everything of a file except the part after its pages, which has signatures and keys.
fn body(path: &str) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let trailer = &bytes[bytes.len() - 64..];
    let word = |at: usize| u64::from_le_bytes(trailer[at..at + 8].try_into().unwrap());
    bytes[..usize::try_from(word(8) + word(16) + word(24)).unwrap()].to_vec()
}

#[test]
fn rekey_changes_who_can_open_a_file_and_nothing_else() {
    let keys = Secrets::new();
    let (model, sealed, back) = (plain(&keys), keys.path("sealed.apr"), keys.path("back.safetensors"));
    let (me, other, release) =
        (keys.key("x25519", "me"), keys.key("x25519", "other"), keys.key("ed25519", "release"));
    let (phrase, raw) = (keys.secret("phrase", "correct horse battery"), keys.raw("raw"));
    let (me_public, other_public, public) =
        (format!("{me}.pub"), format!("{other}.pub"), format!("{release}.pub"));
    keys.ok(&["seal", &model, &sealed, "--to-recipient", &me_public, "--sign", &release]);
    let before = body(&sealed);
    let steps: &[(&[&str], &[&str])] = &[
        (
            &["--identity", &me, "--passphrase-file", &phrase, "--to-recipient", &other_public],
            &["--passphrase-file", &phrase],
        ),
        (&["--old-passphrase-file", &phrase, "--key-file", &raw, "--key-id", "kms/9"], &["--key-file", &raw]),
        (&["--old-key-file", &raw, "--to-recipient", &other_public], &["--identity", &other]),
    ];
    for (step, with) in steps {
        keys.ok(&[&["seal", &sealed, "--rekey"], *step].concat());
        assert!(body(&sealed) == before, "{step:?}");
        keys.ok(&[&["verify", &sealed, "--key", &public], *with].concat());
        keys.ok(&[&["unseal", &sealed, &back, "--force", "--key", &public], *with].concat());
        assert!(is_same(&keys, &model, &back), "{step:?}");
    }
    let bytes = fs::read(&sealed).unwrap();
    let (long, five) = ("x".repeat(1025), ["--passphrase-file", phrase.as_str()].repeat(5));
    let cases: &[(i32, &[&str], &str)] = &[
        (1, &["--identity", &other, "--key-file", &raw, "--key-id", &long], "SealLimit"),
        (1, &[&["--identity", &other], &five[..]].concat(), "SealLimit"),
        (1, &["--identity", &me, "--to-recipient", &me_public], "SealNoKey"),
        (2, &["--identity", &other], "nobody could open"),
        (1, &["--to-recipient", &me_public], "SealNoKey"),
        (2, &["--identity", &other, "--to-recipient", &me_public, "--sign", &release], "modelfmt sign"),
        (2, &["--identity", &other, "--to-recipient", &me_public, "--compress", "lz4"], "converts nothing"),
        (2, &["out.apr", "--identity", &other, "--to-recipient", &me_public], "one sealed file"),
    ];
    for (status, args, why) in cases {
        let run = keys.run(&[&["seal", &sealed, "--rekey"], *args].concat());
        assert!(run.status == *status && run.stderr.contains(why), "{args:?}: {} {}", run.status, run.stderr);
        assert!(bytes == fs::read(&sealed).unwrap(), "{args:?}");
    }
    let error = keys.run(&["seal", &model, "--rekey", "--to-recipient", &me_public]).error();
    assert!(error.contains("only APR2 files"), "{error}");
}

#[test]
fn signatures_go_into_the_file_and_stay_beside_each_other() {
    let keys = Secrets::new();
    let (model, file) = (plain(&keys), keys.path("m.apr"));
    let (a, b, me) = (keys.key("ed25519", "a"), keys.key("ed25519", "b"), keys.key("x25519", "me"));
    let (a_public, b_public, me_public) = (format!("{a}.pub"), format!("{b}.pub"), format!("{me}.pub"));
    let both = ["--key", &a_public, "--key", &b_public, "--threshold", "2", "--min-revision", "5"];
    let sealed: &[&str] = &["--seal", "--to-recipient", &me_public];
    for (convert, with) in [(&["--compress", "lz4"][..], &[][..]), (sealed, &["--identity", &me])] {
        keys.ok(&[&["convert", &model, &file, "--force"], convert].concat());
        assert!(!keys.ok(&["verify", &file]).contains("signature"));
        if !with.is_empty() {
            let bytes = fs::read(&file).unwrap();
            let error = keys.run(&["sign", &file, "--key", &a]).error();
            assert!(error.contains("SealNoKey") && bytes == fs::read(&file).unwrap(), "{error}");
        }
        keys.ok(&[&["sign", &file, "--key", &a, "--revision", "5"], with].concat());
        let once = body(&file);
        keys.ok(&["sign", &file, "--key", &b]);
        assert!(body(&file) == once, "a second signature changes nothing but the list of signatures");
        keys.ok(&[&["verify", &file], &both[..], with].concat());
        let (bytes, again) = (fs::read(&file).unwrap(), keys.run(&["sign", &file, "--key", &a]));
        assert!(again.stderr.contains("already") && bytes == fs::read(&file).unwrap(), "{}", again.stderr);
        let error = keys.run(&["sign", &file, "--key", &a, "--revision", "6"]).error();
        assert!(error.contains("cover its revision") && bytes == fs::read(&file).unwrap(), "{error}");
        assert!(is_same_with(&keys, &model, &file, with));
    }
    // A hidden index says whether anybody signs the file.
    let hidden = [sealed, &["--hide-index"]].concat();
    keys.ok(&[&["convert", &model, &file, "--force"], &hidden[..]].concat());
    let bytes = fs::read(&file).unwrap();
    let error = keys.run(&["sign", &file, "--key", &a, "--identity", &me]).error();
    assert!(error.contains("seal the model anew") && bytes == fs::read(&file).unwrap(), "{error}");
    keys.ok(&[&["convert", &model, &file, "--force", "--sign", &a], &hidden[..]].concat());
    keys.ok(&["sign", &file, "--key", &b]);
    keys.ok(&[&["verify", &file, "--identity", &me], &both[..6]].concat());
    // A damaged file is not signed.
    keys.ok(&["convert", &model, &file, "--force"]);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let error = keys.run(&["sign", &file, "--key", &a]).error();
    assert!(error.contains("not intact") && bytes == fs::read(&file).unwrap(), "{error}");
    let error = keys.run(&["sign", &file, "--key", &keys.key("p256", "p")]).error();
    assert!(error.contains("ed25519"), "{error}");
}

fn is_same_with(keys: &Secrets, a: &str, b: &str, with: &[&str]) -> bool {
    let run = keys.run(&[&["diff", "--ignore-metadata", a, b], with].concat());
    assert!(run.status < 2 && run.stderr.is_empty(), "{}", run.stderr);
    run.status == 0
}

#[test]
fn the_manifest_of_a_sealed_set_is_signed_and_its_shards_are_not_touched() {
    let keys = Secrets::new();
    let (model, me) = (plain(&keys), keys.key("x25519", "me"));
    let (a, b, me_public) = (keys.key("ed25519", "a"), keys.key("ed25519", "b"), format!("{me}.pub"));
    fs::create_dir(keys.path("set")).unwrap();
    let out = keys.path("set/m.apr");
    keys.ok(&["seal", &model, &out, "--to-recipient", &me_public, "--shard-size", "8KiB"]);
    keys.ok(&["sign", &out, "--key", &a, "--revision", "2"]);
    keys.ok(&["sign", &out, "--key", &b]);
    let (a_public, b_public) = (format!("{a}.pub"), format!("{b}.pub"));
    keys.ok(&[
        "verify",
        &out,
        "--key",
        &a_public,
        "--key",
        &b_public,
        "--threshold",
        "2",
        "--min-revision",
        "2",
    ]);
    assert!(is_same_with(&keys, &model, &out, &["--identity", &me]));
    let text = fs::read(&out).unwrap();
    let error = keys.run(&["sign", &out, "--key", &a, "--revision", "3"]).error();
    assert!(error.contains("cover its revision") && text == fs::read(&out).unwrap(), "{error}");
    let mut names = fs::read_dir(keys.path("set")).unwrap().map(|entry| entry.unwrap().path());
    let shard =
        names.find(|path| path.to_string_lossy().contains("m-00001-of")).unwrap().display().to_string();
    let error = keys.run(&["sign", &shard, "--key", &a]).error();
    assert!(error.contains("shard"), "{error}");
}

#[test]
fn a_pin_of_the_statement_is_what_inspect_says_it_is() {
    let keys = Secrets::new();
    let (model, one, two) = (plain(&keys), keys.path("one.apr"), keys.path("two.apr"));
    let a = keys.key("ed25519", "a");
    for out in [&one, &two] {
        keys.ok(&["convert", &model, out, "--sign", &a]);
    }
    let pin = |path: &str| {
        let shown: Value = serde_json::from_str(&keys.ok(&["inspect", "--json", path])).unwrap();
        shown["pins"][0].as_str().unwrap().to_owned()
    };
    let (pin_one, pin_two) = (pin(&one), pin(&two));
    assert!(pin_one.starts_with("seal:") && pin_one != pin_two);
    assert!(keys.ok(&["inspect", &one]).contains(&format!("pin        {pin_one}")));
    for command in ["verify", "inspect", "plan", "show", "check"] {
        keys.ok(&[command, &one, "--pin", &pin_one]);
        let run = keys.run(&[command, &one, "--pin", &pin_two]);
        assert!(run.status == 1 && (run.stdout + &run.stderr).contains("SealSet"), "{command}");
    }
    let run = keys.run(&["verify", &model, "--pin", &pin_one]);
    assert!(run.status == 1 && run.stdout.contains("sealed APR2"), "{}", run.stdout);
    let clear = keys.path("clear.apr");
    keys.ok(&["convert", &model, &clear]);
    assert!(keys.run(&["plan", &clear, "--pin", &pin_one]).error().contains("SealMissing"));
    keys.ok(&["diff", &one, &two, "--pin", &pin_one, "--pin", &pin_two]);
    assert!(keys.run(&["diff", &one, &two, "--pin", &pin_two]).error().contains("SealSet"));
}

#[test]
fn what_is_sealed_is_compared_shown_and_refused_in_words() {
    let keys = Secrets::new();
    let (model, sealed) = (plain(&keys), keys.path("sealed.apr"));
    let (me, release) = (keys.key("x25519", "me"), keys.key("ed25519", "release"));
    let (me_public, public) = (format!("{me}.pub"), format!("{release}.pub"));
    keys.ok(&["seal", &model, &sealed, "--to-recipient", &me_public, "--sign", &release]);
    assert!(is_same_with(&keys, &model, &sealed, &["--identity", &me]));
    assert!(is_same_with(&keys, &sealed, &sealed, &["--identity", &me, "--key", &public]));
    let both = keys.path("both.aero");
    let parts: Vec<String> =
        ["a", "b"].iter().map(|name| keys.path(&format!("{name}.safetensors"))).collect();
    for (part, renamed) in parts.iter().zip(["*=a.*", "*=b.*"]) {
        keys.ok(&["convert", &model, part, "--rename", renamed]);
    }
    let part = keys.path("part.apr");
    keys.ok(&["seal", &parts[1], &part, "--to-recipient", &me_public]);
    keys.ok(&["convert", &parts[0], &part, &both, "--identity", &me]);
    let error = keys.run(&["convert", &parts[0], &parts[1], &both, "--force", "--identity", &me]).error();
    assert!(error.contains("none of the inputs is encrypted"), "{error}");
    let error = keys.run(&["diff", &model, &model, "--identity", &me]).error();
    assert!(error.contains("neither of the two is encrypted"), "{error}");
    let error = keys.run(&["diff", &model, &sealed, "--identity", &me, "--key", &public]).error();
    assert!(error.contains("signature"), "{error}");
    // Without a key, the text says what was not checked.
    let shown = keys.ok(&["verify", &sealed, "--key", &public]);
    assert!(shown.contains("note: encryption: no key was given"), "{shown}");
    assert!(!keys.ok(&["verify", &sealed, "--key", &public, "--identity", &me]).contains("note:"));
    let shown = keys.ok(&["inspect", &sealed]);
    assert!(shown.contains("not checked, because no --key") && shown.contains("not opened"), "{shown}");
    let shown = keys.ok(&["inspect", &sealed, "--key", &public, "--identity", &me]);
    assert!(shown.contains("; covers") && shown.contains("; opened"), "{shown}");
    let bytes = fs::read(&sealed).unwrap();
    let error = keys.run(&["edit", &sealed, "--set", "a=1"]).error();
    assert!(error.contains("new file") && bytes == fs::read(&sealed).unwrap(), "{error}");
}

#[test]
fn a_key_demands_the_signature_beside_other_formats() {
    let keys = Secrets::new();
    let model = plain(&keys);
    let (key, other) = (keys.key("p256", "key"), keys.key("p256", "other"));
    let (public, other_public) = (format!("{key}.pub"), format!("{other}.pub"));
    let out = keys.path("out.aero");
    let commands: &[&[&str]] = &[
        &["plan", &model],
        &["show", &model],
        &["check", &model],
        &["diff", &model, &model],
        &["convert", "--force", "--lossy", &model, &out],
        &["inspect", &model],
    ];
    for command in commands {
        let run = keys.run(&[*command, &["--key", &public]].concat());
        let said = run.stdout + &run.stderr;
        assert!(run.status == 1 && said.contains("there is no signature"), "{command:?}: {said}");
    }
    keys.ok(&["sign", &model, "--key", &key]);
    for command in commands {
        keys.ok(&[*command, &["--key", &public]].concat());
        let run = keys.run(&[*command, &["--key", &other_public]].concat());
        let said = run.stdout + &run.stderr;
        assert!(run.status == 1 && said.contains("sig"), "{command:?}: {said}");
    }
    fs::write(&model, [&fs::read(&model).unwrap()[..], b" "].concat()).unwrap();
    let error = keys.run(&["plan", &model, "--key", &public]).error();
    assert!(error.contains("is not what was signed"), "{error}");
}

#[test]
fn what_the_program_holds_of_secrets_is_not_shown_by_debugging_it() {
    use modelfmt::apr2::seal::{Access, Identity, Passphrase, RawKey, SealOptions, SigningKey};

    let (secret, phrase) = ([0xb7; 32], "correct horse battery");
    let passphrase = || Passphrase::from_bytes(phrase.as_bytes()).unwrap();
    let (raw, identity) = (RawKey::from_bytes(&secret), Identity::from_bytes(&secret));
    let access = Access::new().open_with(identity.clone()).open_with(passphrase()).open_with(raw.clone());
    let seal = SealOptions::new().sign(SigningKey::from_bytes(&secret)).passphrase(passphrase());
    let mut options = modelfmt::convert::ConvertOptions::default();
    options.apr2.seal = Some(seal.raw_key(raw, "kms").recipient(identity.recipient()));
    let open = modelfmt::OpenOptions::new().access(access);
    for shown in [format!("{options:?} {open:?}"), format!("{options:#x?} {open:#x?}")] {
        for part in [phrase, "b7b7b7", "183, 183", "0xb7"] {
            assert!(!shown.contains(part), "{shown}");
        }
    }
}

#[test]
fn a_key_for_a_model_that_has_nothing_inside() {
    let keys = Secrets::new();
    let (a, me) = (keys.key("ed25519", "a"), keys.key("x25519", "me"));
    let model = keys.path("m.safetensors");
    keys.ok(&["convert", &plain(&keys), &model, "--lossy"]);
    // A signature next to the model is looked for only if there is a file, and nothing in it can be
    // decrypted.
    let piped = format!("cat {model} | {} inspect --json - --key {a}.pub", crate::common::program());
    for (run, path) in [
        (keys.shell(&piped), "-"),
        (keys.run(&["inspect", "--json", &model, "--identity", &me]), model.as_str()),
    ] {
        let error: Value = serde_json::from_str(run.stderr.lines().last().unwrap()).unwrap();
        assert_eq!((run.status, &error["code"]), (1, &"not-sealable".into()), "{error}");
        let text = error["error"].as_str().unwrap();
        assert!(text.starts_with(&format!("{path}: this is safetensors")), "{text}");
        assert!(text.contains("FILE.sig") && !text.contains("byte 0"), "{text}");
    }
}
