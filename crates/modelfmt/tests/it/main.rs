//! The tests of this crate: a module for each subject, all in one program. Separate programs would each be
//! linked with everything that the crate needs.

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
mod shared_api;
mod split;
