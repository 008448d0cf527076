//! Importance matrices: how important each column of each weight is. They are read from a GGUF or from the
//! older imatrix.dat.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelfmt_core::Source as _;
use modelfmt_core::author::Shortened;
use modelfmt_core::source::BoxSource;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;
use modelfmt_model::open::OpenOptions;

/// The maximum length in bytes of a tensor name.
const LONGEST_NAME: u64 = 1 << 12;

/// The importance of columns, by tensor name as in GGUF.
pub(super) struct Imatrix {
    path: PathBuf,
    weights: Weights,
}

enum Weights {
    /// A GGUF with sums of squares and counts.
    Gguf(Box<Model>),
    Old(BTreeMap<String, Arc<[f32]>>),
}

impl Imatrix {
    /// Opens a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is not an importance matrix.
    pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<Self> {
        let failed = |error: std::io::Error| refused(path, format!("it cannot be read: {error}"));
        let mut file = SourceReader { source: options.open_other(path)?, at: 0 };
        let size = file.source.len();
        let mut start = [0; 4];
        file.read_exact(&mut start).map_err(failed)?;
        let weights = if &start == b"GGUF" {
            Weights::Gguf(Box::new(gguf(path, options)?))
        } else {
            let rest = start.chain(std::io::BufReader::new(file));
            Weights::Old(Old { rest, left: size }.read().map_err(|why| refused(path, why))?)
        };
        Ok(Self { path: path.to_owned(), weights })
    }

    /// Returns the importance of the columns of a tensor, one group after the other; `None` if the file does
    /// not have it.
    ///
    /// # Errors
    /// If a number is negative, above 1e18 or a NaN, or the tensor's entry is malformed.
    pub(super) fn of(&self, name: &str) -> Result<Option<Arc<[f32]>>> {
        let found = match &self.weights {
            Weights::Old(all) => all.get(name).cloned(),
            Weights::Gguf(model) => self.means(model, name)?,
        };
        let is_sound = |number: &f32| (0.0..=1e18).contains(number);
        match found.as_ref().and_then(|found| found.iter().position(|number| !is_sound(number))) {
            None => Ok(found),
            Some(at) => {
                let why = format!("the importance {at} of {:?} is not from 0 to 1e18", Shortened(name));
                Err(self.refused(why))
            }
        }
    }

    fn means(&self, model: &Model, name: &str) -> Result<Option<Arc<[f32]>>> {
        let (sums, counts) = (format!("{name}.in_sum2"), format!("{name}.counts"));
        let has = |name: &str| model.container().find(name).is_some();
        match (has(&sums), has(&counts)) {
            (false, false) => return Ok(None),
            (true, true) => {}
            _ => {
                let why = format!("{:?} has only one of in_sum2 and counts", Shortened(name));
                return Err(self.refused(why));
            }
        }
        let read = |name: &str| -> Result<Vec<f32>> {
            let tensor = model.tensor(name)?;
            ggml_quant::to_f32(&tensor)
                .map_err(|error| self.refused(format!("tensor {:?}: {error}", Shortened(name))))
        };
        let (mut sums, counts) = (read(&sums)?, read(&counts)?);
        let columns = sums.len().checked_div(counts.len()).unwrap_or_default();
        if columns == 0 || columns.checked_mul(counts.len()) != Some(sums.len()) {
            let why = format!(
                "{:?} has {} sums and {} counts, which do not divide them",
                Shortened(name),
                sums.len(),
                counts.len()
            );
            return Err(self.refused(why));
        }
        for (sums, &count) in sums.chunks_exact_mut(columns).zip(&counts) {
            for sum in sums {
                // No token passed through this group, so all its columns count equally.
                *sum = if count > 0.0 { *sum / count } else { 1.0 };
            }
        }
        Ok(Some(sums.into()))
    }

    /// Returns an error about the file.
    pub(super) fn refused(&self, why: String) -> Error {
        refused(&self.path, why)
    }
}

