use crate::DataType;

/// End of the name under which the numbers of a field's positions on a z-curve are known.
pub const ZCURVE_SUFFIX: &str = "_zcurve";

impl DataType {
    /// True for positions, and for arrays of them: the types whose values have numbers on a z-curve.
    pub fn has_positions(&self) -> bool {
        match self {
            DataType::Position => true,
            DataType::Array(element) => **element == DataType::Position,
            _ => false,
        }
    }

    /// True for positions, and for arrays of them, of any depth.
    pub fn has_nested_positions(&self) -> bool {
        match self {
            DataType::Position => true,
            DataType::Array(element) => element.has_nested_positions(),
            _ => false,
        }
    }
}

/// The number of a position on a z-curve: the bits of the longitude (even bits) and of the latitude (odd
/// bits), both in millionths of a degree.
pub fn zcurve(latitude: i32, longitude: i32) -> i64 {
    let spread = |part: i32| {
        let mut bits = u64::from(part.cast_unsigned());
        for (shift, mask) in [
            (16, 0x0000_ffff_0000_ffff),
            (8, 0x00ff_00ff_00ff_00ff),
            (4, 0x0f0f_0f0f_0f0f_0f0f),
            (2, 0x3333_3333_3333_3333),
            (1, 0x5555_5555_5555_5555),
        ] {
            bits = (bits | bits << shift) & mask;
        }
        bits
    };
    (spread(longitude) | spread(latitude) << 1).cast_signed()
}
