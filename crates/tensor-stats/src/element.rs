//! The element types, with the operations that the passes need.

use half::{bf16, f16};

/// One value of a tensor: a number with an order-preserving integer key.
///
/// Keys and bits are in the low `WIDTH` bits of a `u64`. Bits with the same sign bit and the same high bits
/// have keys with the same high bits. So a table can count raw bits and be read in the order of keys.
pub(super) trait Element: bytemuck::Pod + PartialOrd + Send + Sync {
    /// The number of bits of an element.
    const WIDTH: u32;
    /// Whether the type has NaN and infinities.
    const FLOAT: bool;
    /// The type in which the lower edge of a bin is compared.
    type Edge: Copy + Send + Sync;

    fn to_f64(self) -> f64;
    /// Returns the value if it is an integer.
    fn exact(self) -> Option<i128>;
    fn is_finite(self) -> bool;
    fn bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
    /// Returns the element in this machine's byte order, given that its little-endian bytes were read in that
    /// order.
    fn swapped(self) -> Self;
    /// Checks whether `bits & mask == wanted`, in the type's own width.
    fn matches(self, mask: u64, wanted: u64) -> bool;
    /// Returns 16 of the bits (or all, if there are fewer) from `shift` on.
    fn digit(self, shift: u32) -> u16;
    fn edge(edge: f64) -> Self::Edge;
    /// Checks whether the value is equal to or above the edge.
    fn reaches(self, edge: Self::Edge) -> bool;
    /// Returns the order-preserving key of these bits; −0 is below +0.
    fn key(bits: u64) -> u64;
    fn from_key(key: u64) -> Self;
}

/// The methods that all types share. The casts are between integers of which only the low bits are wanted.
macro_rules! bits {
    ($type:ident, $bits:ident) => {
        const WIDTH: u32 = $bits::BITS;

        fn bits(self) -> u64 {
            u64::from(bytemuck::cast::<$type, $bits>(self))
        }

        #[allow(clippy::cast_possible_truncation)]
        fn from_bits(bits: u64) -> Self {
            bytemuck::cast::<$bits, $type>(bits as $bits)
        }

        fn swapped(self) -> Self {
            bytemuck::cast::<$bits, $type>($bits::from_le(bytemuck::cast::<$type, $bits>(self)))
        }

        #[allow(clippy::cast_possible_truncation)]
        fn matches(self, mask: u64, wanted: u64) -> bool {
            bytemuck::cast::<$type, $bits>(self) & (mask as $bits) == wanted as $bits
        }

        #[allow(clippy::cast_possible_truncation, clippy::cast_lossless)]
        fn digit(self, shift: u32) -> u16 {
            (bytemuck::cast::<$type, $bits>(self) >> shift) as u16
        }
    };
}

macro_rules! integer {
    ($type:ident, $bits:ident, $sign:expr) => {
        impl Element for $type {
            bits!($type, $bits);
            const FLOAT: bool = false;
            type Edge = f64;

            #[allow(clippy::cast_lossless)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            fn exact(self) -> Option<i128> {
                Some(i128::from(self))
            }

            fn is_finite(self) -> bool {
                true
            }

            fn edge(edge: f64) -> f64 {
                edge
            }

            fn reaches(self, edge: f64) -> bool {
                self.to_f64() >= edge
            }

            fn key(bits: u64) -> u64 {
                bits ^ $sign
            }

            fn from_key(key: u64) -> Self {
                <Self as Element>::from_bits(key ^ $sign)
            }
        }
    };
}

integer!(i8, u8, 1 << 7);
integer!(u8, u8, 0);
integer!(i16, u16, 1 << 15);
integer!(u16, u16, 0);
integer!(i32, u32, 1 << 31);
integer!(u32, u32, 0);
integer!(i64, u64, 1 << 63);
integer!(u64, u64, 0);

macro_rules! float {
    ($type:ident, $bits:ident, $edge:ident, $to_edge:expr, $self_to_edge:expr) => {
        impl Element for $type {
            bits!($type, $bits);
            const FLOAT: bool = true;
            type Edge = $edge;

            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            fn exact(self) -> Option<i128> {
                None
            }

            fn is_finite(self) -> bool {
                <$type>::is_finite(self)
            }

            fn edge(edge: f64) -> $edge {
                $to_edge(edge)
            }

            fn reaches(self, edge: $edge) -> bool {
                $self_to_edge(self) >= edge
            }

            // Negative numbers descend as their bits ascend, so all their bits are inverted. For other
            // numbers, only the sign bit is inverted.
            fn key(bits: u64) -> u64 {
                let sign = 1 << (Self::WIDTH - 1);
                let all = u64::MAX >> (64 - Self::WIDTH);
                if bits & sign == 0 { bits | sign } else { bits ^ all }
            }

            fn from_key(key: u64) -> Self {
                let sign = 1 << (Self::WIDTH - 1);
                let all = u64::MAX >> (64 - Self::WIDTH);
                <Self as Element>::from_bits(if key & sign == 0 { key ^ all } else { key ^ sign })
            }
        }
    };
}

float!(f16, u16, f64, std::convert::identity, f64::from);
float!(bf16, u16, f64, std::convert::identity, f64::from);
float!(f32, u32, f32, round_up, std::convert::identity);
float!(f64, u64, f64, std::convert::identity, std::convert::identity);

/// Returns the smallest `f32` that is not below `edge`. An `f32` reaches the result exactly if it reaches
/// `edge`.
#[allow(clippy::cast_possible_truncation)]
fn round_up(edge: f64) -> f32 {
    let near = edge as f32;
    if f64::from(near) < edge { near.next_up() } else { near }
}