fn refused(path: &Path, why: String) -> Error {
    Error::Imatrix { path: path.to_owned(), why }
}

/// Opens a GGUF, and checks that it is an importance matrix.
fn gguf(path: &Path, options: &OpenOptions) -> Result<Model> {
    let model = options.open(path)?;
    let keys = model.common_metadata()?.keys;
    let kind = keys.get("general.type").and_then(|kind| kind.as_str()).map(str::to_owned);
    if kind.as_deref() != Some("imatrix") {
        let found = kind.map_or_else(|| "missing".to_owned(), |kind| format!("{:?}", Shortened(&kind)));
        return Err(refused(path, format!("its `general.type` is {found}, not \"imatrix\"")));
    }
    if !model.tensors().any(|info| info.name.ends_with(".in_sum2")) {
        return Err(refused(path, "it has no tensor with `.in_sum2` at the end of its name".to_owned()));
    }
    model.open_all()?;
    Ok(model)
}

/// Reads a source from its beginning to its end.
struct SourceReader {
    source: BoxSource,
    at: u64,
}

impl Read for SourceReader {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let left = self.source.len().saturating_sub(self.at);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        self.source.read_into(self.at, out.get_mut(..len).unwrap_or_default())?;
        self.at += len as u64;
        Ok(len)
    }
}

/// A file in the format that llama.cpp used before GGUF.
struct Old<R> {
    rest: R,
    /// The number of bytes that are left.
    left: u64,
}

impl<R: Read> Old<R> {
    fn read(mut self) -> Result<BTreeMap<String, Arc<[f32]>>, String> {
        let count = self.number("the number of entries")?;
        if count < 1 {
            return Err(format!("it is neither a GGUF nor an imatrix.dat: it has {count} entries"));
        }
        let mut all = BTreeMap::new();
        for entry in 0..count {
            let what = |part: &str| format!("the {part} of entry {entry}");
            let length = self.length(&what("name's length"), 1)?;
            if length > LONGEST_NAME {
                return Err(format!("{} is {length}, above {LONGEST_NAME}", what("name's length")));
            }
            let name = String::from_utf8(self.bytes(length, &what("name"))?)
                .map_err(|_| format!("{} is not UTF-8", what("name")))?;
            let calls = self.number(&what("number of calls"))?;
            let values = self.length(&what("number of values"), 4)?;
            let bytes = self.bytes(values.saturating_mul(4), &what("values"))?;
            let divisor = if calls > 0 { calls as f32 } else { 1.0 };
            let values = bytes.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value) / divisor);
            if all.insert(name.clone(), values.collect()).is_some() {
                return Err(format!("it has {:?} twice", Shortened(&name)));
            }
        }
        // The file may end with the number of the last call and the file name of the texts. Neither is
        // needed.
        Ok(all)
    }

    fn number(&mut self, what: &str) -> Result<i32, String> {
        let bytes = self.bytes(4, what)?;
        let bytes = bytes.first_chunk().copied().unwrap_or_default();
        Ok(i32::from_le_bytes(bytes))
    }

    /// Reads the number of items of `each` bytes. There must be at least one, and all of them must be in the
    /// file.
    fn length(&mut self, what: &str, each: u64) -> Result<u64, String> {
        let number = self.number(what)?;
        let length = u64::try_from(number).unwrap_or_default();
        if length == 0 || length.checked_mul(each).is_none_or(|nbytes| nbytes > self.left) {
            return Err(format!("{what} is {number}, and {} bytes are left", self.left));
        }
        Ok(length)
    }

    fn bytes(&mut self, count: u64, what: &str) -> Result<Vec<u8>, String> {
        let left = self.left.checked_sub(count);
        self.left = left.ok_or_else(|| format!("the file ends within {what}"))?;
        let mut bytes = vec![0; usize::try_from(count).map_err(|error| error.to_string())?];
        self.rest.read_exact(&mut bytes).map_err(|error| format!("{what} cannot be read: {error}"))?;
        Ok(bytes)
    }
}
