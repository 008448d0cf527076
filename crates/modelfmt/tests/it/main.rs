//! The tests of this crate, a module for each subject, in one program: a program for each would be linked with all that the crate needs.

mod async_model;
mod check;
mod conformance;
mod convert;
mod diff;
mod drivers;
mod edit;
mod extract;
mod load;
mod load_async;
mod model;
mod outboard_oracle;
mod page_options;
mod pins;
#[cfg(feature = "seal")]
mod robustness;
mod set_drivers;
mod split;
mod words;
