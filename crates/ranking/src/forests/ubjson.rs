//! Universal binary JSON, in which XGBoost saves models.

use crate::Error;

/// Maximum depth of values within values.
const DEPTH: usize = 64;

/// A value of universal binary JSON.
#[derive(Debug, PartialEq)]
pub(super) enum UbjsonValue {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    /// A list of numbers of one type.
    Numbers(Vec<f64>),
    List(Vec<UbjsonValue>),
    Map(Vec<(String, UbjsonValue)>),
}

impl UbjsonValue {
    /// Reads a whole file.
    ///
    /// # Errors
    /// The bytes are not one value.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = UbjsonReader { rest: bytes };
        let marker = reader.marker()?;
        let value = reader.value(marker, 0)?;
        match reader.rest {
            [] => Ok(value),
            more => Err(Error::setup(format!("{} bytes stand after the model", more.len()))),
        }
    }

    /// A member of a map.
    pub fn get(&self, name: &str) -> Option<&UbjsonValue> {
        let UbjsonValue::Map(members) = self else { return None };
        members.iter().find(|(there, _)| there == name).map(|(_, value)| value)
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

    /// The numbers of a list; truth values are 0 and 1.
    pub fn numbers(&self) -> Option<Vec<f64>> {
        let number = |value: &UbjsonValue| match value {
            UbjsonValue::Number(number) => Some(*number),
            UbjsonValue::Bool(truth) => Some(f64::from(u8::from(*truth))),
            _ => None,
        };
        match self {
            UbjsonValue::Numbers(numbers) => Some(numbers.clone()),
            UbjsonValue::List(elements) => elements.iter().map(number).collect(),
            _ => None,
        }
    }
}

/// Reader of values from the bytes that are left.
struct UbjsonReader<'b> {
    rest: &'b [u8],
}

impl UbjsonReader<'_> {
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

    fn text(&mut self) -> Result<String, Error> {
        let length = self.length()?;
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        String::from_utf8(text.to_vec()).map_err(|_| Error::setup("a text in it is not UTF-8"))
    }

    fn value(&mut self, marker: u8, depth: usize) -> Result<UbjsonValue, Error> {
        if depth > DEPTH {
            return Err(Error::setup(format!("it is nested deeper than {DEPTH}")));
        }
        if let Some(number) = self.number(marker)? {
            return Ok(UbjsonValue::Number(number));
        }
        match marker {
            b'Z' => Ok(UbjsonValue::Null),
            b'T' => Ok(UbjsonValue::Bool(true)),
            b'F' => Ok(UbjsonValue::Bool(false)),
            b'C' => self.take::<1>().map(|[byte]| UbjsonValue::Text(char::from(byte).to_string())),
            b'S' | b'H' => self.text().map(UbjsonValue::Text),
            b'[' => self.list(depth),
            b'{' => self.map(depth),
            other => Err(unknown(other)),
        }
    }

    fn list(&mut self, depth: usize) -> Result<UbjsonValue, Error> {
        if self.eat(b'$') {
            let [kind] = self.take::<1>()?;
            if !self.eat(b'#') {
                return Err(Error::setup("a list of one type has no length"));
            }
            let mut numbers = Vec::new();
            for _ in 0..self.length()? {
                numbers.push(self.number(kind)?.ok_or_else(|| unknown(kind))?);
            }
            return Ok(UbjsonValue::Numbers(numbers));
        }
        let mut elements = Vec::new();
        if self.eat(b'#') {
            for _ in 0..self.length()? {
                let marker = self.marker()?;
                elements.push(self.value(marker, depth + 1)?);
            }
            return Ok(UbjsonValue::List(elements));
        }
        loop {
            match self.marker()? {
                b']' => return Ok(UbjsonValue::List(elements)),
                marker => elements.push(self.value(marker, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<UbjsonValue, Error> {
        let mut members = Vec::new();
        let count = if self.eat(b'#') { Some(self.length()?) } else { None };
        loop {
            let is_end = count.map_or_else(|| self.eat(b'}'), |count| members.len() == count);
            if is_end {
                return Ok(UbjsonValue::Map(members));
            }
            let name = self.text()?;
            let marker = self.marker()?;
            members.push((name, self.value(marker, depth + 1)?));
        }
    }
}

fn cut_off() -> Error {
    Error::setup("it ends within a value, or is not a model that XGBoost has saved as .ubj")
}

fn unknown(marker: u8) -> Error {
    Error::setup(format!("it has the unknown marker {:?} of a value", char::from(marker)))
}
