//! Metadata that is a JSON object.

use crate::error::{CommonError, CommonFault, Part};
use crate::value::{JsonObject, ParseOptions};

/// Parses the text of the part `metadata`, a JSON object that begins at byte `at` of the file.
///
/// # Errors
/// [`CommonFault::Metadata`] if the text is not JSON, is not an object, or exceeds the options.
pub fn parse_object(text: &[u8], at: u64, options: ParseOptions) -> Result<JsonObject, CommonError> {
    JsonObject::parse(text, options).map_err(|(offset, why)| CommonError::Malformed {
        part: Part::new("metadata"),
        at: at.saturating_add(offset as u64),
        fault: CommonFault::Metadata(why),
    })
}
