//! `modelfmt plan`

use std::io::Write;

use modelfmt::modelfmt_core::plan::{PlanOptions, ReadPlan, Request};
use modelfmt::wording::Printable;

use crate::args::Plan;
use crate::failure::Result;
use crate::json::EscapedJson;
use crate::streams;
use crate::units::{count, size};

pub(crate) fn run(args: &Plan) -> Result {
    let model = streams::open(&args.file, &args.open)?;
    let picks = model.picks(&args.tensors)?;
    let options = if streams::is_remote(&args.file)? { PlanOptions::remote() } else { PlanOptions::local() };
    let plan = model.plan(&picks, options)?;
    super::print(|out| {
        if args.json {
            serde_json::to_writer(EscapedJson(&mut *out), &plan).map_err(std::io::Error::from)?;
            return Ok(writeln!(out)?);
        }
        text(&plan, out)
    })
}

/// Writes a line for each request, and one with the totals.
fn text(plan: &ReadPlan, out: &mut dyn Write) -> Result {
    for Request { file, range } in plan.requests() {
        write!(out, "{}+{}", range.start, range.end - range.start)?;
        match plan.file(file) {
            Some(name) => writeln!(out, " {}", Printable(name))?,
            None => writeln!(out)?,
        }
    }
    let totals = plan.totals();
    let s = if totals.requests == 1 { "" } else { "s" };
    let (requests, read, overhead) = (count(totals.requests), size(totals.read), size(totals.overhead()));
    Ok(writeln!(out, "{requests} request{s}, {read}, {overhead} of them overhead")?)
}
