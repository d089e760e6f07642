//! Sorting of what an answer shows, where the size of the program matters more than the time.

use std::cmp::Ordering;

/// Sorts as the standard library's `sort_by`, stably. Its code for a type has a few hundred bytes instead of
/// several thousand; each comparison takes a call through a pointer more.
pub(crate) fn sort_few<T>(items: &mut [T], mut order: impl FnMut(&T, &T) -> Ordering) {
    if items.len() < 2 {
        return;
    }
    let mut places = sorted_places(items.len(), &mut |left, right| order(&items[left], &items[right]));
    // Along each cycle of the permutation; a place that is done names itself.
    for start in 0..items.len() {
        let mut at = start;
        loop {
            let from = std::mem::replace(&mut places[at], at);
            if from == start {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

/// Places of the items before the sorting, in their order after it.
fn sorted_places(count: usize, order: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|left, right| order(*left, *right));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_sorted_stably() {
        for count in 0..100_usize {
            let items: Vec<(usize, usize)> = (0..count).map(|at| (at * 7919 % 13, at)).collect();
            let (mut few, mut all) = (items.clone(), items);
            sort_few(&mut few, |left, right| right.0.cmp(&left.0));
            all.sort_by_key(|item| std::cmp::Reverse(item.0));
            assert_eq!(few, all);
        }
    }
}
