//! The Rust half of the Python package `modelfmt`: the module `modelfmt._modelfmt`, which is private. The
//! Python half calls it.
//!
//! ```text
//! raw      memory that Python and others read and write: buffers, maps, DLPack. The only `unsafe`
//! work     long work beside the interpreter: threads, Ctrl-C, progress
//! answers  levels, patterns and statistics, between Python's objects and the library's
//! errors   the library's errors as exceptions of the package
//! opening  keywords of opening: pins, keys
//! remote   models at URLs
//! sealing  keywords of sealing: the keys that sign, and those that open
//! signed   signatures beside files and inside them, and keys
//! maps     files that are mapped
//! values   values of tensors, read into memory
//! numbers  values as other types
//! model    an open model
//! storage  files without a name: temporary ones, and those that are open already
//! options  keywords as options of the library
//! edit     metadata and names, changed without the values
//! fits     what a format cannot hold
//! fetch    files from URLs: fetched, resumed, repaired
//! files    whole files: convert, save, verify, inspect, diff
//! prove    whether a model is made of another
//! report   pages about models
//! parts    conversions into sets, part by part, by independent processes
//! oinf     OINF files from the fields of a dataclass
//! ```

mod answers;
mod edit;
mod errors;
mod fetch;
mod files;
mod fits;
mod maps;
mod model;
mod numbers;
mod oinf;
mod opening;
mod options;
mod parts;
mod policy;
mod prove;
mod raw;
mod remote;
mod report;
mod sealing;
mod signed;
mod storage;
mod values;
mod work;

use std::ffi::OsString;
use std::process::ExitCode;

use pyo3::prelude::*;

/// Runs the program with these arguments, of which the first is its name, and returns its exit status.
#[pyfunction]
fn program(py: Python<'_>, args: Vec<OsString>) -> u8 {
    let code = py.detach(|| modelfmt_cli::run(args));
    // `ExitCode` does not expose its number.
    (0..=u8::MAX).find(|&status| ExitCode::from(status) == code).unwrap_or(1)
}

#[pymodule]
fn _modelfmt(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<raw::Memory>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<parts::Plan>()?;
    module.add_class::<storage::Storage>()?;
    module.add_function(wrap_pyfunction!(program, module)?)?;
    module.add_function(wrap_pyfunction!(files::convert, module)?)?;
    module.add_function(wrap_pyfunction!(files::save, module)?)?;
    module.add_function(wrap_pyfunction!(files::refuse_existing, module)?)?;
    module.add_function(wrap_pyfunction!(fits::unfit, module)?)?;
    module.add_function(wrap_pyfunction!(numbers::decode, module)?)?;
    module.add_function(wrap_pyfunction!(numbers::cast, module)?)?;
    module.add_function(wrap_pyfunction!(numbers::cast_of, module)?)?;
    module.add_function(wrap_pyfunction!(numbers::block, module)?)?;
    module.add_function(wrap_pyfunction!(files::verify, module)?)?;
    module.add_function(wrap_pyfunction!(files::diff, module)?)?;
    module.add_function(wrap_pyfunction!(prove::prove, module)?)?;
    module.add_function(wrap_pyfunction!(report::report, module)?)?;
    module.add_function(wrap_pyfunction!(files::formats, module)?)?;
    module.add_function(wrap_pyfunction!(files::convert_options, module)?)?;
    module.add_function(wrap_pyfunction!(files::format_of_name, module)?)?;
    module.add_function(wrap_pyfunction!(files::check, module)?)?;
    module.add_function(wrap_pyfunction!(files::outboard, module)?)?;
    module.add_function(wrap_pyfunction!(fetch::fetch, module)?)?;
    module.add_function(wrap_pyfunction!(edit::edit, module)?)?;
    module.add_function(wrap_pyfunction!(edit::recover, module)?)?;
    module.add_function(wrap_pyfunction!(signed::sign, module)?)?;
    module.add_function(wrap_pyfunction!(signed::keygen, module)?)?;
    module.add_function(wrap_pyfunction!(oinf::write, module)?)?;
    module.add_function(wrap_pyfunction!(remote::abort_uploads, module)?)?;
    Ok(())
}
