//! Several processes write a set into a bucket, each some of its files. One of them is killed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use modelfmt::convert::Receipt;
use modelfmt::convert::{ConvertOptions, Overwrite};
use modelfmt::{Conversion, Execution, Format, Model};
use modelfmt_remote::{NewObjects, Options, Store};
use testkit::servers::S3;

/// The task of a process in this test: its role, the format, and the folder that all processes share.
/// Processes read it from their environment.
const TASK: &str = "MODELFMT_TEST_PARTS";
/// The length of each tensor: each file of the set is longer than the minimum size of an upload's part.
const TENSOR: usize = 6 << 20;
const TENSORS: usize = 4;
const UPLOAD: u64 = 5 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

fn format(name: &str) -> Format {
    if name == "aeroset" { Format::AeroSet } else { Format::SafetensorsSharded }
}

fn options() -> ConvertOptions {
    let mut options = ConvertOptions::default();
    (options.output.shard_size, options.aero.uuid) = (Some(TENSOR as u64 + 4096), Some([7; 16]));
    (options.metadata.model_name, options.metadata.architecture) = (Some("m".into()), Some("a".into()));
    options
}

/// Returns the options for a format.
fn options_of(format: Format) -> ConvertOptions {
    let mut plain = ConvertOptions::default();
    plain.output.shard_size = options().output.shard_size;
    if format == Format::AeroSet { options() } else { plain }
}

fn write_source(folder: &Path) {
    let tensor = |number: usize| {
        let (begin, end) = (number * TENSOR, (number + 1) * TENSOR);
        format!(r#""w{number}":{{"dtype":"U8","shape":[{TENSOR}],"data_offsets":[{begin},{end}]}}"#)
    };
    let header = format!("{{{}}}", (0..TENSORS).map(tensor).collect::<Vec<_>>().join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    let values = (0..=250).cycle().take(TENSORS * TENSOR);
    file.extend(values);
    std::fs::write(folder.join("source.safetensors"), file).unwrap();
}

/// Returns new objects for a set, in the bucket that the environment names.
fn objects(set: &str, name: &str) -> NewObjects {
    let place = format!("s3://parts/{set}/{name}").parse().unwrap();
    NewObjects::new(Store::new(Options::new()), &place, Overwrite::Refuse).unwrap().part_size(UPLOAD)
}

fn name(format: &str) -> &'static str {
    if format == "aeroset" { "m.aeroset.json" } else { "m.safetensors.index.json" }
}

/// Performs the task that this process was started for.
fn act(task: &str) {
    let [role, of, folder] = task.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
    let (folder, work) = (Path::new(folder), Execution::default());
    let model = Model::open(folder.join("source.safetensors")).unwrap();
    let options = options_of(format(of));
    let conversion = Conversion::to_format(&model, format(of)).options(&options).plan().unwrap();
    if role == "one" {
        let files = objects(&format!("one-{of}"), name(of));
        conversion.write_to_files(name(of), &files, &work).unwrap();
        return;
    }
    let plan = conversion.into_parts(name(of)).unwrap();
    let files = objects(of, plan.index_name());
    let receipt = |number: usize| folder.join(format!("{of}-{number}.receipt"));
    let all = 0..plan.parts().len();
    match role {
        "begin" => plan.begin(&files).unwrap(),
        "finish" => {
            let read = |number| std::fs::read_to_string(receipt(number)).unwrap().parse().unwrap();
            let receipts: Vec<Receipt> = all.map(read).collect();
            plan.finish(&receipts, &files, &work).unwrap();
        }
        "stuck" => {
            // More than one part of an upload is written, and then nothing more.
            let done = AtomicU64::new(0);
            let stop = |more: u64| {
                if done.fetch_add(more, Ordering::Relaxed) + more > UPLOAD + (512 << 10) {
                    thread::sleep(PATIENCE);
                }
                ControlFlow::Continue(())
            };
            let work = Execution { threads: 1, progress: Some(&stop) };
            plan.part(1).unwrap().write(&files, &work).unwrap();
        }
        worker => {
            let first = if worker == "even" { 0 } else { 1 };
            for number in all.skip(first).step_by(2) {
                let written = plan.part(number).unwrap().write(&files, &work).unwrap();
                std::fs::write(receipt(number), written.to_string()).unwrap();
            }
        }
    }
}

/// Starts this test again, as a separate process with another task.
fn start(server: &S3, role: &str, of: &str, folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "parts::processes_write_the_parts_of_a_set", "--nocapture"]);
    command.env(TASK, format!("{role} {of} {}", folder.display())).envs(server.environment());
    command.stdout(Stdio::null()).spawn().unwrap()
}

fn run(server: &S3, role: &str, of: &str, folder: &Path) {
    assert!(start(server, role, of, folder).wait().unwrap().success(), "{role} {of}");
}

/// Returns the objects of a set, by their names within the set.
fn set(server: &S3, name: &str) -> Vec<(String, Vec<u8>)> {
    let prefix = format!("{name}/");
    let keys = server.keys("parts");
    let own = keys.iter().filter_map(|key| Some((key.strip_prefix(&prefix)?.to_owned(), key)));
    own.map(|(name, key)| (name, server.get("parts", key).unwrap())).collect()
}

#[test]
fn processes_write_the_parts_of_a_set() {
    if let Ok(task) = std::env::var(TASK) {
        return act(&task);
    }
    let (server, folder) = (S3::start(), tempfile::tempdir().unwrap());
    server.make_bucket("parts");
    write_source(folder.path());
    let model = Model::open(folder.path().join("source.safetensors")).unwrap();
    for of in ["safetensors", "aeroset"] {
        let options = options_of(format(of));
        let conversion = Conversion::to_format(&model, format(of)).options(&options).plan().unwrap();
        let parts = conversion.into_parts(name(of)).unwrap().parts().len();
        assert!(parts >= TENSORS);
        let start = |role: &str| start(&server, role, of, folder.path());
        let run = |role: &str| run(&server, role, of, folder.path());
        run("begin");
        let mut even = start("even");
        if of == "safetensors" {
            let mut stuck = start("stuck");
            let begun = Instant::now();
            while !server.unfinished_uploads("parts").iter().any(|key| key.contains("00002-of")) {
                assert!(begun.elapsed() < PATIENCE, "the process that is to be killed writes nothing");
                thread::sleep(Duration::from_millis(20));
            }
            stuck.kill().unwrap();
            assert!(!stuck.wait().unwrap().success());
        }
        assert!(even.wait().unwrap().success());
        // Nothing that the killed process wrote is visible, and there is no set yet.
        assert_eq!(set(&server, of).len(), parts.div_ceil(2));
        run("odd");
        assert_eq!(set(&server, of).len(), parts);
        run("finish");
        run("one");
        let (many, one) = (set(&server, of), set(&server, &format!("one-{of}")));
        assert!(many.len() > parts && many.len() == one.len(), "{} of {}", many.len(), one.len());
        for ((name, bytes), (name_of_one, bytes_of_one)) in many.iter().zip(&one) {
            assert_eq!(name, name_of_one);
            assert!(bytes == bytes_of_one, "{of}: {name}");
        }
    }
}
