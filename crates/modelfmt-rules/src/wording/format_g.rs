//! Numbers in the format of C's `printf` with `%.6g`, which is used to list tensors as text.

use std::fmt;

/// Significant digits.
const DIGITS: usize = 6;

/// Displays a number like C's `%.6g`: six significant digits, no trailing zeros, an exponent below 1e-4 and
/// from 1e6 on, and `nan`, `inf`, `-inf`. A NaN has no sign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct G6(pub f64);

impl fmt::Display for G6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&text(self.0))
    }
}

fn text(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // The exponent is taken after rounding: 999999.5 is 1e+06.
    let scientific = format!("{number:.*e}", DIGITS - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // C 17, 7.21.6.1, conversion `g`: fixed notation if P > X >= -4.
    match usize::try_from(5 - exponent) {
        Ok(decimals) if exponent >= -4 => trimmed(&format!("{number:.decimals$}")).to_owned(),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs())
        }
    }
}

/// Returns the text without zeros at the end of its fraction, and without a bare point.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python's `'%.6g' % x` prints.
    const GOLDEN: &[(f64, &str)] = &[
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (10.0, "10"),
        (100.0, "100"),
        (0.1, "0.1"),
        (0.5, "0.5"),
        (0.0001, "0.0001"),
        (1e-05, "1e-05"),
        (0.00012345678, "0.000123457"),
        (9.9999949e-05, "9.99999e-05"),
        (9.9999951e-05, "0.0001"),
        (9.999995e-05, "0.0001"),
        (0.0001234565, "0.000123457"),
        (123456.0, "123456"),
        (1234567.0, "1.23457e+06"),
        (999999.0, "999999"),
        (999999.4, "999999"),
        (999999.5, "1e+06"),
        (999999.6, "1e+06"),
        (99999.95, "99999.9"),
        (99999.949, "99999.9"),
        (100000.5, "100000"),
        (100001.5, "100002"),
        (100002.5, "100002"),
        (1000005.0, "1e+06"),
        (1000015.0, "1.00002e+06"),
        (1234565.0, "1.23456e+06"),
        (1234575.0, "1.23458e+06"),
        (12345.65, "12345.6"),
        (0.1234565, "0.123456"),
        (2.5, "2.5"),
        (1.0000005, "1"),
        (1.000005, "1.00001"),
        (15000000000.0, "1.5e+10"),
        (1000000000000000.0, "1e+15"),
        (1e+16, "1e+16"),
        (1e+21, "1e+21"),
        (1e+22, "1e+22"),
        (1e+100, "1e+100"),
        (1e-100, "1e-100"),
        (1.7976931348623157e+308, "1.79769e+308"),
        (2.2250738585072014e-308, "2.22507e-308"),
        (5e-324, "4.94066e-324"),
        (1.5e-323, "1.4822e-323"),
        (1e-310, "1e-310"),
        (3.25159265358979, "3.25159"),
        (2.818281828, "2.81828"),
        (0.3333333333, "0.333333"),
        (16777216.0, "1.67772e+07"),
        (9007199254740992.0, "9.0072e+15"),
        (25.5, "25.5"),
        (127.408, "127.408"),
        (74.2236, "74.2236"),
        (0.0021, "0.0021"),
        (3.4028234663852886e+38, "3.40282e+38"),
        (1.401298464324817e-45, "1.4013e-45"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (123450.0, "123450"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (999999.0, "999999"),
        (9.999995, "10"),
        (9.9999949, "9.99999"),
        (0.015625, "0.015625"),
        (524288.5, "524288"),
        (524289.5, "524290"),
        (65504.0, "65504"),
        (5.960464477539063e-08, "5.96046e-08"),
        (2.7216092808335446e+276, "2.72161e+276"),
        (3.035766360112293e-65, "3.03577e-65"),
        (6.665830898196862e-279, "6.66583e-279"),
        (2.3558459513947972e+198, "2.35585e+198"),
        (1.2418970069620836e-250, "1.2419e-250"),
        (2.319469273766672e+51, "2.31947e+51"),
        (7.873531487934826e+252, "7.87353e+252"),
        (2.6878898238430084e-176, "2.68789e-176"),
        (1.086847153644306e-255, "1.08685e-255"),
        (7.572358053192185e-51, "7.57236e-51"),
        (2.6713290337373985e-160, "2.67133e-160"),
        (6.266356115726005e+31, "6.26636e+31"),
        (0.059110506078989156, "0.0591105"),
        (123.80196114964559, "123.802"),
        (0.0006306259157317371, "0.000630626"),
        (947.7089424570056, "947.709"),
        (585.5414226403868, "585.541"),
        (9.7625510559292e-07, "9.76255e-07"),
        (5.566648979370926e-07, "5.56665e-07"),
        (2.8960928633167627e-05, "2.89609e-05"),
        (5.406858855321425e-05, "5.40686e-05"),
        (308.48182410193436, "308.482"),
        (6820026.947612045, "6.82003e+06"),
        (5.816001636624663e-06, "5.816e-06"),
        (1878.7102678714352, "1878.71"),
        (5.477444657095578e-06, "5.47744e-06"),
        (5.643682931333867e-06, "5.64368e-06"),
        (205.95871281932654, "205.959"),
    ];

    #[test]
    fn prints_as_c_does() {
        for &(number, expected) in GOLDEN {
            assert_eq!(G6(number).to_string(), expected, "{number:e}");
            if number > 0.0 {
                assert_eq!(G6(-number).to_string(), format!("-{expected}"));
            }
        }
    }

    #[test]
    fn what_is_no_number_prints_as_c_does() {
        assert_eq!(G6(f64::NAN).to_string(), "nan");
        assert_eq!(G6(-f64::NAN).to_string(), "nan");
        assert_eq!(G6(f64::INFINITY).to_string(), "inf");
        assert_eq!(G6(f64::NEG_INFINITY).to_string(), "-inf");
    }

    #[test]
    fn width_applies_to_the_whole() {
        assert_eq!(format!("{:>8}|{:<6}|", G6(1.5), G6(f64::NAN)), "     1.5|nan   |");
    }
}
