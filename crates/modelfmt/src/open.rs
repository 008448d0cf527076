//! Opens each format with its own reader. A new format is a line in each of the lists here.

use std::ops::Range;
use std::path::Path;

#[cfg(all(not(target_arch = "wasm32"), any(feature = "safetensors", feature = "apr2")))]
use modelfmt_core::ShardMap;
#[allow(unused_imports, reason = "with no format switched on nothing has a source")]
use modelfmt_core::Source;
use modelfmt_core::source::{AnyFiles, AnySource};
use modelfmt_core::{Container, Encoding, Extent, FileIndex};

use crate::error::{Error, Result};
use crate::format::Format;
use crate::model::{Model, OpenOptions};

/// A file or set, open, with the reader of its format.
pub(crate) enum Opened {
    #[cfg(feature = "aero")]
    Aero(aero::Reader<AnySource>),
    #[cfg(feature = "aero")]
    AeroSet(aero::SetReader<AnyFiles>),
    #[cfg(feature = "mag")]
    Mag(mag::Reader<AnySource>),
    #[cfg(feature = "oinf")]
    Oinf(oinf::Reader<AnySource>),
    #[cfg(feature = "safetensors")]
    Safetensors(modelfmt_safetensors::Reader<AnySource>),
    #[cfg(feature = "safetensors")]
    SafetensorsSharded(modelfmt_safetensors::SetReader<AnyFiles>),
    #[cfg(feature = "apr2")]
    Apr2(apr2::Reader<AnySource>),
    #[cfg(feature = "apr2")]
    Apr2Sharded(apr2::SetReader<AnyFiles>),
    #[cfg(feature = "gguf")]
    Gguf(modelfmt_gguf::Reader<AnySource>),
}

/// What there is to open.
pub(crate) struct OpenedSource<'a> {
    /// Its file, for errors.
    pub(crate) path: &'a Path,
    pub(crate) source: AnySource,
    /// The files beside it, for sets.
    pub(crate) files: Option<AnyFiles>,
    pub(crate) options: &'a OpenOptions,
}

impl Opened {
    /// Opens a source as the format that its content tells.
    pub(crate) fn open(format: Format, opened: OpenedSource<'_>) -> Result<Self> {
        let OpenedSource { path, source, files, options } = opened;
        match format {
            #[cfg(feature = "aero")]
            Format::Aero => {
                aero_options(options).open_source(source).map(Self::Aero).map_err(Error::in_file(path))
            }
            #[cfg(feature = "aero")]
            Format::AeroSet => {
                let files = need_files(path, files)?;
                let opened = aero::SetReader::from_source(&source, files, &aero_options(options));
                opened.map(Self::AeroSet).map_err(Error::in_file(path))
            }
            #[cfg(feature = "mag")]
            Format::Mag => {
                of_format(options).open_source(source).map(Self::Mag).map_err(Error::in_file(path))
            }
            #[cfg(feature = "oinf")]
            Format::Oinf => {
                of_format(options).open_source(source).map(Self::Oinf).map_err(Error::in_file(path))
            }
            #[cfg(feature = "safetensors")]
            Format::Safetensors => {
                of_format(options).open_source(source).map(Self::Safetensors).map_err(Error::in_file(path))
            }
            #[cfg(feature = "safetensors")]
            Format::SafetensorsSharded => {
                let files = need_files(path, files)?;
                let opened =
                    modelfmt_safetensors::SetReader::from_source(&source, files, &of_format(options));
                opened.map(Self::SafetensorsSharded).map_err(Error::in_file(path))
            }
            #[cfg(feature = "apr2")]
            Format::Apr2 | Format::Apr1 => {
                of_format(options).open_source(source).map(Self::Apr2).map_err(Error::in_file(path))
            }
            #[cfg(feature = "apr2")]
            Format::Apr2Sharded => {
                let files = need_files(path, files)?;
                let opened = apr2::SetReader::from_source(&source, files, &of_format(options));
                opened.map(Self::Apr2Sharded).map_err(Error::in_file(path))
            }
            #[cfg(feature = "gguf")]
            Format::Gguf => {
                of_format(options).open_source(source).map(Self::Gguf).map_err(Error::in_file(path))
            }
            // Formats that are switched off; `Model` asks before it comes here.
            #[allow(unreachable_patterns, reason = "with every format switched on there is no other")]
            _ => {
                let _ = (source, files, options);
                Err(Error::NotEnabled { path: path.to_owned(), format, feature: format.feature() })
            }
        }
    }

    pub(crate) fn container(&self) -> &(dyn Container + Send + Sync) {
        match *self {
            #[cfg(feature = "aero")]
            Self::Aero(ref reader) => reader,
            #[cfg(feature = "aero")]
            Self::AeroSet(ref reader) => reader,
            #[cfg(feature = "mag")]
            Self::Mag(ref reader) => reader,
            #[cfg(feature = "oinf")]
            Self::Oinf(ref reader) => reader,
            #[cfg(feature = "safetensors")]
            Self::Safetensors(ref reader) => reader,
            #[cfg(feature = "safetensors")]
            Self::SafetensorsSharded(ref reader) => reader,
            #[cfg(feature = "apr2")]
            Self::Apr2(ref reader) => reader,
            #[cfg(feature = "apr2")]
            Self::Apr2Sharded(ref reader) => reader,
            #[cfg(feature = "gguf")]
            Self::Gguf(ref reader) => reader,
        }
    }
}

