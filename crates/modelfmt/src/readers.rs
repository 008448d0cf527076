//! What is peculiar to a format: its own reader.

#[allow(unused_imports, reason = "with few formats switched on not both are needed")]
use modelfmt_core::source::{AnyFiles, AnySource};

use crate::model::Model;

macro_rules! as_reader {
    ($($feature:literal $method:ident $reader:ty, $what:literal;)*) => {
        /// What is peculiar to a format.
        impl Model {
            $(
                #[doc = concat!("The reader of ", $what, ", if this is one.")]
                #[cfg(feature = $feature)]
                #[must_use]
                pub fn $method(&self) -> Option<&$reader> {
                    self.opened.as_any().downcast_ref()
                }
            )*
        }
    };
}
as_reader! {
    "aero" as_aero aero::Reader<AnySource>, "an AERO file";
    "aero" as_aeroset aero::SetReader<AnyFiles>, "an AEROSET";
    "mag" as_mag mag::Reader<AnySource>, "a MAG file";
    "oinf" as_oinf oinf::Reader<AnySource>, "an OINF file";
    "safetensors" as_safetensors modelfmt_safetensors::Reader<AnySource>, "a safetensors file";
    "safetensors" as_safetensors_sharded modelfmt_safetensors::SetReader<AnyFiles>, "a sharded safetensors model";
    "apr2" as_apr2 apr2::Reader<AnySource>, "an APR2 or APR1 file";
    "apr2" as_apr2_sharded apr2::SetReader<AnyFiles>, "a sharded APR2 model";
    "gguf" as_gguf modelfmt_gguf::Reader<AnySource>, "a GGUF file";
}
