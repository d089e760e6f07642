//! Universal binary JSON, in which XGBoost saves models.

use crate::Error;

/// Maximum depth of values within values.
const DEPTH: usize = 64;

/// Maximum number of numbers that a model has: those of some 2.5 million nodes.
const NUMBERS_MAX: usize = 16_000_000;

/// Numbers that another value counts as, by its memory.
const VALUE_NUMBERS: usize = 8;

/// Members of maps that are kept, at any depth. The others are passed over.
const KEPT: [&str; 17] = [
    "base_score",
    "default_left",
    "feature_names",
    "gradient_booster",
    "learner",
    "learner_model_param",
    "left_children",
    "model",
    "name",
    "num_target",
    "objective",
    "right_children",
    "split_conditions",
    "split_indices",
    "split_type",
    "tree_info",
    "trees",
];

/// A value of universal binary JSON.
#[derive(Debug, PartialEq)]
pub(super) enum UbjsonValue {
    Null,
    /// A number; truth values are 0 and 1.
    Number(f64),
    Text(String),
    /// A list of numbers alone.
    Numbers(Vec<f64>),
    List(Vec<UbjsonValue>),
    /// A map, as far as its members are kept.
    Map(Vec<(&'static str, UbjsonValue)>),
}

impl UbjsonValue {
    /// Reads a whole file.
    ///
    /// # Errors
    /// The bytes are not one value.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = UbjsonReader { rest: bytes, room: NUMBERS_MAX };
        let marker = reader.marker()?;
        let value = reader.value(marker, 0, true)?;
        match reader.rest {
            [] => Ok(value),
            more => Err(Error::setup(format!("{} bytes stand after the model", more.len()))),
        }
    }

    /// A member of a map.
    pub fn get(&self, name: &str) -> Option<&UbjsonValue> {
        let UbjsonValue::Map(members) = self else { return None };
        members.iter().find(|(there, _)| *there == name).map(|(_, value)| value)
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            UbjsonValue::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn list(&self) -> Option<&[UbjsonValue]> {
        match self {
            UbjsonValue::List(elements) => Some(elements),
            UbjsonValue::Numbers(numbers) if numbers.is_empty() => Some(&[]),
            _ => None,
        }
    }

    /// The numbers of a list.
    pub fn numbers(&self) -> Option<&[f64]> {
        match self {
            UbjsonValue::Numbers(numbers) => Some(numbers),
            _ => None,
        }
    }
}

/// Reader of values from the bytes that are left.
struct UbjsonReader<'b> {
    rest: &'b [u8],
    /// Number of numbers that may be kept yet.
    room: usize,
}

impl<'b> UbjsonReader<'b> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else { return Err(cut_off()) };
        self.rest = rest;
        Ok(*taken)
    }

    /// The next byte, if it is `wanted`.
    fn eat(&mut self, wanted: u8) -> bool {
        let is_next = self.rest.first() == Some(&wanted);
        self.rest = &self.rest[usize::from(is_next)..];
        is_next
    }

    /// The marker of the next value.
    fn marker(&mut self) -> Result<u8, Error> {
        loop {
            let [marker] = self.take::<1>()?;
            if marker != b'N' {
                return Ok(marker);
            }
        }
    }

    /// A number with this marker, or `None` if it is that of another value.
    fn number(&mut self, marker: u8) -> Result<Option<f64>, Error> {
        Ok(Some(match marker {
            b'i' => f64::from(i8::from_be_bytes(self.take()?)),
            b'U' => f64::from(u8::from_be_bytes(self.take()?)),
            b'I' => f64::from(i16::from_be_bytes(self.take()?)),
            b'l' => f64::from(i32::from_be_bytes(self.take()?)),
            b'L' => i64::from_be_bytes(self.take()?) as f64,
            b'd' => f64::from(f32::from_be_bytes(self.take()?)),
            b'D' => f64::from_be_bytes(self.take()?),
            _ => return Ok(None),
        }))
    }

    /// A number of elements or bytes, each of which takes one byte at least.
    fn length(&mut self) -> Result<usize, Error> {
        let marker = self.marker()?;
        let Some(number) = self.number(marker)? else { return Err(unknown(marker)) };
        if number >= 0.0 && number <= self.rest.len() as f64 { Ok(number as usize) } else { Err(cut_off()) }
    }

    fn text_bytes(&mut self) -> Result<&'b [u8], Error> {
        let length = self.length()?;
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(text)
    }

    fn text(&mut self) -> Result<String, Error> {
        let text = self.text_bytes()?;
        String::from_utf8(text.to_vec()).map_err(|_| Error::setup("a text in it is not UTF-8"))
    }

    /// Reads a value whose marker was read; one that is not `kept` is passed over.
    fn value(&mut self, marker: u8, depth: usize, kept: bool) -> Result<UbjsonValue, Error> {
        if depth > DEPTH {
            return Err(Error::setup(format!("it is nested deeper than {DEPTH}")));
        }
        if let Some(number) = self.number(marker)? {
            return Ok(UbjsonValue::Number(number));
        }
        match marker {
            b'Z' => Ok(UbjsonValue::Null),
            b'T' => Ok(UbjsonValue::Number(1.0)),
            b'F' => Ok(UbjsonValue::Number(0.0)),
            b'C' => self.take::<1>().map(|[byte]| UbjsonValue::Text(char::from(byte).to_string())),
            b'S' | b'H' if kept => self.text().map(UbjsonValue::Text),
            b'S' | b'H' => self.text_bytes().map(|_| UbjsonValue::Null),
            b'[' => self.list(depth, kept),
            b'{' => self.map(depth, kept),
            other => Err(unknown(other)),
        }
    }

    fn list(&mut self, depth: usize, kept: bool) -> Result<UbjsonValue, Error> {
        let mut list = GrowingList::default();
        if self.eat(b'$') {
            let [kind] = self.take::<1>()?;
            if !self.eat(b'#') {
                return Err(Error::setup("a list of one type has no length"));
            }
            for _ in 0..self.length()? {
                let number = self.number(kind)?.ok_or_else(|| unknown(kind))?;
                if kept {
                    list.push(UbjsonValue::Number(number), &mut self.room)?;
                }
            }
            return Ok(list.finish());
        }
        let count = if self.eat(b'#') { Some(self.length()?) } else { None };
        let mut read = 0;
        while count != Some(read) {
            let marker = self.marker()?;
            if count.is_none() && marker == b']' {
                break;
            }
            let element = self.value(marker, depth + 1, kept)?;
            if kept {
                list.push(element, &mut self.room)?;
            }
            read += 1;
        }
        Ok(list.finish())
    }

    fn map(&mut self, depth: usize, kept: bool) -> Result<UbjsonValue, Error> {
        let mut members = Vec::new();
        let count = if self.eat(b'#') { Some(self.length()?) } else { None };
        let mut read = 0;
        while count != Some(read) {
            if count.is_none() && self.eat(b'}') {
                break;
            }
            let name = self.text_bytes()?;
            let known = KEPT.into_iter().find(|known| kept && known.as_bytes() == name);
            let marker = self.marker()?;
            let value = self.value(marker, depth + 1, known.is_some())?;
            if let Some(known) = known {
                reserve(&mut self.room, VALUE_NUMBERS)?;
                members.push((known, value));
            }
            read += 1;
        }
        Ok(UbjsonValue::Map(members))
    }
}

