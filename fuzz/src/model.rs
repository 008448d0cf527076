//! Makes models from the fuzzer's bytes, for targets that write.

use arbitrary::{Arbitrary, Result, Unstructured};
use modelfmt_core::DType;
use modelfmt_core::value::{Object, Value};
use modelfmt_write::TensorSpec;

/// Values are generated instead of taken from the input, so that small inputs can make large models, up to
/// this size.
const MAX_NBYTES: u64 = 1 << 16;
const MAX_TENSORS: usize = 6;

/// The model to write: any names, dtypes and shapes, even those that a format cannot hold.
pub(crate) struct Model {
    pub(crate) specs: Vec<TensorSpec<'static>>,
    pub(crate) values: Vec<Vec<u8>>,
    pub(crate) metadata: Object,
}

/// The names and dtypes that are generated: any, or those that a format can hold.
#[derive(Clone, Copy)]
pub(crate) struct Constraints {
    pub(crate) dtypes: &'static [DType],
    /// Only names of `[A-Za-z0-9._-]`, as OINF requires.
    pub(crate) plain_names: bool,
    pub(crate) declared: bool,
}

impl Constraints {
    /// Every dtype, every name, tensors without data: most models fit no format.
    pub(crate) const ANY: Self = Self { dtypes: DType::ALL, plain_names: false, declared: true };
}

impl Model {
    pub(crate) fn arbitrary(u: &mut Unstructured<'_>, constraints: Constraints) -> Result<Self> {
        let mut model = Self { specs: Vec::new(), values: Vec::new(), metadata: Object::new() };
        let mut budget = MAX_NBYTES;
        for number in 0..u.int_in_range(0..=MAX_TENSORS)? {
            let spec = spec(u, constraints, number)?;
            let nbytes = match spec.dtype {
                _ if !spec.has_data => 0,
                DType::Packed => spec.packed_nbytes,
                dtype => dtype.nbytes(&spec.shape).unwrap_or(0),
            };
            let Some(rest) = budget.checked_sub(nbytes) else { continue };
            budget = rest;
            model.values.push(values(u, nbytes)?);
            model.specs.push(spec);
        }
        for _ in 0..u.int_in_range(0..=4)? {
            model.metadata.insert(name(u, constraints, 0)?, value(u, 3)?);
        }
        Ok(model)
    }
}

fn spec(u: &mut Unstructured<'_>, constraints: Constraints, number: usize) -> Result<TensorSpec<'static>> {
    let name = name(u, constraints, number)?;
    let dtype = *u.choose(constraints.dtypes)?;
    let rank = u.int_in_range(0..=4)?;
    let mut shape = (0..rank).map(|_| dim(u)).collect::<Result<Vec<u64>>>()?;
    if dtype == DType::Packed {
        return Ok(TensorSpec::packed(name, shape, u.int_in_range(0..=300)?));
    }
    let whole_blocks = dtype.block().map(|block| u64::from(block.elements)).filter(|&elements| elements > 1);
    if let (Some(elements), true) = (whole_blocks, u.ratio(7, 8)?) {
        shape.push(elements);
    }
    if constraints.declared && u.ratio(1, 8)? {
        return Ok(TensorSpec::declared(name, dtype, shape));
    }
    Ok(TensorSpec::new(name, dtype, shape))
}

/// Returns a small dimension, and now and then a vast one: products must be checked, not trusted.
fn dim(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match u8::arbitrary(u)? {
        255 => 1 << u.int_in_range(0..=63)?,
        byte => u64::from(byte % 9),
    })
}

fn name(u: &mut Unstructured<'_>, constraints: Constraints, number: usize) -> Result<String> {
    if u.ratio(1, 2)? {
        return Ok(format!("t.{number}"));
    }
    if !constraints.plain_names {
        return String::arbitrary(u);
    }
    let len = u.int_in_range(1..=20)?;
    let plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    (0..len).map(|_| Ok(char::from(*u.choose(plain)?))).collect()
}

fn values(u: &mut Unstructured<'_>, nbytes: u64) -> Result<Vec<u8>> {
    let (seed, step) = (u8::arbitrary(u)?, u8::arbitrary(u)?);
    Ok((0..nbytes).map(|i| seed.wrapping_add((i as u8).wrapping_mul(step))).collect())
}

pub(crate) fn value(u: &mut Unstructured<'_>, depth: usize) -> Result<Value> {
    Ok(match u.int_in_range(0..=if depth == 0 { 4 } else { 6 })? {
        0 => Value::Null,
        1 => bool::arbitrary(u)?.into(),
        2 => i64::arbitrary(u)?.into(),
        3 => Value::Float(f64::from(i32::arbitrary(u)?) / 8.0),
        4 => String::arbitrary(u)?.into(),
        5 => {
            Value::from((0..u.int_in_range(0..=3)?).map(|_| value(u, depth - 1)).collect::<Result<Vec<_>>>()?)
        }
        _ => {
            let mut object = Object::new();
            for _ in 0..u.int_in_range(0..=3)? {
                object.insert(String::arbitrary(u)?, value(u, depth - 1)?);
            }
            Value::Object(object)
        }
    })
}
