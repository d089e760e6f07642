//! Pass over encoded rows that collects the values at the end of a path.

use crate::wire;

use super::{EncodedLeafValues, LeafColumn, LeafElements, LeafShape, MemberShape};

/// Kind of the values that a pass collects. The pass is compiled for each.
pub(super) trait EncodedLeafKind<'a> {
    const TAG: u8;

    type Value;

    /// The value whose tag has just been read.
    fn read(cursor: &mut LeafCursor<'a>) -> Option<Self::Value>;

    fn values(values: Vec<Self::Value>) -> EncodedLeafValues<'a>;
}

macro_rules! leaf_kind {
    ($kind:ident, $tag:ident, $value:ty, $values:ident, $read:expr) => {
        pub(super) struct $kind;

        impl<'a> EncodedLeafKind<'a> for $kind {
            const TAG: u8 = wire::$tag;

            type Value = $value;

            #[inline(always)]
            fn read(cursor: &mut LeafCursor<'a>) -> Option<$value> {
                let read: fn(&mut LeafCursor<'a>) -> Option<$value> = $read;
                read(cursor)
            }

            fn values(values: Vec<$value>) -> EncodedLeafValues<'a> {
                EncodedLeafValues::$values(values)
            }
        }
    };
}

leaf_kind!(BoolLeaf, BOOL, bool, Bools, |cursor| Some(cursor.byte()? != 0));
leaf_kind!(ByteLeaf, BYTE, i64, Integers, |cursor| Some(i64::from(cursor.byte()? as i8)));
leaf_kind!(IntLeaf, INT, i64, Integers, |cursor| Some(i64::from(i32::from_le_bytes(cursor.array()?))));
leaf_kind!(LongLeaf, LONG, i64, Integers, |cursor| Some(i64::from_le_bytes(cursor.array()?)));
leaf_kind!(FloatLeaf, FLOAT, f64, Floats, |cursor| Some(f64::from(f32::from_le_bytes(cursor.array()?))));
leaf_kind!(DoubleLeaf, DOUBLE, f64, Floats, |cursor| Some(f64::from_le_bytes(cursor.array()?)));
leaf_kind!(TextLeaf, STRING, &'a [u8], Texts, |cursor| cursor.text());
leaf_kind!(RawLeaf, RAW, &'a [u8], Raws, |cursor| cursor.text());
leaf_kind!(PositionLeaf, POSITION, [i32; 2], Positions, |cursor| {
    Some([i32::from_le_bytes(cursor.array()?), i32::from_le_bytes(cursor.array()?)])
});

/// Bytes that are left. What does not fit gives `None`: a general reader says why.
#[derive(Clone, Copy)]
pub(super) struct LeafCursor<'a>(&'a [u8]);

impl<'a> LeafCursor<'a> {
    #[inline(always)]
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    #[inline(always)]
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// A count or a length, nearly always of one byte.
    #[inline(always)]
    fn number(&mut self) -> Option<usize> {
        match self.0.split_first() {
            Some((first, rest)) if first & 0x80 == 0 => {
                self.0 = rest;
                Some(usize::from(*first))
            }
            _ => self.long_number(),
        }
    }

    #[cold]
    fn long_number(&mut self) -> Option<usize> {
        let mut number = 0u64;
        for shift in (0..).step_by(7).take(9) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(number).ok();
            }
        }
        None
    }

    #[inline(always)]
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length)
    }

    #[inline(always)]
    fn tag(&mut self, tag: u8) -> Option<()> {
        (self.byte()? == tag).then_some(())
    }

    /// Number of elements of a collection with this tag.
    #[inline(always)]
    fn collection(&mut self, tag: u8) -> Option<usize> {
        self.tag(tag)?;
        self.number()
    }

    /// Passes over a single value with this tag.
    #[inline(always)]
    fn skip_single(&mut self, tag: u8) -> Option<()> {
        self.tag(tag)?;
        let length = match tag {
            wire::BOOL | wire::BYTE => 1,
            wire::INT | wire::FLOAT => 4,
            wire::LONG | wire::DOUBLE | wire::POSITION => 8,
            _ => self.number()?,
        };
        self.take(length)?;
        Some(())
    }

    /// The member that comes next. Members are mostly in the order of their declaration: that after the last
    /// one is `next`.
    #[inline(always)]
    fn member<'s>(&mut self, members: &'s [MemberShape], next: &mut usize) -> Option<&'s MemberShape> {
        if let Some(member) = members.get(*next)
            && let Some(rest) = member.head.strip(self.0)
        {
            self.0 = rest;
            *next += 1;
            return Some(member);
        }
        self.other_member(members, next)
    }

    #[cold]
    fn other_member<'s>(&mut self, members: &'s [MemberShape], next: &mut usize) -> Option<&'s MemberShape> {
        let found = members.iter().position(|member| member.head.strip(self.0).is_some())?;
        self.0 = members[found].head.strip(self.0)?;
        *next = found + 1;
        Some(&members[found])
    }
}

