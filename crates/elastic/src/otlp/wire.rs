//! Protobuf on the wire: a reader that copies nothing, and the few fields that answers have.
//!
//! A message is visited where it lies, so that a hostile body takes no more memory than its bytes. A decoder
//! that makes a tree of structures first would take a hundred times as much for empty records.

use crate::Error;

/// Value of a field, by its wire type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum WireValue<'b> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'b [u8]),
}

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WireField<'b> {
    pub(crate) number: u32,
    pub(crate) value: WireValue<'b>,
}

/// Reader of the fields of one message.
pub(crate) struct ProtobufReader<'b> {
    rest: &'b [u8],
}

impl<'b> ProtobufReader<'b> {
    /// Creates the reader of a message.
    pub(crate) fn new(message: &'b [u8]) -> Self {
        ProtobufReader { rest: message }
    }

    /// Next field; `None` at the end of the message.
    ///
    /// # Errors
    /// The message ends within a field, or has a field that Protobuf does not allow.
    pub(crate) fn next_field(&mut self) -> Result<Option<WireField<'b>>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let Some(number) = number else {
            return Err(Error::Parsing(format!("the Protobuf tag {tag} has no valid field number")));
        };
        let value = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(u64::from_le_bytes(*self.chunk::<8>()?)),
            2 => {
                let length = self.varint()?;
                let rest = self.rest.len();
                let Some(length) = usize::try_from(length).ok().filter(|length| *length <= rest) else {
                    return Err(Error::Parsing(format!(
                        "Protobuf field {number} has a length of {length} bytes, and {} are left",
                        self.rest.len()
                    )));
                };
                let (bytes, rest) = self.rest.split_at(length);
                self.rest = rest;
                WireValue::Bytes(bytes)
            }
            5 => WireValue::Fixed32(u32::from_le_bytes(*self.chunk::<4>()?)),
            other => {
                return Err(Error::Parsing(format!(
                    "Protobuf field {number} has wire type {other}, which OTLP does not use"
                )));
            }
        };
        Ok(Some(WireField { number, value }))
    }

    fn chunk<const N: usize>(&mut self) -> Result<&'b [u8; N], Error> {
        let Some((chunk, rest)) = self.rest.split_first_chunk::<N>() else { return Err(cut()) };
        self.rest = rest;
        Ok(chunk)
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let Some((byte, rest)) = self.rest.split_first() else { return Err(cut()) };
            self.rest = rest;
            // Of the tenth byte one bit is left; others are dropped, as by other decoders.
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::Parsing("a Protobuf number has more than ten bytes".to_owned()))
    }
}

fn cut() -> Error {
    Error::Parsing("the Protobuf message ends within a field".to_owned())
}

impl<'b> WireField<'b> {
    /// Value of a field that is a text, bytes or a message.
    pub(crate) fn bytes(&self, name: &str) -> Result<&'b [u8], Error> {
        match self.value {
            WireValue::Bytes(bytes) => Ok(bytes),
            _ => Err(self.mismatch(name, "with a length")),
        }
    }

    /// Value of a text. Bytes that are not UTF-8 are replaced, as they refuse no record.
    pub(crate) fn text(&self, name: &str) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(self.bytes(name)?).into_owned())
    }

    /// Value of a number of variable length.
    pub(crate) fn varint(&self, name: &str) -> Result<u64, Error> {
        match self.value {
            WireValue::Varint(value) => Ok(value),
            _ => Err(self.mismatch(name, "of variable length")),
        }
    }

    /// Value of a number of 64 bits.
    pub(crate) fn fixed64(&self, name: &str) -> Result<u64, Error> {
        match self.value {
            WireValue::Fixed64(value) => Ok(value),
            _ => Err(self.mismatch(name, "of 64 bits")),
        }
    }

    /// Value of a number of 32 bits.
    pub(crate) fn fixed32(&self, name: &str) -> Result<u32, Error> {
        match self.value {
            WireValue::Fixed32(value) => Ok(value),
            _ => Err(self.mismatch(name, "of 32 bits")),
        }
    }

    fn mismatch(&self, name: &str, expected: &str) -> Error {
        Error::Parsing(format!("Protobuf field {} ({name}) is not one {expected}", self.number))
    }
}

/// Appends a number field to a message; 0 is left out.
pub(crate) fn write_number(message: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        message.push(field << 3);
        write_varint(message, value);
    }
}

/// Appends a text or a message to a message, also an empty one.
pub(crate) fn write_bytes(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    message.push(field << 3 | 2);
    write_varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

fn write_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of a message in hexadecimal digits, or its error.
    fn read(hex: &str) -> String {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let bytes: Vec<u8> = digits
            .chunks(2)
            .map(|pair| {
                let pair = std::str::from_utf8(pair).expect("digits are ASCII");
                u8::from_str_radix(pair, 16).expect("two digits are a byte")
            })
            .collect();
        let (mut reader, mut text) = (ProtobufReader::new(&bytes), String::new());
        loop {
            match reader.next_field() {
                Ok(Some(field)) => text.push_str(&format!("{}={:?} ", field.number, field.value)),
                Ok(None) => return text.trim_end().to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    }

    #[test]
    fn fields_are_read_by_their_wire_types() {
        for (hex, expected) in [
            ("", ""),
            ("08 01", "1=Varint(1)"),
            ("10 ac02 18 00", "2=Varint(300) 3=Varint(0)"),
            ("10 ffffffffffffffffff01", "2=Varint(18446744073709551615)"),
            ("09 0100000000000000", "1=Fixed64(1)"),
            ("45 02000000", "8=Fixed32(2)"),
            ("0a 02 6162", "1=Bytes([97, 98])"),
            ("0a 00", "1=Bytes([])"),
            ("0a 03 6162", "Protobuf field 1 has a length of 3 bytes, and 2 are left"),
            (
                "0a ffffffffffffffffff01",
                "Protobuf field 1 has a length of 18446744073709551615 bytes, and 0 are left",
            ),
            ("0a", "the Protobuf message ends within a field"),
            ("09 01", "the Protobuf message ends within a field"),
            ("80", "the Protobuf message ends within a field"),
            ("08 ffffffffffffffffffff01", "a Protobuf number has more than ten bytes"),
            ("00 01", "the Protobuf tag 0 has no valid field number"),
            ("0b", "Protobuf field 1 has wire type 3, which OTLP does not use"),
        ] {
            assert_eq!(read(hex), expected, "{hex}");
        }
    }

    #[test]
    fn written_fields_are_read_again() {
        let mut message = Vec::new();
        write_number(&mut message, 1, 300);
        write_number(&mut message, 3, 0);
        write_bytes(&mut message, 2, &[b'a'; 200]);
        let mut reader = ProtobufReader::new(&message);
        let mut next = || reader.next_field().expect("it is well-formed").map(|field| field.value);
        assert_eq!(next(), Some(WireValue::Varint(300)));
        assert_eq!(next(), Some(WireValue::Bytes(&[b'a'; 200])));
        assert_eq!(next(), None);
    }
}
