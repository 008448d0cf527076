//! The program with URLs: what it reads, what it prints, and what it never prints.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is test code"
)]

use crate::common::{Run, command, program};
use crate::server::{Reply, Server};

/// Starts a server with the golden files, by their paths. Other names are not found.
fn golden() -> Server {
    files_of(&crate::common::testdata(""))
}

/// Starts a server with the files of a folder.
fn files_of(folder: &std::path::Path) -> Server {
    let testdata = folder.display().to_string();
    Server::start(move |request| {
        let path = request
            .target
            .split('?')
            .next()
            .unwrap_or_default()
            .trim_start_matches("/bucket")
            .replace("%20", " ");
        match std::fs::read(format!("{testdata}/{path}")) {
            Ok(bytes) => Reply::file(request, &bytes, "\"1\""),
            Err(_) => Reply::status(404).body(b"<html>not here</html>"),
        }
    })
}

/// Runs the program with an empty cache, and with the server as S3.
fn run(server: &Server, args: &[&str]) -> Run {
    let cache = tempfile::tempdir().unwrap();
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let mut command = command(program());
    command.env("AWS_SKIP_SIGNATURE", "true").env("AWS_ENDPOINT_URL", endpoint);
    crate::common::run(command.env("XDG_CACHE_HOME", cache.path()).args(args))
}

#[test]
fn what_is_read_from_a_url_is_what_is_in_the_file() {
    let server = golden();
    let at = |path: &str| [format!("http://127.0.0.1:{}/{path}", server.port), format!("s3://bucket/{path}")];
    for path in [
        "aero/chunks.aero",
        "apr2/lz4.apr",
        "mag/metadata.mag",
        "safetensors/dtypes.safetensors",
        "gguf/types.gguf",
        "apr2/set/sharded.apr",
        "aero/set/model.aeroset.json",
        "safetensors/set.safetensors.index.json",
        "npy/fortran.npy",
        "npy/deflated.npz",
        "pytorch/views.pt",
        "pytorch/deflated.pt",
        "pytorch/stream.pt",
        "pytorch/model.bin.index.json",
    ] {
        let local = crate::common::testdata(path);
        let local = local.to_str().unwrap();
        for url in at(path) {
            run(&server, &["diff", local, &url]).ok();
            let [one, other] = [local, url.as_str()].map(|file| run(&server, &["show", file]).ok());
            assert_eq!(one, other, "{url}");
            let [mut one, mut other] =
                [local, url.as_str()].map(|file| run(&server, &["inspect", "--json", file]).json());
            assert_eq!(other["path"], url.as_str());
            one["path"].take();
            other["path"].take();
            assert_eq!(one, other, "{url}");
            let [one, other] =
                [local, url.as_str()].map(|file| run(&server, &["plan", "--json", file]).json());
            assert_eq!(one, other, "{url}");
            let [one, other] =
                [local, url.as_str()].map(|file| run(&server, &["bom", "--tensors", file]).ok());
            assert_eq!(one, other, "{url}");
            let verified = run(&server, &["verify", "--json", &url]).json();
            assert_eq!((&verified["ok"], &verified["path"]), (&true.into(), &url.into()));
        }
    }
}

#[test]
fn any_file_of_a_split_stands_for_it_at_a_url_too() {
    let folder = tempfile::tempdir().unwrap();
    let local = crate::common::testdata("safetensors/dtypes.safetensors");
    let first = folder.path().join("m.gguf");
    let [local, first] = [&local, &first].map(|path| path.to_str().unwrap());
    let include = ["--include", "f32.x", "--include", "f16.x", "--include", "bf16.x"];
    let args = [&["convert", local, first, "--shard-size", "300"][..], &include].concat();
    crate::common::modelfmt(args).ok();
    let names = || std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names().map(|name| name.into_string().unwrap()).collect();
    assert!(names.len() > 1, "{names:?}");
    let server = files_of(folder.path());
    for name in names {
        let path = folder.path().join(&name).display().to_string();
        for url in [format!("http://127.0.0.1:{}/{name}", server.port), format!("s3://bucket/{name}")] {
            let [one, other] = [&path, &url].map(|file| run(&server, &["show", file]).ok());
            assert_eq!(one, other, "{url}");
            let verified = run(&server, &["verify", "--json", &url]).json();
            assert_eq!(verified["ok"], true, "{url}");
        }
    }
}

