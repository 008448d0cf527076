//! The program with its cache: which requests it makes the second time.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is test code"
)]

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::common::{Run, command, program};
use crate::server::{Reply, Server};
use tempfile::TempDir;

/// More than is read when a file is opened.
const VALUES: usize = 2_000_000;

/// Bytes and entity tags by name.
type Files = HashMap<String, (Vec<u8>, String)>;

/// A server whose files a test changes, and the folder of a cache.
struct Site {
    server: Server,
    files: Arc<Mutex<Files>>,
    cache: TempDir,
    work: TempDir,
}

impl Site {
    fn new() -> Self {
        let files = Arc::new(Mutex::new(Files::new()));
        let served = Arc::clone(&files);
        let server = Server::start(move |request| {
            match served.lock().unwrap().get(request.target.trim_start_matches('/')) {
                Some((bytes, etag)) => Reply::file(request, bytes, etag),
                None => Reply::status(404),
            }
        });
        let [cache, work] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        Self { server, files, cache, work }
    }

    fn put(&self, name: &str, bytes: Vec<u8>, etag: &str) {
        self.files.lock().unwrap().insert(name.to_owned(), (bytes, etag.to_owned()));
    }

    fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.server.port)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(program());
        command.env("XDG_CACHE_HOME", self.cache.path()).args(args);
        command
    }

    /// Runs the program, and returns its requests: which bytes of which file.
    fn run(&self, args: &[&str]) -> (Run, Vec<String>) {
        self.server.forget();
        let run = crate::common::run(&mut self.command(args));
        let asked = self.server.requests();
        let asked = asked.iter().map(|request| {
            let range = request.header("range").unwrap_or_default();
            format!("{} {range}", request.target)
        });
        (run, asked.collect())
    }

    /// Returns a safetensors file of one tensor with these values, its BLAKE3, and its outboard.
    fn model(&self, value: u8) -> (Vec<u8>, String, Vec<u8>) {
        let header = format!(r#"{{"w":{{"dtype":"U8","shape":[{VALUES}],"data_offsets":[0,{VALUES}]}}}}"#);
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.resize(bytes.len() + VALUES, value);
        let path = self.work.path().join("m.safetensors");
        std::fs::write(&path, &bytes).unwrap();
        let hash = crate::common::modelfmt(["outboard", "--force", path.to_str().unwrap()]).ok();
        let outboard = std::fs::read(self.work.path().join("m.safetensors.obao4")).unwrap();
        (bytes, format!("b3:{}", hash.trim()), outboard)
    }

    fn out(&self) -> PathBuf {
        self.work.path().join("w.npy")
    }

    /// Extracts the tensor, and returns its value and the requests.
    fn extract(&self, extra: &[&str]) -> (u8, Vec<String>) {
        let out = self.out();
        let url = self.url("m.safetensors");
        let args = ["extract", &url, "w", "-o", out.to_str().unwrap(), "--force"];
        let (run, asked) = self.run(&[&args[..], extra].concat());
        run.ok();
        let bytes = std::fs::read(out).unwrap();
        let values = &bytes[bytes.len() - VALUES..];
        assert!(values.iter().all(|value| *value == values[0]));
        (values[0], asked)
    }
}

#[test]
fn a_second_open_is_one_small_request_and_none_with_a_pin() {
    let site = Site::new();
    let local = crate::common::testdata("aero/hashes.aero");
    site.put("m.aero", std::fs::read(&local).unwrap(), "\"1\"");
    let url = site.url("m.aero");
    let (first, asked) = site.run(&["inspect", "--json", &url]);
    let first = first.json();
    assert_eq!(asked, ["/m.aero bytes=0-524287"]);
    let (second, asked) = site.run(&["inspect", "--json", &url]);
    assert_eq!((second.json(), asked), (first.clone(), vec!["/m.aero bytes=0-0".to_owned()]));

    let pins = first["pins"].as_array().unwrap();
    let pin = pins.iter().find_map(|pin| pin.as_str().filter(|pin| pin.starts_with("aero:"))).unwrap();
    let (pinned, asked) = site.run(&["inspect", "--json", &url, "--pin", pin]);
    assert_eq!((pinned.json()["tensors"].clone(), asked.len()), (first["tensors"].clone(), 0));
    let (again, asked) = site.run(&["show", &url, "--pin", pin]);
    assert!(!again.ok().is_empty() && asked.is_empty(), "{asked:?}");

    // Without the cache, everything is requested again, and nothing is kept.
    let kept = || std::fs::read_dir(site.cache.path().join("modelfmt/v1/known")).unwrap().count();
    let before = kept();
    site.put("other.aero", std::fs::read(&local).unwrap(), "\"2\"");
    let (run, asked) = site.run(&["inspect", &site.url("other.aero"), "--no-cache"]);
    run.ok();
    assert_eq!((asked, kept()), (vec!["/other.aero bytes=0-524287".to_owned()], before));
    let (run, asked) = site.run(&["inspect", &url, "--pin", pin, "--no-cache"]);
    run.ok();
    assert_eq!(asked, ["/m.aero bytes=0-524287"]);
}