/// Encoded name of a member of a struct, prepared for comparison.
#[derive(Debug)]
pub(super) struct MemberHead {
    bytes: Box<[u8]>,
    /// The first 16 bytes, and a mask of those that exist.
    start: u128,
    mask: u128,
}

impl MemberHead {
    pub(super) fn new(name: &str) -> Self {
        let mut bytes = Vec::with_capacity(name.len() + 1);
        wire::write_bytes(&mut bytes, name.as_bytes());
        let (mut start, mut mask) = ([0; 16], [0; 16]);
        for (at, byte) in bytes.iter().take(16).enumerate() {
            (start[at], mask[at]) = (*byte, u8::MAX);
        }
        let (start, mask) = (u128::from_le_bytes(start), u128::from_le_bytes(mask));
        MemberHead { bytes: bytes.into(), start, mask }
    }

    /// The bytes after the name, if they begin with it.
    #[inline(always)]
    fn strip<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        match bytes.first_chunk() {
            Some(first) if self.bytes.len() <= 16 => {
                let is_it = u128::from_le_bytes(*first) & self.mask == self.start;
                if is_it { bytes.get(self.bytes.len()..) } else { None }
            }
            _ => bytes.strip_prefix(&*self.bytes),
        }
    }
}

/// Values that a pass has collected so far.
pub(super) struct LeafPass<'a, K: EncodedLeafKind<'a>> {
    values: Vec<K::Value>,
    ends: Vec<u32>,
    weights: Vec<i32>,
    elements: Option<LeafElements>,
}

/// Lengths of a pass's lists.
struct PassLengths {
    values: usize,
    weights: usize,
    elements: usize,
}

