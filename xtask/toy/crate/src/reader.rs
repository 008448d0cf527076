//! Opens TOY files: what a reader asks of the format.

use modelfmt_core::author::{FileIndex, OpenSettings};
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Execution, Fetch, OpenFile, Report, TensorTable, VerifyLevel};

use crate::error::{Fault, Result};
use crate::index::{Index, IndexParser};

/// How a TOY file is opened.
pub type OpenOptions = modelfmt_core::OpenOptions<Index>;

/// An open TOY file: its [`Index`] and the source of its bytes.
pub type Reader<S> = modelfmt_core::Reader<OpenFile<Index, S>>;

/// An open TOY file over bytes that arrive later, such as from an object store.
pub type AsyncReader<S> = modelfmt_core::AsyncReader<OpenFile<Index, S>>;

impl FileIndex for Index {
    type Fault = Fault;
    type Parser = IndexParser;
    type Metadata<'a> = ();

    fn parser(file_len: u64, settings: &OpenSettings) -> IndexParser {
        IndexParser::new(file_len, settings.limits_ref().clone())
    }

    fn file_len(&self) -> u64 {
        self.file_len()
    }

    fn tensors(&self) -> &TensorTable {
        self.tensors()
    }

    fn version_text(&self) -> Option<String> {
        None
    }

    async fn metadata<'a, S: Fetch>(&'a self, _: &S) -> Result<()> {
        Ok(())
    }

    async fn metadata_tree<S: Fetch>(&self, _: &S) -> Result<Value> {
        Ok(Value::Object(Object::new()))
    }

    fn details(&self) -> Object {
        Object::new()
    }

    async fn verify<S: Fetch>(&self, _: &S, level: VerifyLevel, _: &Execution<'_>) -> Report {
        crate::verify::verify(self, level)
    }
}