#[test]
fn a_plan_of_a_url_reads_over_larger_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let values = vec![7u8; 21 << 20];
    let (small, gap, long) = (&values[..16], &values[..500_000], &values[..20 << 20]);
    let view = |bytes| modelfmt::View::new(bytes, [bytes.len() as u64]).unwrap();
    let views = [("a", view(small)), ("b", view(gap)), ("c", view(small)), ("d", view(long))];
    modelfmt::save(&path, views, &modelfmt::Object::new()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let server = Server::start(move |request| Reply::file(request, &bytes, "\"1\""));
    let url = format!("http://127.0.0.1:{}/m.safetensors", server.port);
    let plan = |file: &str, tensors: &[&str]| {
        let plan = run(&server, &[&["plan", "--json", file], tensors].concat()).json();
        (plan["requests"].as_u64().unwrap(), plan["overhead"].as_u64().unwrap())
    };
    let local = path.to_str().unwrap();
    assert_eq!((plan(local, &["a", "c"]), plan(&url, &["a", "c"])), ((2, 0), (1, 500_000)));
    assert_eq!((plan(local, &["d"]), plan(&url, &["d"])), ((3, 0), (2, 0)));
    assert_eq!(plan(&format!("file://{local}"), &["a", "c"]), (2, 0));
}

#[test]
fn a_model_is_converted_and_extracted_from_a_url() {
    let server = golden();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.safetensors");
    let url = format!("http://127.0.0.1:{}/aero/hashes.aero", server.port);
    run(&server, &["convert", &url, out.to_str().unwrap(), "--lossy"]).ok();
    let local = crate::common::testdata("aero/hashes.aero");
    let again = folder.path().join("again.safetensors");
    run(&server, &["convert", local.to_str().unwrap(), again.to_str().unwrap(), "--lossy"]).ok();
    assert_eq!(std::fs::read(out).unwrap(), std::fs::read(again).unwrap());
    let file = format!("file://{}", local.to_str().unwrap());
    run(&server, &["diff", &file, &url]).ok();
}

#[test]
fn pins_hold_for_urls_too() {
    let server = golden();
    let local = crate::common::testdata("aero/hashes.aero");
    let url = format!("http://127.0.0.1:{}/aero/hashes.aero", server.port);
    let pins = run(&server, &["inspect", "--json", local.to_str().unwrap()]).json();
    let pin = pins["pins"].as_array().unwrap().iter().find_map(|pin| pin.as_str()).unwrap().to_owned();
    run(&server, &["verify", &url, "--pin", &pin]).ok();
    let wrong = format!("{}{}", &pin[..pin.len() - 2], if pin.ends_with("00") { "11" } else { "00" });
    run(&server, &["inspect", &url, "--pin", &wrong]).error();
    let hash = format!("b3:{}", "0".repeat(64));
    let error = run(&server, &["inspect", &url, "--pin", &hash]).error();
    assert!(error.contains("there is no hashes.aero.obao4 next to it"), "{error}");
}

