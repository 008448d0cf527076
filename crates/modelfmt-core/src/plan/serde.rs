//! Serializes a plan as a JSON object, which `modelfmt plan --json` prints.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{ReadPlan, Request};

impl Serialize for ReadPlan {
    /// Writes an object with `requests`, `bytes` (all that are read), `overhead` (those that are not wanted),
    /// and each request under `ranges`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let totals = self.totals();
        let mut object = serializer.serialize_struct("ReadPlan", 4)?;
        object.serialize_field("requests", &totals.requests)?;
        object.serialize_field("bytes", &totals.read)?;
        object.serialize_field("overhead", &totals.overhead())?;
        object.serialize_field("ranges", &Ranges(self))?;
        object.end()
    }
}

/// Serializes the requests one after the other, because there can be many more of them than a plan has ranges.
struct Ranges<'a>(&'a ReadPlan);

impl Serialize for Ranges<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.requests().map(|request| Range { plan: self.0, request }))
    }
}

struct Range<'a> {
    plan: &'a ReadPlan,
    request: Request,
}

impl Serialize for Range<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Request { file, range } = &self.request;
        let mut object = serializer.serialize_struct("Range", 3)?;
        object.serialize_field("file", &self.plan.file(*file))?;
        object.serialize_field("offset", &range.start)?;
        object.serialize_field("length", &(range.end - range.start))?;
        object.end()
    }
}
