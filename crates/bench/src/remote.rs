//! Loads a whole model from a local server, compared with bare requests for the same bytes from the same
//! server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use modelfmt::{Execution, Model, OpenOptions};
use modelfmt_core::DType;
use modelfmt_core::load::LoadOptions;
use modelfmt_core::plan::{Pick, PlanOptions};
use modelfmt_core::source::BoxSource;
use modelfmt_remote::blocking::Store;
use modelfmt_remote::{Environment, Options};
use testkit::servers::Nginx;

use crate::data::{Form, Noise, Tensors, Values};
use crate::race::{on_threads, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, remove};

/// The number of requests at once, for us and for the bare side.
const REQUESTS: u16 = 16;
/// The size of a bare request.
const BLOCK: usize = 4 << 20;
const FILE: &str = "remote.safetensors";

/// Loads a model from nginx.
pub(crate) fn run(bench: &mut Bench) -> Result {
    const LOAD: &str = "remote/load";
    if !bench.wants(LOAD) {
        return Ok(());
    }
    let path = bench.file(FILE);
    let tensors = Tensors::layers(DType::F16, 32, bench.sizes.remote_mib << 20);
    tensors.to_file(Form::Safetensors, &Noise::new(Values::F16), &path)?;
    let (folder, work) = (std::path::absolute(&bench.dir.0)?, std::path::absolute(bench.file("nginx"))?);
    std::fs::create_dir(&work)?;
    let nginx = Nginx::start(&folder, &work);
    let served = Served::new(&nginx, &path, bench.sizes.threads)?;
    served.is_right()?;
    let race = race(bench.rounds(9), || seconds(|| served.ours()), || seconds(|| served.bare()))?;
    let work = format!(
        "load {} MiB from a server on this machine: speed of bare requests for the same bytes, {REQUESTS} at once on both sides",
        bench.sizes.remote_mib
    );
    let best = race.rates(served.nbytes).into_iter().fold(0.0, f64::max);
    bench.add(Row {
        id: LOAD.to_owned(),
        work,
        case: Form::Safetensors.title().to_owned(),
        samples: race.speedups(),
        unit: Unit::Times,
        target: Target::AtLeast(0.9),
        note: format!("{}; {best:.1} GB/s at best", race.times()),
    });
    drop((served, nginx));
    remove(&path)
}

/// A model behind a URL, and memory for all of its tensors that has been touched.
struct Served {
    /// The host and the port.
    address: String,
    threads: usize,
    local: Model,
    model: Model,
    picks: Vec<Pick>,
    lens: Vec<usize>,
    /// The position of the values in the file.
    begin: u64,
    nbytes: usize,
    memory: Mutex<Vec<u8>>,
}

impl Served {
    fn new(nginx: &Nginx, path: &Path, threads: usize) -> Result<Self> {
        let options =
            Options::new().environment(Environment::from_vars([("", ""); 0])).in_flight(REQUESTS, 64 << 20);
        let place = format!("{}/{FILE}", nginx.endpoint()).parse()?;
        let source: BoxSource = Box::new(Store::new(options)?.open(&place)?);
        let model = OpenOptions::new().open_source(FILE, source, None)?;
        let local = Model::open(path)?;
        let picks = local.picks::<&str>(&[])?;
        let lens: Vec<usize> = local.tensors().map(|info| info.nbytes as usize).collect();
        let plan = local.plan(&picks, PlanOptions::local())?;
        let hulls = || plan.ranges().iter().map(|range| range.runs.hull());
        let (begin, end) = (hulls().map(|hull| hull.start).min(), hulls().map(|hull| hull.end).max());
        let (begin, end) = begin.zip(end).ok_or("no tensor has values")?;
        let nbytes = (end - begin) as usize;
        let address = nginx.endpoint().trim_start_matches("http://").to_owned();
        let memory = Mutex::new(vec![1; nbytes]); // memory that is only promised would be touched by the first to load
        Ok(Self { address, threads, local, model, picks, lens, begin, nbytes, memory })
    }

    fn ours(&self) -> Result {
        let mut memory = self.memory.lock().map_err(|_| "the memory is broken")?;
        let (mut rest, mut buffers) = (&mut memory[..], Vec::with_capacity(self.lens.len()));
        for &len in &self.lens {
            let (buffer, after) = rest.split_at_mut(len);
            buffers.push(buffer);
            rest = after;
        }
        let work = Execution { threads: self.threads, progress: None };
        self.model.load_into(&self.picks, &mut buffers, &LoadOptions::new(), &work)?;
        Ok(())
    }

    /// Uses a connection for each thread, with one request after the other.
    fn bare(&self) -> Result {
        let mut memory = self.memory.lock().map_err(|_| "the memory is broken")?;
        let blocks: Vec<_> = memory.chunks_mut(BLOCK).map(Mutex::new).collect();
        let failed = Mutex::new(None);
        on_threads(
            REQUESTS.into(),
            blocks.len(),
            || TcpStream::connect(&self.address),
            |stream, number| {
                let mut block = blocks[number].lock().unwrap_or_else(PoisonError::into_inner);
                let at = self.begin + (number * BLOCK) as u64;
                let got = match stream {
                    Ok(stream) => get(stream, &self.address, FILE, at, &mut block),
                    Err(error) => Err(error.to_string().into()),
                };
                if let Err(error) = got {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            },
        );
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), Err)
    }

    /// Checks that both sides load the content of the file.
    fn is_right(&self) -> Result {
        for side in [Self::ours, Self::bare] {
            self.memory.lock().map_err(|_| "the memory is broken")?.fill(1);
            side(self)?;
            let mut at = 0;
            let memory = self.memory.lock().map_err(|_| "the memory is broken")?;
            for (info, &len) in self.local.tensors().zip(&self.lens) {
                let same = *self.local.tensor(info.name)?.bytes() == memory[at..at + len];
                ensure(same, || format!("{} is loaded as something else", info.name))?;
                at += len;
            }
        }
        Ok(())
    }
}

/// Makes one request for a part of a file, and writes the body of the answer to `out`.
pub(crate) fn get(stream: &mut TcpStream, address: &str, file: &str, at: u64, out: &mut [u8]) -> Result {
    let last = at + out.len() as u64 - 1;
    write!(stream, "GET /{file} HTTP/1.1\r\nHost: {address}\r\nRange: bytes={at}-{last}\r\n\r\n")?;
    let mut head = vec![0; 4096];
    let mut filled = 0;
    let end = loop {
        let came = stream.read(&mut head[filled..])?;
        ensure(came > 0, || "the server sends no whole head".to_owned())?;
        filled += came;
        if let Some(at) = head[..filled].windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break at + 4;
        }
    };
    ensure(head.starts_with(b"HTTP/1.1 206 "), || String::from_utf8_lossy(&head[..end]).into_owned())?;
    let (begun, rest) = out.split_at_mut((filled - end).min(out.len()));
    begun.copy_from_slice(&head[end..end + begun.len()]);
    Ok(stream.read_exact(rest)?)
}