impl Opened {
    /// Bytes of a tensor's values without a copy, if the file is in memory and they stand in it as they are, and where they
    /// begin in it.
    pub(crate) fn borrow(&self, position: usize, range: Range<u64>) -> Option<(u64, &[u8])> {
        let file = self.memory()?;
        let location = self.container().location(position).ok()?;
        let is_raw = location.encoding == Encoding::Raw && location.file.is_none();
        let values = Extent::new(location.offset?, location.stored_nbytes, file.len() as u64).ok()?;
        let part = values.part(range.start, range.end.checked_sub(range.start)?).ok().filter(|_| is_raw)?;
        let bytes = file.get(usize::try_from(part.offset()).ok()?..usize::try_from(part.end()).ok()?)?;
        Some((part.offset(), bytes))
    }

    /// The files of a set beside its index, as the index names them; none of a single file.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn file_paths(&self) -> Vec<String> {
        #[cfg(any(feature = "safetensors", feature = "apr2"))]
        fn of<M: ShardMap>(map: &M) -> Vec<String> {
            (0..map.shard_count()).filter_map(|number| map.path(number)).map(str::to_owned).collect()
        }
        match self {
            #[cfg(feature = "aero")]
            Self::AeroSet(set) => {
                let parts = set.set().parts().iter().map(|part| &part.file);
                parts.chain([set.set().global_tidx()]).map(|file| file.path.clone()).collect()
            }
            #[cfg(feature = "safetensors")]
            Self::SafetensorsSharded(set) => of(&**set.index()),
            #[cfg(feature = "apr2")]
            Self::Apr2Sharded(set) => of(&**set.index()),
            #[allow(unreachable_patterns, reason = "with few formats switched on there is no other")]
            _ => Vec::new(),
        }
    }

    /// All bytes of a single file, if they are in memory.
    fn memory(&self) -> Option<&[u8]> {
        match self {
            #[cfg(feature = "aero")]
            Self::Aero(reader) => reader.source().as_slice(),
            #[cfg(feature = "mag")]
            Self::Mag(reader) => reader.source().as_slice(),
            #[cfg(feature = "oinf")]
            Self::Oinf(reader) => reader.source().as_slice(),
            #[cfg(feature = "safetensors")]
            Self::Safetensors(reader) => reader.source().as_slice(),
            #[cfg(feature = "apr2")]
            Self::Apr2(reader) => reader.source().as_slice(),
            #[cfg(feature = "gguf")]
            Self::Gguf(reader) => reader.source().as_slice(),
            #[allow(unreachable_patterns, reason = "with one format switched on there is no other")]
            _ => None,
        }
    }
}

/// The options of a format's own reader; its own default limits, unless the caller has chosen others.
#[allow(dead_code, reason = "with no format switched on nothing is opened")]
fn of_format<I: FileIndex>(options: &OpenOptions) -> modelfmt_core::OpenOptions<I> {
    let own = modelfmt_core::OpenOptions::new().ignore_checksum(options.ignore_checksum);
    match &options.limits {
        Some(limits) => own.limits(limits.clone()),
        None => own,
    }
}

#[cfg(feature = "aero")]
fn aero_options(options: &OpenOptions) -> aero::OpenOptions {
    options
        .limits
        .as_ref()
        .map_or_else(aero::OpenOptions::new, |limits| aero::OpenOptions::new().limits(limits.clone()))
}

/// The files beside an index, without which there is no set.
#[cfg(any(feature = "safetensors", feature = "aero", feature = "apr2"))]
fn need_files(path: &Path, files: Option<AnyFiles>) -> Result<AnyFiles> {
    let hint = "it is the index of a set, whose other files are beside it; open it by its path (or give the files to open_source)";
    files.ok_or_else(|| Error::UnknownFormat { path: path.to_owned(), hint })
}

macro_rules! as_reader {
    ($($feature:literal $method:ident $variant:ident $reader:ty, $what:literal;)*) => {
        /// What is peculiar to a format.
        impl Model {
            $(
                #[doc = concat!("The reader of ", $what, ", if this is one.")]
                #[cfg(feature = $feature)]
                #[must_use]
                pub const fn $method(&self) -> Option<&$reader> {
                    #[allow(unreachable_patterns, reason = "with one format switched on there is no other")]
                    match &self.opened {
                        Opened::$variant(reader) => Some(reader),
                        _ => None,
                    }
                }
            )*
        }
    };
}
as_reader! {
    "aero" as_aero Aero aero::Reader<AnySource>, "an AERO file";
    "aero" as_aeroset AeroSet aero::SetReader<AnyFiles>, "an AEROSET";
    "mag" as_mag Mag mag::Reader<AnySource>, "a MAG file";
    "oinf" as_oinf Oinf oinf::Reader<AnySource>, "an OINF file";
    "safetensors" as_safetensors Safetensors modelfmt_safetensors::Reader<AnySource>, "a safetensors file";
    "safetensors" as_safetensors_sharded SafetensorsSharded modelfmt_safetensors::SetReader<AnyFiles>, "a sharded safetensors model";
    "apr2" as_apr2 Apr2 apr2::Reader<AnySource>, "an APR2 or APR1 file";
    "apr2" as_apr2_sharded Apr2Sharded apr2::SetReader<AnyFiles>, "a sharded APR2 model";
    "gguf" as_gguf Gguf modelfmt_gguf::Reader<AnySource>, "a GGUF file";
}