#[test]
fn errors_name_the_file_and_no_secret() {
    let server = golden();
    let host = format!("127.0.0.1:{}", server.port);
    let url = format!("http://user:SECRET@{host}/none.aero?sig=SECRET");
    for command in ["inspect", "show", "plan", "check", "verify", "outboard"] {
        let done = run(&server, &[command, &url]);
        assert_ne!(done.status, 0, "{command}");
        let all = format!("{}{}", done.stdout, done.stderr);
        assert!(!all.contains("SECRET") && !all.contains("html"), "{command}: {all}");
    }
    let expected = format!(
        "error: http://{host}/none.aero: cannot be opened: there is no such file (the server says 404)"
    );
    assert_eq!(run(&server, &["inspect", &url]).error(), expected);
    let error = run(&server, &["inspect", "s3://SECRET:SECRET@bucket/key"]).error();
    assert!(error.starts_with("error: s3://…: ") && !error.contains("SECRET"), "{error}");
    for url in ["gs://bucket/key", "az://bucket/key"] {
        let error = run(&server, &["inspect", url]).error();
        assert!(
            error.contains("there are no credentials") && error.contains("--allow-instance-credentials"),
            "{error}"
        );
    }
    let verified = run(&server, &["verify", "--json", &url, &format!("http://{host}/aero/chunks.aero")]);
    let lines: Vec<_> = verified.stdout.lines().collect();
    assert_eq!((verified.status, lines.len()), (1, 2), "{}", verified.stdout);
    assert!(lines[0].contains("\"ok\":false") && lines[0].contains("the server says 404"), "{}", lines[0]);
    assert!(lines[1].contains("\"ok\":true"), "{}", lines[1]);
}

/// Any message about an argument may quote a URL.
#[test]
fn no_message_shows_what_is_secret_in_a_url() {
    let server = golden();
    let host = format!("127.0.0.1:{}", server.port);
    let local = crate::common::testdata("aero/hashes.aero");
    let local = local.to_str().unwrap();
    let url = format!("http://user:SECRET@{host}/aero/x.aero?sig=SECRET#SECRET");
    let (option, short) = (format!("--metadata={url}"), format!("-o{url}"));
    let ftp = format!("ftp://user:SECRET@{host}/x?SECRET");
    let unknown = format!("http://user:SECRET@{host}/x.unknown?sig=SECRET");
    for args in [
        &["convert", local, &url][..],
        &["convert", local, &unknown],
        &["convert", local, &ftp],
        &["convert", local, &url, "--dry-run", "--json"],
        &["convert", "-r", local, &url],
        &["convert", local, "out.unknown", &url],
        &["convert", local, "/nowhere/x.safetensors", &option],
        &["convert", local, "--to", &url, "x"],
        &["convert", local, "/nowhere/x.gguf", "--quantize", &url],
        &["convert", local, "/nowhere/x.gguf", &url, "--bogus"],
        &["seal", local, &url],
        &["unseal", &url, "/nowhere/x.aero"],
        &["extract", local, "*", "-o", &url],
        &["extract", local, "*", &short],
        &["extract", &url, "*", "-o", "/nowhere/x"],
        &["edit", &url, "--set", "a=b"],
        &["edit", local, "--metadata", &url],
        &["sign", &url, "--key", &url],
        &["verify", local, "--key", &url],
        &["verify", &url, "--key", &url],
        &["verify", local, "--pin", &url],
        &["verify", "-r", &url],
        &["verify", "--json", &url],
        &["inspect", local, &format!("--bogus={url}")],
        &["inspect", local, "--sort", &url],
        &["inspect", local, "--threads", &url],
        &["diff", &url, &url],
        &["diff", local, &url],
        &["bom", &url],
        &["bom", local, "-o", &url],
        &["bom", local, "--spec", &url],
        &["outboard", &url],
        &["plan", &url],
        &["keygen", &url],
        &["completions", &url],
        &[&url],
    ] {
        let done = run(&server, args);
        assert_ne!(done.status, 0, "{args:?}");
        let all = format!("{}{}", done.stdout, done.stderr);
        assert!(!all.contains("SECRET") && !all.is_empty(), "{args:?}: {all}");
    }
}