impl<'a, K: EncodedLeafKind<'a>> LeafPass<'a, K> {
    /// A pass over about as many rows: most have a value, so that the lists grow twice, not a dozen times.
    pub(super) fn new(root: &LeafShape, rows: usize) -> Self {
        let is_flat = match root {
            LeafShape::Single { is_wanted, .. } => *is_wanted,
            LeafShape::Array(of) | LeafShape::WeightedSet(of) => of.is_wanted(),
            LeafShape::Map(key, value) => key.is_wanted() || value.is_wanted(),
            LeafShape::Struct(_) => false,
        };
        let is_weighted = matches!(root, LeafShape::WeightedSet(of) if of.is_wanted());
        let list = || Vec::with_capacity(rows);
        LeafPass {
            values: Vec::with_capacity(rows),
            ends: list(),
            weights: Vec::with_capacity(if is_weighted { rows } else { 0 }),
            elements: (!is_flat).then(|| LeafElements { of_values: list(), ends: list() }),
        }
    }

    /// Collects the values of a row. Returns false, and collects none, if it is not of this shape.
    pub(super) fn row(&mut self, root: &LeafShape, row: Option<&'a [u8]>) -> bool {
        let before = PassLengths {
            values: self.values.len(),
            weights: self.weights.len(),
            elements: self.elements.as_ref().map_or(0, |elements| elements.of_values.len()),
        };
        let first = self.elements.as_ref().map_or(0, |elements| elements.ends.last().copied().unwrap_or(0));
        let elements = match row {
            Some(bytes) => self.outermost(root, &mut LeafCursor(bytes), first),
            None => Some(0),
        };
        if elements.is_none() {
            self.values.truncate(before.values);
            self.weights.truncate(before.weights);
        }
        // A column has fewer bytes than a u32 can count, and so fewer values and elements.
        self.ends.push(self.values.len() as u32);
        if let Some(known) = &mut self.elements {
            if elements.is_none() {
                known.of_values.truncate(before.elements);
            }
            known.ends.push(first + elements.unwrap_or(0) as u32);
        }
        elements.is_some()
    }

    pub(super) fn finish(self, irregular: Vec<usize>) -> LeafColumn<'a> {
        let LeafPass { values, ends, weights, elements, .. } = self;
        LeafColumn { values: K::values(values), ends, weights, elements, irregular }
    }

    /// Collects the values of a row's value, whose first element has the number `first`. Returns the number
    /// of its elements.
    fn outermost(&mut self, root: &LeafShape, cursor: &mut LeafCursor<'a>, first: u32) -> Option<usize> {
        match root {
            LeafShape::Single { .. } | LeafShape::Struct(_) => {
                self.inner(root, cursor, first)?;
                Some(1)
            }
            LeafShape::Array(of) => {
                let count = cursor.collection(wire::ARRAY)?;
                match &**of {
                    of if of.is_wanted() => {
                        for _ in 0..count {
                            cursor.tag(K::TAG)?;
                            self.values.push(K::read(cursor)?);
                        }
                    }
                    LeafShape::Struct(members) => {
                        for element in (first..).take(count) {
                            self.members(members, cursor, element)?;
                        }
                    }
                    of => {
                        for element in (first..).take(count) {
                            self.inner(of, cursor, element)?;
                        }
                    }
                }
                Some(count)
            }
            LeafShape::WeightedSet(of) => {
                let count = cursor.collection(wire::WEIGHTED_SET)?;
                match &**of {
                    of if of.is_wanted() => {
                        for _ in 0..count {
                            cursor.tag(K::TAG)?;
                            self.values.push(K::read(cursor)?);
                            self.weights.push(i32::from_le_bytes(cursor.array()?));
                        }
                    }
                    of => {
                        for element in (first..).take(count) {
                            self.weighted(of, cursor, element)?;
                        }
                    }
                }
                Some(count)
            }
            LeafShape::Map(key, value) => {
                let count = cursor.collection(wire::MAP)?;
                match (&**key, &**value) {
                    (key, LeafShape::Single { tag, .. }) if key.is_wanted() => {
                        for _ in 0..count {
                            cursor.tag(K::TAG)?;
                            self.values.push(K::read(cursor)?);
                            cursor.skip_single(*tag)?;
                        }
                    }
                    (LeafShape::Single { tag, .. }, value) if value.is_wanted() => {
                        for _ in 0..count {
                            cursor.skip_single(*tag)?;
                            cursor.tag(K::TAG)?;
                            self.values.push(K::read(cursor)?);
                        }
                    }
                    (key, value) => {
                        for element in (first..).take(count) {
                            self.inner(key, cursor, element)?;
                            self.inner(value, cursor, element)?;
                        }
                    }
                }
                Some(count)
            }
        }
    }

    /// Collects the values inside an element.
    fn inner(&mut self, shape: &LeafShape, cursor: &mut LeafCursor<'a>, element: u32) -> Option<()> {
        match shape {
            LeafShape::Single { is_wanted: true, .. } => {
                cursor.tag(K::TAG)?;
                self.values.push(K::read(cursor)?);
                if let Some(elements) = &mut self.elements {
                    elements.of_values.push(element);
                }
            }
            LeafShape::Single { tag, is_wanted: false } => cursor.skip_single(*tag)?,
            LeafShape::Array(of) => {
                for _ in 0..cursor.collection(wire::ARRAY)? {
                    self.inner(of, cursor, element)?;
                }
            }
            LeafShape::WeightedSet(of) => {
                for _ in 0..cursor.collection(wire::WEIGHTED_SET)? {
                    self.weighted(of, cursor, element)?;
                }
            }
            LeafShape::Map(key, value) => {
                for _ in 0..cursor.collection(wire::MAP)? {
                    self.inner(key, cursor, element)?;
                    self.inner(value, cursor, element)?;
                }
            }
            LeafShape::Struct(members) => self.members(members, cursor, element)?,
        }
        Some(())
    }

    /// Collects the values inside an element of a weighted set.
    fn weighted(&mut self, of: &LeafShape, cursor: &mut LeafCursor<'a>, element: u32) -> Option<()> {
        self.inner(of, cursor, element)?;
        let weight = i32::from_le_bytes(cursor.array()?);
        if of.is_wanted() {
            self.weights.push(weight);
        }
        Some(())
    }

    /// Collects the values inside the members of a struct.
    #[inline]
    fn members(&mut self, members: &[MemberShape], cursor: &mut LeafCursor<'a>, element: u32) -> Option<()> {
        let mut next = 0;
        for _ in 0..cursor.collection(wire::STRUCT)? {
            let member = cursor.member(members, &mut next)?;
            match &member.shape {
                LeafShape::Single { tag, is_wanted: false } => cursor.skip_single(*tag)?,
                shape => self.inner(shape, cursor, element)?,
            }
        }
        Some(())
    }
}