#[test]
fn a_file_with_an_outboard_is_read_without_asking_where_its_pin_is_known() {
    let site = Site::new();
    let (bytes, pin, outboard) = site.model(1);
    site.put("m.safetensors", bytes, "\"1\"");
    site.put("m.safetensors.obao4", outboard, "\"2\"");
    let (value, asked) = site.extract(&["--pin", &pin]);
    assert!(value == 1 && asked.len() >= 3, "{asked:?}");
    // The outboard is opened once.
    let asked_for_outboard = asked.iter().filter(|asked| *asked == "/m.safetensors.obao4 bytes=0-524287");
    assert_eq!(asked_for_outboard.count(), 1, "{asked:?}");
    assert_eq!(site.extract(&["--pin", &pin]), (1, vec![]));
    // Without a pin, there is a single small request.
    assert_eq!(site.extract(&[]), (1, vec!["/m.safetensors bytes=0-0".to_owned()]));
}

#[test]
fn a_pin_of_the_new_file_is_not_held_against_the_old_one() {
    let site = Site::new();
    let (old, old_pin, old_outboard) = site.model(1);
    let (new, new_pin, new_outboard) = site.model(2);
    site.put("m.safetensors", old.clone(), "\"1\"");
    assert_eq!(site.extract(&[]).0, 1);
    // The header is the same as before, so only the outboard distinguishes the files, and it is requested.
    site.put("m.safetensors", new, "\"2\"");
    site.put("m.safetensors.obao4", new_outboard, "\"2\"");
    assert_eq!(site.extract(&["--pin", &new_pin]).0, 2);
    // The old file again: now the whole cache belongs to the other one.
    site.put("m.safetensors", old, "\"3\"");
    site.put("m.safetensors.obao4", old_outboard, "\"3\"");
    assert_eq!(site.extract(&["--pin", &old_pin]).0, 1);
    let (run, _) = site.run(&["extract", &site.url("m.safetensors"), "w", "-o", "-", "--pin", &new_pin]);
    assert_eq!(run.status, 1);
}

#[test]
fn what_the_server_has_is_verified_and_not_the_cache() {
    let site = Site::new();
    let mut bytes = std::fs::read(crate::common::testdata("aero/hashes.aero")).unwrap();
    site.put("m.aero", bytes.clone(), "\"1\"");
    let url = site.url("m.aero");
    site.run(&["check", &url]).0.ok();
    *bytes.last_mut().unwrap() ^= 1;
    // The server does not show the damage: the entity tag stays the same.
    site.put("m.aero", bytes, "\"1\"");
    site.run(&["check", &url]).0.ok();
    let (run, asked) = site.run(&["verify", &url]);
    assert_eq!((run.status, asked), (1, vec!["/m.aero bytes=0-524287".to_owned()]));
}

#[test]
fn processes_that_want_the_same_fetch_it_once() {
    const PROCESSES: usize = 3;
    let site = Site::new();
    site.put("m.safetensors", site.model(7).0, "\"1\"");
    let url = site.url("m.safetensors");
    site.run(&["inspect", &url]).0.ok();
    site.server.forget();
    let out = |number| site.work.path().join(format!("{number}.npy"));
    let children = [0, 1, 2].map(|number: usize| {
        let mut command = site.command(&["extract", &url, "w", "-o", out(number).to_str().unwrap()]);
        command.stderr(Stdio::null()).spawn().unwrap()
    });
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let written = [0, 1, 2].map(|number| std::fs::read(out(number)).unwrap());
    assert!(written[0].ends_with(&[7; VALUES]) && written.iter().all(|bytes| *bytes == written[0]));
    let asked = site.server.requests();
    let small = asked.iter().filter(|request| request.header("range") == Some("bytes=0-0")).count();
    // Each process asks whether the file is unchanged. Bytes that none of them had are fetched by one of
    // them.
    let most = VALUES.div_ceil(1 << 18);
    let range = |at: usize| {
        asked
            .iter()
            .filter(|request| request.range(u64::MAX).is_some_and(|range| range.contains(&(at as u64))))
            .count()
    };
    assert_eq!(small, PROCESSES);
    assert!((3..most).all(|page| range(page << 18) == 1), "{asked:?}");
}
