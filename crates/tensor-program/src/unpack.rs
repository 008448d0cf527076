//! Unpacks numbers of a few bits from bytes, and looks numbers up in a table.

use crate::packing::Packing;
use crate::program::Step;
use crate::{DType, Program, ProgramError};

impl Program {
    /// Unpacks numbers of a few bits from the bytes of each row, as `u8`. The last dimension becomes the
    /// number of numbers in a row.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if the dtype is not `u8`, [`ProgramError::WrongShape`] if the bytes of a
    /// row do not hold whole numbers.
    pub fn unpacked(self, packing: Packing) -> Result<Self, ProgramError> {
        const STEP: &str = "unpack";
        if self.dtype() != DType::U8 {
            return Err(ProgramError::WrongType { step: STEP, takes: "bytes (u8)", dtype: self.dtype() });
        }
        let mut shape = self.shape().to_vec();
        let bits = u64::from(packing.bits);
        let numbers =
            |bytes: u64| bytes.checked_mul(8).filter(|all| all.is_multiple_of(bits)).map(|all| all / bits);
        match shape.last_mut().and_then(|last| numbers(*last).map(|numbers| *last = numbers)) {
            // With four bytes for each number, positions still fit a `u64`.
            Some(()) if DType::F32.nbytes(&shape).is_some() => {}
            _ => return Err(self.wrong(STEP, format!("its rows are no whole numbers of {bits} bits"))),
        }
        Self::of(Step::Unpack { of: Box::new(self), packing }, DType::U8, shape)
    }

    /// Packs numbers of 4 bits two to a byte, the first in the low bits; [`unpacked`](Self::unpacked)
    /// reverses this. The last dimension becomes half as long. Of larger numbers, only the low bits are kept.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if the numbers are not `u8`, [`ProgramError::WrongShape`] if a row has an odd number of them.
    pub fn packed(self) -> Result<Self, ProgramError> {
        const STEP: &str = "pack";
        if self.dtype() != DType::U8 {
            return Err(ProgramError::WrongType { step: STEP, takes: "numbers (u8)", dtype: self.dtype() });
        }
        let mut shape = self.shape().to_vec();
        match shape.last_mut() {
            Some(last) if last.is_multiple_of(2) => *last /= 2,
            _ => return Err(self.wrong(STEP, "its rows are no whole bytes".to_owned())),
        }
        Self::of(Step::Pack(Box::new(self)), DType::U8, shape)
    }

    /// Keeps the numbers, but makes reading fail for a number larger than `most`.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if the numbers are not `u8`.
    pub fn at_most(self, most: u8) -> Result<Self, ProgramError> {
        if self.dtype() != DType::U8 {
            return Err(ProgramError::WrongType {
                step: "at most",
                takes: "numbers (u8)",
                dtype: self.dtype(),
            });
        }
        let shape = self.shape().to_vec();
        Self::of(Step::AtMost { of: Box::new(self), most }, DType::U8, shape)
    }

