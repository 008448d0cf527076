//! The models that are measured. They are generated, and the same on every machine and in every run.

mod noise;
mod sparse;

use std::fmt;
use std::path::Path;

use modelfmt::Object;
use modelfmt_core::{Container, DType, Execution};
use modelfmt_write::{MemoryFile, Sink, TensorData, TensorSpec};

use crate::Result;
pub use noise::{Noise, Values};
use sparse::SparseFile;

/// A kind of file, with the options that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// safetensors, with which the others are compared.
    Safetensors,
    /// MAG.
    Mag,
    /// OINF.
    Oinf,
    /// APR.
    Apr,
    /// APR2 with uncompressed tensors.
    Apr2,
    /// APR2 with tensors in LZ4 blocks.
    Apr2Lz4,
    /// AERO with the hashes that every AERO file has: one for each chunk.
    Aero,
    /// AERO that also has hashes of tensors and pages.
    AeroAll,
}

/// The formats that are compared with safetensors, in the order of the tables.
pub const FORMS: [Form; 5] = [Form::Apr2, Form::Mag, Form::Oinf, Form::Aero, Form::Apr];

impl Form {
    /// Returns the name for rows and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Mag => "mag",
            Self::Oinf => "oinf",
            Self::Apr => "apr",
            Self::Apr2 => "apr2",
            Self::Apr2Lz4 => "apr2-lz4",
            Self::Aero => "aero",
            Self::AeroAll => "aero-all",
        }
    }

    /// Returns the name of the format alone.
    pub const fn format(self) -> &'static str {
        match self {
            Self::Apr2Lz4 => Self::Apr2.title(),
            Self::Aero | Self::AeroAll => "AERO",
            other => other.title(),
        }
    }

    /// Returns the usual name, with the options that matter.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Mag => "MAG",
            Self::Oinf => "OINF",
            Self::Apr => "APR",
            Self::Apr2 => "APR2",
            Self::Apr2Lz4 => "APR2 LZ4",
            Self::Aero => "AERO, chunk hashes",
            Self::AeroAll => "AERO, chunk, tensor and page hashes",
        }
    }

    /// Opens a file in memory.
    ///
    /// # Errors
    /// The errors of the format's reader.
    pub fn open(self, bytes: &[u8]) -> Result<Box<dyn Container + '_>> {
        Ok(match self {
            Self::Safetensors => Box::new(modelfmt_safetensors::Reader::from_source(bytes)?),
            Self::Mag => Box::new(mag::Reader::from_source(bytes)?),
            Self::Oinf => Box::new(oinf::Reader::from_source(bytes)?),
            Self::Apr => Box::new(apr::Reader::from_source(bytes)?),
            Self::Apr2 | Self::Apr2Lz4 => Box::new(apr2::Reader::from_source(bytes)?),
            Self::Aero | Self::AeroAll => Box::new(aero::Reader::from_source(bytes)?),
        })
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The number of columns of a matrix.
const COLUMNS: u64 = 4096;

/// The tensors of a model, without their values.
pub struct Tensors(Vec<(String, DType, Vec<u64>)>);

impl Tensors {
    /// Returns many small tensors: names of 20 bytes, rank 2, 16 bytes of values each.
    pub fn many(count: usize) -> Self {
        let tensor = |number| (format!("layer.{number:07}.weight"), DType::F32, vec![2, 2]);
        Self((0..count).map(tensor).collect())
    }

    /// Returns layers, each with a matrix and a norm of 16 KiB; the matrices have `nbytes` bytes in total.
    pub fn layers(dtype: DType, layers: u64, nbytes: u64) -> Self {
        let size = u64::from(dtype.size().unwrap_or(1));
        let rows = (nbytes / layers / (COLUMNS * size)).max(1);
        let layer = |number| {
            [(norm(number), DType::F32, vec![COLUMNS]), (matrix(number), dtype, vec![rows, COLUMNS])]
        };
        Self((0..layers).flat_map(layer).collect())
    }

    /// Returns a single matrix of this size.
    pub fn one(dtype: DType, nbytes: u64) -> Self {
        let elements = nbytes / u64::from(dtype.size().unwrap_or(1));
        Self(vec![(matrix(0), dtype, vec![elements / COLUMNS, COLUMNS])])
    }

