//! Tensors that are ready to be extracted: everything is selected and checked, and nothing is written yet.

use std::path::PathBuf;

use modelfmt_core::{AnyError, CommonFault, Execution, Part, author::Extent};
use modelfmt_write::{FillError, Region, Segment, Sink};

use super::{ExtractAs, ExtractOptions, Extracted};
use crate::convert::tensor_converter::TensorConverter;
use crate::convert::values::Values;
use crate::convert::{Clipped, ConvertOptions, TypeRule};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::job::tensors::OutputTensors;
use modelfmt_model::model::Model;
use modelfmt_rules::wording::{Note, Remedy};

/// The tensors in their converted form.
pub(super) struct Prepared<'a> {
    pub(super) model: &'a Model,
    pub(super) entries: Vec<Entry<'a>>,
    tensors: OutputTensors,
    notes: Vec<Note>,
}

/// A tensor.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    /// The bytes before the values.
    pub(super) header: Vec<u8>,
    /// The length of the values in bytes.
    nbytes: u64,
}

impl Entry<'_> {
    /// Returns the length of the header and the values in bytes.
    pub(super) fn len(&self) -> u64 {
        self.nbytes.saturating_add(self.header.len() as u64)
    }
}

impl<'a> Prepared<'a> {
    pub(super) fn new(
        model: &'a Model,
        positions: &[usize],
        kind: ExtractAs,
        options: &ExtractOptions,
    ) -> Result<Self> {
        let mut conversion = ConvertOptions::default();
        conversion.types.rules.extend(options.dequantize.map(TypeRule::dequantize));
        conversion.types.rules.extend(options.cast.map(TypeRule::cast));
        conversion.types.scales.clone_from(&options.scales);
        let mut converter = TensorConverter::new(model, &conversion)?;
        let mut prepared = Self {
            model,
            entries: Vec::with_capacity(positions.len()),
            tensors: OutputTensors::default(),
            notes: Vec::new(),
        };
        for &position in positions {
            prepared.add(position, kind, &mut converter, positions.len() > 1)?;
        }
        converter.check()?;
        Ok(prepared)
    }

    fn add(
        &mut self,
        position: usize,
        kind: ExtractAs,
        converter: &mut TensorConverter<'_>,
        is_one_of_several: bool,
    ) -> Result<()> {
        let model = self.model;
        let info = model.info(position)?;
        let refused = |why: String, remedy: Option<Remedy>| Error::NotExtractable {
            path: model.path().to_owned(),
            name: info.name.to_owned(),
            why,
            remedy,
        };
        if !info.has_data {
            return Err(refused("it is declared without data".to_owned(), None));
        }
        let converted = converter.convert(position, is_one_of_several)?;
        let converted =
            converted.map_err(|unsupported| refused(unsupported.why.to_string(), unsupported.remedy))?;
        let header = match kind {
            ExtractAs::Bin => Vec::new(),
            #[cfg(feature = "extract-npy")]
            ExtractAs::Npy => {
                let alone = if is_one_of_several { " it alone" } else { "" };
                if modelfmt_npy::type_name(converted.dtype).is_none() {
                    let why = format!("numpy has no type {}; extract{alone} to .bin", converted.dtype);
                    return Err(refused(why, super::npy::remedy(converted.dtype)));
                }
                modelfmt_npy::header(converted.dtype, info.shape).ok_or_else(|| {
                    let why = format!(
                        "numpy has no array of {} dimensions; extract{alone} to .bin",
                        info.shape.len()
                    );
                    refused(why, None)
                })?
            }
        };
        // The shape does not show the length if rows are padded to whole blocks.
        let own = if converted.dtype == info.dtype {
            Some(info.nbytes)
        } else {
            converted.dtype.nbytes(info.shape)
        };
        self.entries.push(Entry { name: info.name, header, nbytes: own.unwrap_or_default() });
        let scalings = self.tensors.scalings.len();
        let items = converted.tensors.items.into_iter();
        self.tensors.items.extend(items.map(|mut item| {
            item.scaling = item.scaling.map(|number| number + scalings);
            item
        }));
        self.tensors.scalings.extend(converted.tensors.scalings);
        for note in converted.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        Ok(())
    }

    /// Returns the values. They are checked while they are read.
    pub(super) fn values(&self, options: &ExtractOptions) -> Result<Values<'_>> {
        Values::new(self.model, &self.tensors, !options.no_verify)
    }

    /// Writes a tensor at the offset `begin`. Calls `look` for its header and for each piece of its values,
    /// and `take` with the results in order.
    pub(super) fn write<T: Send>(
        &self,
        number: usize,
        values: &Values<'_>,
        (sink, begin): (&dyn Sink, u64),
        work: &Execution<'_>,
        (look, mut take): (impl Fn(&[u8]) -> T + Sync, impl FnMut(T) + Send),
    ) -> Result<()> {
        let (model, Some(entry)) = (self.model, self.entries.get(number)) else { return Ok(()) };
        let write = |source| Error::Write { path: PathBuf::from(sink.name()), source };
        sink.write_at(begin, &entry.header).map_err(write)?;
        take(look(&entry.header));
        let begin = begin.saturating_add(entry.header.len() as u64);
        let extent = Extent::new(begin, entry.nbytes, u64::MAX).map_err(|fault| no_room(model, fault))?;
        let segments = [Segment { tensor: number, extent }];
        let region = Region { extent, fill: 0, segments: &segments };
        let done = region.write(values, sink, work, |_, bytes| look(bytes), take);
        done.map_err(|error| match (values.failure(), error) {
            (Some(reading), _) => reading,
            (None, FillError::Write { source, .. }) => write(source),
            (None, FillError::Cancelled) => model.failed(AnyError::Cancelled),
            (None, FillError::Data { source, .. }) => {
                Error::Values { path: model.path().to_owned(), tensor: entry.name.to_owned(), source }
            }
        })
    }

    /// Writes the first tensor only.
    pub(super) fn write_first(
        self,
        sink: &dyn Sink,
        options: &ExtractOptions,
        work: &Execution<'_>,
    ) -> Result<Extracted> {
        let values = self.values(options)?;
        self.write(0, &values, (sink, 0), work, (|_: &[u8]| (), drop))?;
        values.finish(work)?;
        let nbytes = self.entries.first().map_or(0, Entry::len);
        Ok(self.extracted(&values, nbytes))
    }

    /// Returns the result, after everything is written and checked.
    pub(super) fn extracted(&self, values: &Values<'_>, nbytes: u64) -> Extracted {
        let clipped = values.clipped(|number| self.entries.get(number).map_or("", |entry| entry.name));
        Extracted {
            tensors: self.entries.len(),
            nbytes,
            clipped: (!clipped.is_empty()).then(|| Clipped::lines(&clipped).join("; ")),
            notes: self.notes.iter().cloned().chain(values.notes().iter().cloned().map(Note::from)).collect(),
        }
    }
}

fn no_room(model: &Model, fault: CommonFault) -> Error {
    let basic = modelfmt_core::CommonError::Malformed { part: Part::new("output"), at: 0, fault };
    model.failed(modelfmt_core::Error::<CommonFault>::from(basic))
}