#[test]
fn a_silent_server_is_given_up_by_every_command() {
    let server =
        Server::start(|_| Reply { wait: Some(std::time::Duration::from_secs(3600)), ..Reply::status(200) });
    let url = format!("http://127.0.0.1:{}/m.aero", server.port);
    let (to, key) = (tempfile::tempdir().unwrap(), "s3://bucket/m.aero");
    let to = to.path().join("m.safetensors");
    let (to, local) = (to.to_str().unwrap(), crate::common::testdata("safetensors/dtypes.safetensors"));
    for args in [
        &["inspect", &url][..],
        &["show", &url],
        &["check", &url],
        &["verify", &url],
        &["plan", &url],
        &["extract", &url, "*", "-o", to],
        &["diff", &url, &url],
        &["convert", &url, to],
        &["convert", key, to],
    ] {
        let run = run(&server, &[args, &["--stall-timeout", "0.2"]].concat());
        let all = format!("{}{}", run.stdout, run.stderr);
        assert_eq!(run.status, 1, "{args:?}: {all}");
        assert!(all.contains("the server sent less than 4 KiB within 0.2 s"), "{args:?}: {all}");
    }
    // Uploads are abandoned too, without saying how far the server has got.
    let args = ["convert", local.to_str().unwrap(), "s3://bucket/m.safetensors", "--stall-timeout", "0.2"];
    let written = run(&server, &args);
    assert!(
        written.status == 1 && written.stderr.contains("s3://bucket/m.safetensors"),
        "{}",
        written.stderr
    );
    for wrong in ["0", "-1", "soon", "1e99"] {
        assert_eq!(
            run(&server, &["inspect", &url, &format!("--stall-timeout={wrong}")]).status,
            2,
            "{wrong}"
        );
    }
}

#[test]
fn a_server_without_ranges_and_folders_say_what_to_do() {
    let server = Server::start(|_| Reply::status(200).body(&vec![7; 1 << 20]));
    let host = format!("http://127.0.0.1:{}", server.port);
    let error = run(&server, &["inspect", &format!("{host}/m.aero")]).error();
    assert!(error.contains("curl … | modelfmt inspect -"), "{error}");
    let error = run(&server, &["inspect", &format!("{host}/models/")]).error();
    assert!(
        error.starts_with(&format!("error: {host}/models/: ")) && error.contains("it is a folder"),
        "{error}"
    );
    let error = run(&server, &["convert", &format!("{host}/m.aero"), "s3://bucket/folder/"]).stderr;
    assert!(error.contains("s3://bucket/folder/: it is a folder; name the file to write"), "{error}");
    let out = tempfile::tempdir().unwrap();
    let to = format!("file://{}/x.safetensors", out.path().display());
    run(
        &server,
        &["convert", crate::common::testdata("safetensors/dtypes.safetensors").to_str().unwrap(), &to],
    )
    .ok();
    assert!(out.path().join("x.safetensors").exists());
}

#[test]
fn a_folder_in_a_bucket_names_its_models() {
    let s3 = testkit::servers::S3::start();
    s3.make_bucket("models");
    let file = std::fs::read(crate::common::testdata("safetensors/dtypes.safetensors")).unwrap();
    s3.put("models", "x/a.safetensors", &file);
    with_bucket(&s3, &["verify", "s3://models/x/"]).ok();
    s3.put("models", "x/b.safetensors", &file);
    let error = with_bucket(&s3, &["inspect", "s3://models/x/"]).error();
    let expected =
        "error: s3://models/x/: it is a folder with 2 models; name one of them: a.safetensors, b.safetensors";
    assert_eq!(error, expected);
    let error = with_bucket(&s3, &["inspect", "s3://none/x/m.aero"]).error();
    assert_eq!(error, "error: s3://none/x/m.aero: cannot be opened: there is no bucket of that name");
}

/// Runs the program with a bucket of a real server.
fn with_bucket(s3: &testkit::servers::S3, args: &[&str]) -> Run {
    let cache = tempfile::tempdir().unwrap();
    let mut command = command(program());
    command.envs(s3.environment()).env("XDG_CACHE_HOME", cache.path()).args(args);
    crate::common::run(&mut command)
}