    /// Returns the tensors of a hub model of the family llama, with layers of `nbytes` bytes in total, at
    /// least one layer. Also returns its `config.json`.
    pub fn llama(dtype: DType, nbytes: u64) -> (Self, String) {
        const HIDDEN: u64 = 2048;
        const KEYS: u64 = 512;
        const INNER: u64 = 5632;
        const WORDS: u64 = 8192;
        let parts = [
            ("self_attn.q_proj", vec![HIDDEN, HIDDEN]),
            ("self_attn.k_proj", vec![KEYS, HIDDEN]),
            ("self_attn.v_proj", vec![KEYS, HIDDEN]),
            ("self_attn.o_proj", vec![HIDDEN, HIDDEN]),
            ("mlp.gate_proj", vec![INNER, HIDDEN]),
            ("mlp.up_proj", vec![INNER, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, INNER]),
            ("input_layernorm", vec![HIDDEN]),
            ("post_attention_layernorm", vec![HIDDEN]),
        ];
        let of_layer: u64 = parts.iter().filter_map(|(_, shape)| dtype.nbytes(shape)).sum();
        let layers = (nbytes / of_layer).max(1);
        let mut tensors = vec![
            ("model.embed_tokens.weight".to_owned(), dtype, vec![WORDS, HIDDEN]),
            ("model.norm.weight".to_owned(), dtype, vec![HIDDEN]),
        ];
        for layer in 0..layers {
            let named = |(name, shape): &(&str, Vec<u64>)| {
                (format!("model.layers.{layer}.{name}.weight"), dtype, shape.clone())
            };
            tensors.extend(parts.iter().map(named));
        }
        let config = format!(
            r#"{{"model_type": "llama", "hidden_size": {HIDDEN}, "num_attention_heads": 32, "num_key_value_heads": 8,
                "num_hidden_layers": {layers}, "intermediate_size": {INNER}, "vocab_size": {WORDS}, "tie_word_embeddings": true}}"#
        );
        (Self(tensors), config)
    }

    /// Returns the number of tensors.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Checks whether there are no tensors.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the total size of the values in bytes.
    pub fn nbytes(&self) -> u64 {
        self.0.iter().filter_map(|(_, dtype, shape)| dtype.nbytes(shape)).sum()
    }

    /// Returns the name of the tensor at a position.
    pub fn name(&self, position: usize) -> &str {
        self.0.get(position).map_or("", |(name, ..)| name)
    }

    fn specs(&self) -> impl Iterator<Item = TensorSpec<'_>> {
        self.0.iter().map(|(name, dtype, shape)| TensorSpec::new(name, *dtype, &shape[..]))
    }

    /// Returns the values of each tensor.
    ///
    /// # Errors
    /// If `data` returns an error.
    pub fn values(&self, data: &dyn TensorData) -> Result<Vec<Vec<u8>>> {
        let values = |(number, (_, dtype, shape)): (usize, &(_, DType, Vec<u64>))| {
            let mut values = vec![0; dtype.nbytes(shape).unwrap_or(0) as usize];
            data.read(number, 0, &mut values)?;
            Ok(values)
        };
        self.0.iter().enumerate().map(values).collect()
    }

    /// Writes a file with these tensors into memory.
    pub fn to_memory(&self, form: Form, data: &dyn TensorData) -> Result<Vec<u8>> {
        let file = MemoryFile::new();
        self.write(form, data, &file)?;
        Ok(file.into_bytes())
    }

    /// Writes a file with these tensors. Pieces that are all zeros take no space on the disk.
    pub fn to_file(&self, form: Form, data: &dyn TensorData, path: &Path) -> Result {
        let file = SparseFile::create(path)?;
        self.write(form, data, &file)?;
        Ok(file.finish()?)
    }

    /// Writes a file with these tensors to a sink.
    ///
    /// # Errors
    /// If values cannot be read, or the sink refuses them.
    pub fn write(&self, form: Form, data: &dyn TensorData, sink: &dyn Sink) -> Result {
        let work = Execution::default();
        match form {
            Form::Safetensors => {
                use modelfmt_safetensors::{Plan, WriteOptions};
                Plan::new(self.specs(), None, &WriteOptions::new())?.write(data, sink, &work)?;
            }
            Form::Mag => {
                use mag::{Plan, WriteOptions};
                Plan::new(self.specs(), &Object::new(), &WriteOptions::new())?.write(data, sink, &work)?;
            }
            Form::Oinf => {
                use oinf::{Metadata, Plan, WriteOptions};
                Plan::new(self.specs(), &Metadata::new(), &WriteOptions::new())?.write(data, sink, &work)?;
            }
            Form::Apr => {
                use apr::{Metadata, Plan, WriteOptions};
                let metadata = Metadata::new("bench", Object::new());
                Plan::new(self.specs(), &metadata, &WriteOptions::new())?.write(data, sink, &work)?;
            }
            Form::Apr2 | Form::Apr2Lz4 => {
                use apr2::{Compression, Metadata, Plan, WriteOptions};
                let compression = if form == Form::Apr2 { Compression::None } else { Compression::Lz4 };
                let options = WriteOptions::new().compression(compression);
                let metadata = Metadata::new("bench", Object::new());
                Plan::new(self.specs(), &metadata, &options)?.write(data, sink, &work)?;
            }
            Form::Aero | Form::AeroAll => {
                use aero::{DEFAULT_PAGE_SIZE, Plan, WriteOptions};
                let all = form == Form::AeroAll;
                let pages = all.then_some(DEFAULT_PAGE_SIZE);
                let options =
                    WriteOptions::new().uuid([7; 16]).zstd(None).tensor_hashes(all).page_hashes(pages);
                let metadata = Object::from_iter([("model_name", "bench"), ("architecture", "none")]);
                Plan::new(self.specs(), &metadata, &options)?.write(data, sink, &work)?;
            }
        }
        Ok(())
    }

    /// Writes a sealed APR2 file with these tensors.
    ///
    /// # Errors
    /// If values cannot be read, or the sink refuses them.
    pub fn seal(
        &self,
        options: &apr2_seal::seal::SealOptions,
        data: &dyn TensorData,
        sink: &dyn Sink,
        work: &Execution<'_>,
    ) -> Result {
        use apr2::{Metadata, Plan, WriteOptions};
        let metadata = Metadata::new("bench", Object::new());
        let plan = Plan::new(self.specs(), &metadata, &WriteOptions::new())?;
        options.write(&plan, data, sink, work)?;
        Ok(())
    }
}

/// Returns the name of a layer's norm.
pub fn norm(layer: u64) -> String {
    format!("layers.{layer:04}.norm.weight")
}

/// Returns the name of a layer's matrix.
pub fn matrix(layer: u64) -> String {
    format!("layers.{layer:04}.mlp.weight")
}
