//! Access to the features of one format through its own reader.

#[allow(unused_imports, reason = "with few formats switched on not both are needed")]
use modelfmt_core::source::{BoxSource, SharedFiles};

#[cfg(feature = "apr2")]
use crate::apr2;
use crate::model::Model;

macro_rules! as_reader {
    ($($feature:literal $method:ident $reader:ty, $what:literal;)*) => {
        /// The readers of the formats.
        impl Model {
            $(
                #[doc = concat!("The reader of ", $what, ", if this is one.")]
                #[cfg(feature = $feature)]
                #[must_use]
                pub fn $method(&self) -> Option<&$reader> {
                    self.reader()
                }
            )*
        }
    };
}
as_reader! {
    "aero" as_aero aero::Reader<BoxSource>, "an AERO file";
    "aero" as_aeroset aero::SetReader<SharedFiles>, "an AEROSET";
    "mag" as_mag mag::Reader<BoxSource>, "a MAG file";
    "oinf" as_oinf oinf::Reader<BoxSource>, "an OINF file";
    "safetensors" as_safetensors modelfmt_safetensors::Reader<BoxSource>, "a safetensors file";
    "safetensors" as_safetensors_sharded modelfmt_safetensors::SetReader<SharedFiles>, "a sharded safetensors model";
    "apr2" as_apr2 apr2::Reader<BoxSource>, "an APR2 or APR1 file";
    "apr2" as_apr2_sharded apr2::SetReader<SharedFiles>, "a sharded APR2 model";
    "apr" as_apr apr::Reader<BoxSource>, "an APR file";
    "apr" as_aprn apr::v1::Reader<BoxSource>, "an APRN file";
    "gguf" as_gguf modelfmt_gguf::Reader<BoxSource>, "a GGUF file";
    "gguf" as_gguf_sharded modelfmt_gguf::SetReader<SharedFiles>, "a split GGUF model";
    "npy" as_npy modelfmt_npy::Reader<BoxSource>, "a .npy or .npz file";
    "pytorch" as_pytorch modelfmt_pytorch::Reader<BoxSource>, "a checkpoint of PyTorch";
    "pytorch" as_pytorch_sharded modelfmt_pytorch::SetReader<SharedFiles>, "a sharded checkpoint of PyTorch";
}