    /// Replaces each number by the element at that index of `table`, a vector of `f32` with an element for
    /// each possible number.
    ///
    /// # Errors
    /// [`ProgramError::WrongType`] if the numbers are not `u8` or the vector is not `f32`, [`ProgramError::WrongShape`] if the vector
    /// has another length.
    pub fn looked_up(self, table: Self) -> Result<Self, ProgramError> {
        const STEP: &str = "look up";
        if self.dtype() != DType::U8 {
            return Err(ProgramError::WrongType { step: STEP, takes: "numbers (u8)", dtype: self.dtype() });
        }
        table.computes(STEP)?;
        let count = match &self.step {
            Step::Unpack { packing, .. } => packing.count(),
            _ => 1 << 8,
        };
        if table.shape() != [count] {
            return Err(table.wrong(STEP, format!("a table of {count} elements is needed")));
        }
        let shape = self.shape().to_vec();
        if DType::F32.nbytes(&shape).is_none() {
            return Err(self.wrong(STEP, "it is too large as f32".to_owned()));
        }
        Self::of(Step::Lookup { of: Box::new(self), table: Box::new(table) }, DType::F32, shape)
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "this is test code")]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use super::*;
    use crate::Scaling;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 151 + at / 7 * 89 + 13) as u8).collect()
    }

    /// Reads a program in pieces of several lengths, which must all give the same values.
    fn read(program: &Program, input: &[u8]) -> Vec<u8> {
        let len = program.nbytes().unwrap() as usize;
        let mut source = |_: usize, at: u64, out: &mut [u8]| {
            out.copy_from_slice(&input[at as usize..][..out.len()]);
            Ok::<_, Infallible>(())
        };
        let mut whole = vec![0; len];
        program.read(0, &mut whole, &mut source).unwrap();
        for piece in [1, 3, 8, 100] {
            let mut pieces = vec![0; len];
            for (number, out) in pieces.chunks_mut(piece).enumerate() {
                program.read((number * piece) as u64, out, &mut source).unwrap();
            }
            assert!(pieces == whole, "{program}, in pieces of {piece}");
        }
        whole
    }

    #[test]
    fn numbers_of_all_widths_come_out() {
        let input = bytes(2 * 105);
        let bit = |at: usize| u32::from(input[at / 8]) >> (at % 8) & 1;
        for bits in 1..=8 {
            let packing = Packing::of_bits(bits as u32).unwrap();
            let program = Program::input(0, DType::U8, &[2, 105]).unpacked(packing).unwrap();
            assert_eq!(program.shape(), [2, 105 * 8 / bits as u64]);
            let count = 2 * 105 * 8 / bits;
            let number = |at: usize| (0..bits).map(|n| bit(at * bits + n) << n).sum::<u32>() as u8;
            let expected: Vec<u8> = (0..count).map(number).collect();
            assert_eq!(read(&program, &input), expected, "{bits} bits");
            let one_more = Program::input(0, DType::U8, &[2, 105]).unpacked(packing.add(1)).unwrap();
            let mask = u8::MAX >> (8 - bits);
            let expected: Vec<u8> = expected.iter().map(|n| n.wrapping_add(1) & mask).collect();
            assert_eq!(read(&one_more, &input), expected, "{bits} bits plus 1");
        }
        assert_eq!((Packing::of_bits(0), Packing::of_bits(9)), (None, None));
    }

    #[test]
    fn numbers_are_places_in_a_table() {
        let input = bytes(10);
        let table: Vec<f32> = (0..16).map(|n| n as f32 * 0.5 - 3.0).collect();
        let packing = Packing::of_bits(4).unwrap().high_first();
        let numbers = Program::input(0, DType::U8, &[10]).unpacked(packing).unwrap();
        let program = numbers.clone().looked_up(Program::constant(table.clone())).unwrap();
        let expected: Vec<u8> = input
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .flat_map(|number| table[usize::from(number)].to_le_bytes())
            .collect();
        assert_eq!(read(&program, &input), expected);
        assert_eq!(program.to_string(), "unpack 4 bits, high bits first, look up in 16 numbers");
        assert!(numbers.looked_up(Program::constant(vec![0.0; 15])).is_err());
        assert!(Program::input(0, DType::U8, &[3]).looked_up(Program::constant(table)).is_err());
    }

    #[test]
    fn numbers_are_packed_again() {
        let input = bytes(40);
        let packing = Packing::of_bits(4).unwrap();
        let unpacked = Program::input(0, DType::U8, &[5, 8]).unpacked(packing).unwrap();
        assert_eq!(read(&unpacked.clone().packed().unwrap(), &input), input);
        // Swaps the two numbers within each byte.
        let turned =
            unpacked.reshaped(&[5, 8, 2]).unwrap().sliced(2, 1, 1).unwrap().reshaped(&[20, 2]).unwrap();
        let expected: Vec<u8> = input.as_chunks::<2>().0.iter().map(|[a, b]| a >> 4 | b & 0xf0).collect();
        let program = turned.packed().unwrap();
        assert_eq!((read(&program, &input), program.shape()), (expected, &[20, 1][..]));
        assert!(Program::input(0, DType::U8, &[2, 3]).packed().is_err());
        let checked = Program::input(0, DType::U8, &[4]).at_most(9).unwrap();
        assert_eq!(read(&checked, &[1, 9, 0, 3]), [1, 9, 0, 3]);
        let mut source = |_: usize, _: u64, out: &mut [u8]| {
            out.fill(10);
            Ok::<_, Infallible>(())
        };
        let error = checked.read(0, &mut [0; 4], &mut source).unwrap_err();
        let crate::ReadError::Values(error) = error;
        assert_eq!(error.to_string(), "element 0 is 10, and at most 9 can be kept");
    }

    #[test]
    fn columns_say_which_scale_is_for_them() {
        let columns: Arc<[u32]> = [2, 0, 1, 1, 2, 0, 0].into();
        let input = bytes(5 * 7);
        let scales: Vec<f32> = (0..15).map(|n| n as f32 * 0.25 + 1.0).collect();
        let scaling = Scaling::by_column(5, 3, Arc::clone(&columns)).unwrap();
        let known = |values: &[f32]| Program::constant(values.to_vec()).reshaped(&[5, 3]).unwrap();
        let numbers = Program::input(0, DType::U8, &[5, 7]).cast(DType::F32).unwrap();
        let program = numbers.clone().minus(known(&scales), scaling.clone()).unwrap();
        let program = program.scaled(known(&scales), scaling.clone()).unwrap();
        let program = program
            .divided(Program::constant(vec![3.0]), Scaling::new(&[5, 7], &[1], None).unwrap())
            .unwrap();
        let expected: Vec<u8> = (0..35)
            .flat_map(|at| {
                let scale = scales[at / 7 * 3 + columns[at % 7] as usize];
                ((f32::from(input[at]) - scale) * scale / 3.0).to_le_bytes()
            })
            .collect();
        assert_eq!(read(&program, &input), expected);
        let text = "cast f32, subtract (15 numbers, reshape [5, 3]) by groups of columns, scale by (15 numbers, reshape [5, 3]) by groups of columns, divide by 1 numbers";
        assert_eq!(program.to_string(), text);
        assert!(
            Scaling::by_column(5, 2, Arc::clone(&columns))
                .unwrap_err()
                .contains("column 0 is in group 2 of 2")
        );
        assert!(Scaling::by_column(5, 8, columns).is_err());
        assert!(numbers.scaled(Program::constant(vec![1.0; 15]).reshaped(&[3, 5]).unwrap(), scaling).is_ok());
    }
}
