//! Protocol buffers, as far as needed to find fields: the wire format, without a schema.

/// A field of a message.
pub(super) struct ProtobufField<'b> {
    /// Number in the schema.
    pub number: u64,
    content: ProtobufContent<'b>,
}

enum ProtobufContent<'b> {
    Integer(u64),
    Bytes(&'b [u8]),
    /// A number of fixed size, which is ignored.
    Fixed,
}

impl<'b> ProtobufField<'b> {
    /// Content of the field, if it has this number and is bytes, text or a message.
    pub fn bytes_of(&self, number: u64) -> Option<&'b [u8]> {
        match self.content {
            ProtobufContent::Bytes(bytes) if self.number == number => Some(bytes),
            _ => None,
        }
    }

    /// The integer, or the packed integers.
    pub fn integers(&self) -> impl Iterator<Item = u64> + use<'b> {
        let (one, mut packed) = match self.content {
            ProtobufContent::Integer(integer) => (Some(integer), &[][..]),
            ProtobufContent::Bytes(bytes) => (None, bytes),
            ProtobufContent::Fixed => (None, &[][..]),
        };
        one.into_iter().chain(std::iter::from_fn(move || integer(&mut packed)))
    }
}

/// The fields of a message, up to where it is malformed.
pub(super) fn fields(message: &[u8]) -> impl Iterator<Item = ProtobufField<'_>> {
    checked_fields(message).map_while(Result::ok)
}

/// A message that is not in the wire form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MalformedMessage;

/// The fields of a message; an error, once, where it is malformed.
pub(super) fn checked_fields(
    mut message: &[u8],
) -> impl Iterator<Item = Result<ProtobufField<'_>, MalformedMessage>> {
    std::iter::from_fn(move || {
        if message.is_empty() {
            return None;
        }
        let field = field(&mut message).ok_or(MalformedMessage);
        if field.is_err() {
            message = &[];
        }
        Some(field)
    })
}

/// The first field of a message, taken from the front. Groups, which no model has, count as malformed.
fn field<'b>(message: &mut &'b [u8]) -> Option<ProtobufField<'b>> {
    let key = integer(message).filter(|key| *key <= u64::from(u32::MAX))?;
    let content = match key & 7 {
        0 => ProtobufContent::Integer(integer(message)?),
        1 => message.split_off(..8).map(|_| ProtobufContent::Fixed)?,
        2 => {
            let length = usize::try_from(integer(message)?).ok()?;
            ProtobufContent::Bytes(message.split_off(..length)?)
        }
        5 => message.split_off(..4).map(|_| ProtobufContent::Fixed)?,
        _ => return None,
    };
    Some(ProtobufField { number: key >> 3, content })
}

/// An integer of variable length, taken from the front.
fn integer(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for place in 0..10 {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_up_to_where_a_message_is_malformed() {
        let check = |message: &[u8], expected: &[(u64, &[u64])]| {
            let found: Vec<(u64, Vec<u64>)> =
                fields(message).map(|field| (field.number, field.integers().collect())).collect();
            let expected: Vec<(u64, Vec<u64>)> =
                expected.iter().map(|(number, integers)| (*number, integers.to_vec())).collect();
            assert_eq!(found, expected, "{message:?}");
        };
        check(&[], &[]);
        check(&[0x08, 0x96, 0x01], &[(1, &[150])]);
        check(&[0x0a, 2, 3, 4, 0x10, 5], &[(1, &[3, 4]), (2, &[5])]);
        check(&[0x0d, 0, 0, 0, 0, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 1], &[(1, &[]), (1, &[]), (1, &[1])]);
        check(&[0x08, 1, 0x0a, 9, 1], &[(1, &[1])]);
        check(&[0x08, 1, 0x0b], &[(1, &[1])]);
        check(&[0x08, 0xff], &[]);
        check(&[0xff; 12], &[]);
        check(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], &[]);
    }

    #[test]
    fn bytes_are_asked_for_by_number() {
        let message = [0x0a, 2, b'h', b'i', 0x10, 5];
        let found: Vec<_> = fields(&message).map(|field| field.bytes_of(1)).collect();
        assert_eq!(found, [Some(&b"hi"[..]), None]);
    }
}