/// Counts values that are kept in memory.
fn reserve(room: &mut usize, numbers: usize) -> Result<(), Error> {
    *room = room.checked_sub(numbers).ok_or_else(|| {
        Error::setup(format!("it has more than {NUMBERS_MAX} numbers: train fewer trees, or smaller ones"))
    })?;
    Ok(())
}

/// A list while it is read. Numbers take less memory as long as there is nothing else.
#[derive(Default)]
struct GrowingList {
    numbers: Vec<f64>,
    /// All elements, once one of them is not a number.
    values: Vec<UbjsonValue>,
}

impl GrowingList {
    fn push(&mut self, element: UbjsonValue, room: &mut usize) -> Result<(), Error> {
        match element {
            UbjsonValue::Number(number) if self.values.is_empty() => {
                reserve(room, 1)?;
                self.numbers.push(number);
            }
            other => {
                reserve(room, VALUE_NUMBERS + self.numbers.len() * (VALUE_NUMBERS - 1))?;
                self.values.extend(self.numbers.drain(..).map(UbjsonValue::Number));
                self.values.push(other);
            }
        }
        Ok(())
    }

    fn finish(self) -> UbjsonValue {
        match self.values.is_empty() {
            true => UbjsonValue::Numbers(self.numbers),
            false => UbjsonValue::List(self.values),
        }
    }
}

fn cut_off() -> Error {
    Error::setup("it ends within a value, or is not a model that XGBoost has saved as .ubj")
}

fn unknown(marker: u8) -> Error {
    Error::setup(format!("it has the unknown marker {:?} of a value", char::from(marker)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map with a list of `count` values under a name.
    fn map_with(name: &[u8], value: &[u8], count: usize) -> Vec<u8> {
        let (length, values) = ([name.len() as u8], value.repeat(count));
        [&b"{U"[..], &length[..], name, &b"["[..], &values[..], &b"]}"[..]].concat()
    }

    #[test]
    fn what_is_kept_is_bounded() {
        for (value, limit) in [
            (&b"Z"[..], NUMBERS_MAX / VALUE_NUMBERS),
            (&b"T"[..], NUMBERS_MAX),
            (&b"SU\x00"[..], NUMBERS_MAX / VALUE_NUMBERS),
            (&b"{}"[..], NUMBERS_MAX / VALUE_NUMBERS),
        ] {
            let kind = String::from_utf8_lossy(value);
            let error =
                UbjsonValue::read(&map_with(b"trees", value, limit + 1)).expect_err("it is too large");
            assert!(error.to_string().contains("more than 16000000 numbers"), "{kind}: {error}");
            let passed = UbjsonValue::read(&map_with(b"loss_changes", value, limit + 1));
            assert_eq!(passed.expect("it is passed over"), UbjsonValue::Map(Vec::new()), "{kind}");
        }
        // A number takes more memory beside another value.
        let mixed = [vec![b'T'; NUMBERS_MAX / 2], vec![b'Z']].concat();
        assert!(UbjsonValue::read(&map_with(b"trees", &mixed, 1)).is_err());
    }

    #[test]
    fn members_that_are_not_read_are_passed_over() {
        let bytes = b"{U\x01xSU\x02\xff\xffU\x02\xff\xff[$U#i\x02ab\
            U\x01y{#i\x01U\x05trees[Z]U\x05trees[#i\x02TF}";
        let expected = UbjsonValue::Map(vec![("trees", UbjsonValue::Numbers(vec![1.0, 0.0]))]);
        assert_eq!(UbjsonValue::read(bytes).expect("it is right"), expected);
    }
}