#[test]
fn a_model_is_converted_into_a_bucket_and_read_from_there() {
    let s3 = testkit::servers::S3::start();
    s3.make_bucket("models");
    let local = crate::common::testdata("safetensors/dtypes.safetensors");
    let local = local.to_str().unwrap();
    let convert = |extra: &[&str], out: &str| {
        let args = ["convert", local, out, "--include", "f32.x", "--tensor-hashes", "--model-name", "m"];
        with_bucket(
            &s3,
            &[
                &args[..],
                &["--architecture", "a", "--lossy", "--include", "bf16.x", "--include", "f16.x"],
                extra,
            ]
            .concat(),
        )
    };
    let out = "s3://models/a/m.aero";
    let said = convert(&[], out).ok();
    assert!(said.is_empty(), "{said}");
    with_bucket(&s3, &["verify", out]).ok();
    let refused = convert(&[], out);
    assert_eq!(
        (refused.status, refused.stderr.contains("s3://models/a/m.aero")),
        (1, true),
        "{}",
        refused.stderr
    );
    convert(&["--force"], out).ok();

    let set = "s3://models/set/m.aeroset.json";
    convert(&["--shard-size", "64"], set).ok();
    with_bucket(&s3, &["verify", set]).ok();
    with_bucket(&s3, &["diff", out, set]).ok();
    assert!(s3.keys("models").len() > 3 && s3.unfinished_uploads("models").is_empty());

    for (out, status, says) in [
        ("https://127.0.0.1/m.aero", 1, "only buckets are written to"),
        ("s3://models/x.unknown", 2, "the file extension does not say"),
        ("s3://none/m.aero", 1, "s3://none/m.aero"),
    ] {
        let refused = convert(&[], out);
        assert!(refused.status == status && refused.stderr.contains(says), "{out}: {}", refused.stderr);
    }
    let dry = convert(&["--dry-run"], "s3://models/dry.aero").ok();
    assert!(dry.starts_with("would write s3://models/dry.aero: 3 tensors"), "{dry}");
    let dry = convert(&["--dry-run", "--shard-size", "64"], "s3://models/dry.aeroset.json").ok();
    assert!(dry.contains("would write s3://models/dry.aeroset.json with dry."), "{dry}");
    assert!(s3.keys("models").iter().all(|key| !key.starts_with("dry")));
    for (extra, out) in [(&[][..], out), (&["--shard-size", "64"][..], set)] {
        let refused = convert(&[&["--dry-run"], extra].concat(), out);
        assert!(refused.status == 1 && refused.stderr.contains("exists"), "{out}: {}", refused.stderr);
    }
    let same = with_bucket(&s3, &["convert", out, out, "--force"]);
    assert!(same.status == 1 && same.stderr.contains("file of the input"), "{}", same.stderr);
}

#[test]
fn what_a_set_in_a_bucket_leaves_behind_is_removed() {
    let s3 = testkit::servers::S3::start();
    s3.make_bucket("bucket");
    let local = crate::common::testdata("safetensors/dtypes.safetensors");
    let set = "s3://bucket/x/m.safetensors.index.json";
    let convert = |size: &str| {
        let args = ["convert", local.to_str().unwrap(), set, "--force", "--shard-size", size];
        let run = with_bucket(&s3, &args);
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.stderr
    };
    s3.put("bucket", "x/m-notes.txt", b"mine");
    s3.put("bucket", "x/m-00001-of-00099.safetensors", b"named by no index");
    convert("64");
    let many = s3.keys("bucket").len();
    let notes = convert("1MiB");
    assert!(
        notes.contains("is removed: it belonged to the previous \"m.safetensors.index.json\""),
        "{notes}"
    );
    let kept = [
        "x/m-00001-of-00001.safetensors",
        "x/m-00001-of-00099.safetensors",
        "x/m-notes.txt",
        "x/m.safetensors.index.json",
    ];
    assert!(many > kept.len() + 2);
    assert_eq!(s3.keys("bucket"), kept);
    with_bucket(&s3, &["diff", local.to_str().unwrap(), set]).ok();
}

