//! Lists of numbers that values are compared with.

use hashbrown::HashMap;

/// Numbers with weights: looking one up takes the same time however many there are. The hash is keyed, since
/// queries choose the numbers.
pub(crate) struct ListedNumbers(HashMap<i64, i32>);

impl ListedNumbers {
    /// Creates the list. Of a number that is listed twice, the smaller weight counts.
    pub(crate) fn new(numbers: &[(i64, i32)]) -> Self {
        let mut weights = HashMap::with_capacity(numbers.len());
        for (number, weight) in numbers {
            weights
                .entry(*number)
                .and_modify(|known: &mut i32| *known = (*known).min(*weight))
                .or_insert(*weight);
        }
        ListedNumbers(weights)
    }

    /// Weight of a number; `None` if it is not listed.
    #[inline]
    pub(crate) fn weight(&self, number: i64) -> Option<i32> {
        self.0.get(&number).copied()
    }

    /// Like [`ListedNumbers::weight`], for a number that may have a fraction, or be beyond the integers.
    pub(crate) fn weight_of_float(&self, number: f64) -> Option<i32> {
        /// Beyond this, several integers are one float.
        const EXACT: f64 = (1_u64 << 53) as f64;
        if number.abs() < EXACT {
            return if number.fract() == 0.0 { self.weight(number as i64) } else { None };
        }
        let equal = self.0.iter().filter(|(listed, _)| **listed as f64 == number);
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
