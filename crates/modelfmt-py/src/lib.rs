//! What the Python package `modelfmt` has of Rust: the module `modelfmt._modelfmt`. The package's own Python gives it its shape.
//!
//! ```text
//! raw      memory that Python and others look into: buffers, maps, DLPack. The only `unsafe`
//! work     long work beside the interpreter: threads, Ctrl-C, progress
//! answers  levels, patterns, statistics: what is asked in words and answered in objects
//! errors   errors of the library as exceptions of the package
//! opening  keywords of opening: pins, keys
//! remote   models at URLs
//! sealing  keywords of sealing: who signs, who can open
//! signed   signatures beside files and within, and keys
//! model    an open model
//! options  keywords as options of the library
//! edit     metadata and names, changed without the values
//! files    whole files: convert, save, verify, inspect, diff
//! parts    conversions into sets, part by part
//! oinf     OINF from what a dataclass holds
//! ```

mod answers;
mod edit;
mod errors;
mod files;
mod model;
mod oinf;
mod opening;
mod options;
mod parts;
mod raw;
mod remote;
mod sealing;
mod signed;
mod work;

use std::ffi::OsString;
use std::process::ExitCode;

use pyo3::prelude::*;

/// Runs the program with these arguments, of which the first is its name, and returns its exit status.
#[pyfunction]
fn program(py: Python<'_>, args: Vec<OsString>) -> u8 {
    let code = py.detach(|| modelfmt_cli::run(args));
    // Rust keeps the number to itself.
    (0..=u8::MAX).find(|&status| ExitCode::from(status) == code).unwrap_or(1)
}

#[pymodule]
fn _modelfmt(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<raw::Memory>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<parts::Plan>()?;
    module.add_function(wrap_pyfunction!(program, module)?)?;
    module.add_function(wrap_pyfunction!(files::convert, module)?)?;
    module.add_function(wrap_pyfunction!(files::save, module)?)?;
    module.add_function(wrap_pyfunction!(files::decode, module)?)?;
    module.add_function(wrap_pyfunction!(files::verify, module)?)?;
    module.add_function(wrap_pyfunction!(files::diff, module)?)?;
    module.add_function(wrap_pyfunction!(files::formats, module)?)?;
    module.add_function(wrap_pyfunction!(files::format_of_name, module)?)?;
    module.add_function(wrap_pyfunction!(files::check, module)?)?;
    module.add_function(wrap_pyfunction!(files::outboard, module)?)?;
    module.add_function(wrap_pyfunction!(edit::edit, module)?)?;
    module.add_function(wrap_pyfunction!(edit::recover, module)?)?;
    module.add_function(wrap_pyfunction!(signed::sign, module)?)?;
    module.add_function(wrap_pyfunction!(signed::keygen, module)?)?;
    module.add_function(wrap_pyfunction!(oinf::write, module)?)?;
    module.add_function(wrap_pyfunction!(remote::abort_uploads, module)?)?;
    Ok(())
}