/// A signal in the middle of an upload.
#[cfg(target_os = "linux")]
#[test]
fn a_conversion_into_a_bucket_that_is_stopped_leaves_nothing() {
    use std::process::Stdio;
    const LEN: u64 = 64 << 30;
    let s3 = testkit::servers::S3::start();
    s3.make_bucket("bucket");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.safetensors");
    let header = format!(r#"{{"t":{{"dtype":"I8","shape":[{LEN}],"data_offsets":[0,{LEN}]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    std::fs::write(&path, &bytes).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes.len() as u64 + LEN).unwrap();
    for (out, signal, status) in
        [("s3://bucket/m.gguf", "INT", 130), ("s3://bucket/m.safetensors", "TERM", 143)]
    {
        let mut command = command(program());
        command.envs(s3.environment()).env("XDG_CACHE_HOME", folder.path());
        command.args(["convert", path.to_str().unwrap(), out]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = testkit::signals::hears_signals(&mut command).spawn().unwrap();
        while s3.unfinished_uploads("bucket").is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "it ends, and nothing was sent");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        testkit::signals::send(&child, signal);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(
            (ended.status.code(), String::from_utf8(ended.stderr).unwrap()),
            (Some(status), String::new())
        );
        assert!(s3.unfinished_uploads("bucket").is_empty() && s3.keys("bucket").is_empty(), "{out}");
    }
}

/// Each part is decrypted and checked separately, also in a bucket.
#[test]
fn a_part_of_a_sealed_file_at_a_url_is_read_alone() {
    const LEN: usize = 16 << 20;
    let keys = crate::common::Secrets::new();
    let header = format!(
        r#"{{"a":{{"dtype":"U8","shape":[{LEN}],"data_offsets":[0,{LEN}]}},"b":{{"dtype":"U8","shape":[{LEN}],"data_offsets":[{LEN},{}]}}}}"#,
        2 * LEN
    );
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend((0..2 * LEN).map(|at| ((at * at) >> 7).to_le_bytes()[0]));
    let (plain, sealed) = (keys.path("plain.safetensors"), keys.path("sealed.apr"));
    std::fs::write(&plain, bytes).unwrap();
    let (author, reader) = (keys.key("ed25519", "author"), keys.key("x25519", "reader"));
    let (author_public, reader_public) = (format!("{author}.pub"), format!("{reader}.pub"));
    let named =
        ["--model-type", "m", "--architecture", "a", "--to-recipient", &reader_public, "--sign", &author];
    keys.ok(&[&["seal", &plain, &sealed][..], &named].concat());

    let folder = std::path::Path::new(&sealed).parent().unwrap().to_owned();
    let server = files_of(&folder);
    let url = "s3://bucket/sealed.apr";
    for demanded in [&["--identity", &reader][..], &["--identity", &reader, "--key", &author_public]] {
        let show =
            |file| run(&server, &[&["show", file, "b", "--slice", "5000000:5000100"][..], demanded].concat());
        server.forget();
        assert_eq!(show(url).ok(), show(&sealed).ok());
        let ranges = server.requests().into_iter().filter_map(|request| request.range(u64::MAX / 2));
        let read: u64 = ranges.map(|range| range.end - range.start).sum();
        assert!(0 < read && read < LEN as u64 / 2, "{read} bytes are read");
        // Changes a byte of that part, then a byte of the other tensor.
        let good = std::fs::read(&sealed).unwrap();
        for (at, is_read) in [(good.len() - LEN + 5_000_000, true), (LEN / 2, false)] {
            let mut changed = good.clone();
            changed[at] ^= 1;
            std::fs::write(&sealed, changed).unwrap();
            let shown = show(url);
            match is_read {
                true => assert!(shown.error().contains("Seal"), "{demanded:?}"),
                false => drop(shown.ok()),
            }
        }
        std::fs::write(&sealed, good).unwrap();
    }
}
