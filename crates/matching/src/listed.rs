//! Lists of numbers that values are compared with.

/// Numbers with weights, in a hash table with linear probing: looking one up takes the same time however many
/// there are.
pub(crate) struct ListedNumbers {
    /// A power of two of slots, at most half of them full.
    slots: Vec<Option<(i64, i32)>>,
    /// Number of bits that a hash is shifted by.
    shift: u32,
}

impl ListedNumbers {
    /// Creates the table. Of a number that is listed twice, the smaller weight counts.
    pub(crate) fn new(numbers: &[(i64, i32)]) -> Self {
        let bits = (numbers.len().max(1) * 2).next_power_of_two().trailing_zeros().max(1);
        let mut table = ListedNumbers { slots: vec![None; 1 << bits], shift: 64 - bits };
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        sorted.dedup_by_key(|(number, _)| *number);
        for (number, weight) in sorted {
            let free = table.probe(number).find(|at| table.slots[*at].is_none());
            table.slots[free.expect("half of the slots are free")] = Some((number, weight));
        }
        table
    }

    /// Slots where a number may be, in order.
    fn probe(&self, number: i64) -> impl Iterator<Item = usize> + use<> {
        let first = ((number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        let mask = self.slots.len() - 1;
        (0..=mask).map(move |step| (first + step) & mask)
    }

    /// Weight of a number; `None` if it is not listed.
    #[inline]
    pub(crate) fn weight(&self, number: i64) -> Option<i32> {
        let found = self.probe(number).map(|at| self.slots[at]);
        found
            .take_while(Option::is_some)
            .flatten()
            .find(|(listed, _)| *listed == number)
            .map(|(_, weight)| weight)
    }

    /// Like [`ListedNumbers::weight`], for a number that may have a fraction, or be beyond the integers.
    pub(crate) fn weight_of_float(&self, number: f64) -> Option<i32> {
        /// Beyond this, several integers are one float.
        const EXACT: f64 = (1_u64 << 53) as f64;
        if number.abs() < EXACT {
            return if number.fract() == 0.0 { self.weight(number as i64) } else { None };
        }
        let equal = self.slots.iter().flatten().filter(|(listed, _)| *listed as f64 == number);
        equal.min().map(|(_, weight)| *weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listed_number_is_found_and_no_other() {
        for count in [0, 1, 2, 3, 7, 8, 100, 5000] {
            // Also multiples of a power of two, which a bad hash puts into few slots.
            for step in [1, 3, 1 << 30] {
                let list: Vec<(i64, i32)> = (0..count).map(|at| (at * step - step, at as i32)).collect();
                let table = ListedNumbers::new(&list);
                for (number, weight) in &list {
                    assert_eq!(table.weight(*number), Some(*weight), "{number} of {count}");
                    assert_eq!(table.weight_of_float(*number as f64), Some(*weight), "{number} of {count}");
                    assert_eq!(
                        table.weight(number + 1),
                        list.get(*weight as usize + 1).filter(|_| step == 1).map(|n| n.1)
                    );
                    assert_eq!(table.weight_of_float(*number as f64 + 0.5), None);
                }
                assert_eq!((table.weight(i64::MIN), table.weight(i64::MAX)), (None, None));
            }
        }
    }

    #[test]
    fn large_floats_equal_what_rounds_to_them() {
        let table = ListedNumbers::new(&[(i64::MAX, 7), ((1 << 53) + 1, 3), (5, 9), (5, 4)]);
        assert_eq!(table.weight_of_float(i64::MAX as f64), Some(7));
        assert_eq!(table.weight_of_float((1_u64 << 53) as f64), Some(3));
        assert_eq!(table.weight(5), Some(4));
        for none in [f64::NAN, f64::INFINITY, -0.5, 1e300] {
            assert_eq!(table.weight_of_float(none), None, "{none}");
        }
    }
}
