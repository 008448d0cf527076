//! Opens OINF files: what [`modelfmt_core::Reader`] asks of the format.

use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Execution, Fetch, Report, TensorTable, VerifyLevel, author::FileIndex};

use crate::error::{Fault, Result};
use crate::index::Index;
use crate::metadata::Metadata;
use crate::parser::IndexParser;

modelfmt_core::reader! {
    "OINF", Index, Result, Metadata<'_>;

    /// How an OINF file is opened.
    pub struct OpenOptions;

    /// An open OINF file: its [`Index`] and the source of its bytes.
    pub struct Reader<S>;

    /// An open OINF file over bytes that may have to be waited for, such as those of an object store.
    pub struct AsyncReader<S>;
}

impl FileIndex for Index {
    type Fault = Fault;
    type Parser = IndexParser;
    type Metadata<'a> = Metadata<'a>;

    fn parser(file_len: u64, options: &modelfmt_core::OpenOptions) -> IndexParser {
        IndexParser::new(file_len, options.limits_ref())
    }

    fn file_len(&self) -> u64 {
        self.file_len()
    }

    fn tensors(&self) -> &TensorTable {
        self.tensors()
    }

    fn version_text(&self) -> Option<String> {
        Some(crate::wire::VERSION.to_string())
    }

    async fn metadata<'a, S: Fetch>(&'a self, _: &S) -> Result<Metadata<'a>> {
        Ok(self.to_metadata())
    }

    async fn metadata_tree<S: Fetch>(&self, _: &S) -> Result<Value> {
        Ok(self.metadata().map(|(key, value)| (key, value.to_value())).collect::<Object>().into())
    }

    /// `sizevars`: name to value.
    fn details(&self) -> Object {
        let sizevars: Object = self.sizevars().iter().collect();
        Object::from_iter([("sizevars", sizevars)])
    }

    /// `structure` at every level, `padding`, `values` and `extents` at [`VerifyLevel::Full`]. OINF has no checksums, so
    /// [`VerifyLevel::Control`] looks no deeper than [`VerifyLevel::Header`].
    async fn verify<S: Fetch>(&self, source: &S, level: VerifyLevel, work: &Execution<'_>) -> Report {
        crate::verify::verify(self, source, level, work).await
    }
}
