//! Opens checkpoints: implements the traits of modelfmt-core's readers for this format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::BTreeSet;
use std::sync::Arc;

use modelfmt_core::author::{FileIndex, OpenSettings};
use modelfmt_core::claims::{FileClaims, WantedRange};
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Bytes, Execution, Fetch, Location, OpenFile, Report, TensorTable, VerifyLevel};

use crate::error::{Fault, Result};
use crate::index::{Form, Index};
use crate::parser::{IndexParser, Root};

/// Options for opening a checkpoint. The limit `index_len` caps its pickle.
pub type OpenOptions = modelfmt_core::OpenOptions<Index>;

/// An open checkpoint: its [`Index`] and the source of its bytes.
pub type Reader<S> = modelfmt_core::Reader<OpenFile<Index, S>>;

/// An open checkpoint whose source is asynchronous, such as an object store.
pub type AsyncReader<S> = modelfmt_core::AsyncReader<OpenFile<Index, S>>;

impl Index {
    /// Parses the index from the bytes of a file, with the default options.
    ///
    /// # Errors
    /// If the bytes end early, break a rule of the format, or exceed a limit.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Self::parse_bytes(bytes)
    }

    /// Adds the protocol and the globals to the details. For a set, these become the highest protocol and the
    /// globals of all files.
    pub(crate) fn describe(&self, details: &mut Object) {
        let own = self.globals().iter().map(|global| format!("{}.{}", global.module, global.name));
        let known = details.get("globals").and_then(Value::as_array).into_iter().flat_map(|list| list.iter());
        let known = known.filter_map(|name| name.as_str().map(str::to_owned));
        let globals: BTreeSet<String> = known.chain(own).collect();
        let protocol = details.get("protocol").and_then(Value::as_u64).unwrap_or(0);
        details.insert("protocol", protocol.max(self.protocol().into()));
        details.insert("globals", globals.into_iter().collect::<Value>());
    }

    /// Returns the number of the record that holds the pickle, if the file is an archive.
    pub(crate) fn pickle(&self) -> Option<usize> {
        let is_pickle = |name: &str| name.ends_with("/data.pkl");
        let found = || self.arrays.records().position(|(name, _)| is_pickle(name));
        (self.form() == Form::Archive).then(found).flatten()
    }
}

impl FileIndex for Index {
    type Fault = Fault;
    type Parser = IndexParser;
    type Metadata<'a> = &'a Object;

    fn parser(file_len: u64, settings: &OpenSettings) -> IndexParser {
        let root = settings.extension::<Root>().map(|root| root.0.clone());
        IndexParser::new(file_len, settings.limits_ref().clone(), root)
    }

    fn file_len(&self) -> u64 {
        self.file_len()
    }

    fn tensors(&self) -> &TensorTable {
        self.tensors()
    }

    fn location(&self, position: usize) -> Option<Location> {
        self.arrays.location(position)
    }

    async fn read<'s, S: Fetch>(
        &self,
        source: &'s S,
        position: usize,
        _: Option<&Execution<'_>>,
    ) -> Result<Bytes<'s>> {
        self.arrays.read(source, position).await
    }

    async fn read_into<S: Fetch>(
        &self,
        source: &S,
        position: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()> {
        self.arrays.read_into(source, position, offset, out).await
    }

    async fn claims<S: Fetch>(
        index: &Arc<Self>,
        _: &S,
        wanted: &[WantedRange],
        claims: &mut FileClaims<'_>,
    ) -> Result<()> {
        crate::claims::claims(index, wanted, claims)
    }

    fn version_text(&self) -> Option<String> {
        self.version.clone()
    }

    async fn metadata<'a, S: Fetch>(&'a self, _: &S) -> Result<&'a Object> {
        Ok(self.metadata())
    }

    async fn metadata_tree<S: Fetch>(&self, _: &S) -> Result<Value> {
        Ok(Value::Object(self.metadata().clone()))
    }

    /// Returns the protocol of the pickle, and the globals that it names.
    fn details(&self) -> Object {
        let mut details = Object::new();
        self.describe(&mut details);
        details
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings().to_vec()
    }

    async fn verify<S: Fetch>(&self, source: &S, level: VerifyLevel, work: &Execution<'_>) -> Report {
        crate::verify::report(self, source, level, work).await
    }
}
