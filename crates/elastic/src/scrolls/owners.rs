//! The callers that scrolls belong to, and their shares of the room for scrolls.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use millrace_access::RequestCaller;

use super::OpenScroll;

/// The caller that a scroll belongs to.
#[derive(Clone)]
pub(crate) struct ScrollOwner {
    pub(crate) caller: Arc<RequestCaller>,
    /// Network of a client that has no credential.
    pub(crate) network: Option<IpAddr>,
}

impl ScrollOwner {
    /// True if both are one caller, who may read the scroll. Those of several groups are several: requests
    /// that another node has forwarded have one name, unless their callers have rates. A client without a
    /// credential knows its scrolls by their ids, also when its address has changed.
    pub(super) fn is(&self, other: &ScrollOwner) -> bool {
        self.caller.name == other.caller.name && self.caller.groups == other.caller.groups
    }

    /// True if both have one share of the room: one caller, from one network if it has no credential.
    pub(super) fn has_share_of(&self, other: &ScrollOwner) -> bool {
        self.is(other) && self.network == other.network
    }
}

/// Makes room for one more scroll of a caller, which takes `wanted` of the `count_max` that all may take.
/// False if it would have more than it leaves free: those that come later find room at once. If no room is
/// left, callers that have more than this one lose those that they have not used for longest.
pub(super) fn make_room(
    scrolls: &mut BTreeMap<String, OpenScroll>,
    owner: &ScrollOwner,
    wanted: usize,
    count_max: usize,
    taken_by: impl Fn(&OpenScroll) -> usize,
) -> bool {
    let mut was_full = false;
    loop {
        let mut shares: Vec<(&ScrollOwner, usize)> = Vec::new();
        for scroll in scrolls.values() {
            match shares.iter_mut().find(|(other, _)| other.has_share_of(&scroll.owner)) {
                Some((_, share)) => *share += taken_by(scroll),
                None => shares.push((&scroll.owner, taken_by(scroll))),
            }
        }
        let free = count_max.saturating_sub(shares.iter().map(|(_, share)| *share).sum());
        let own = shares.iter().find(|(other, _)| other.has_share_of(owner)).map_or(0, |(_, share)| *share);
        let own = own.saturating_add(wanted);
        if own <= free {
            return true;
        }
        was_full |= free < wanted;
        let largest = shares.iter().max_by_key(|(_, share)| *share).filter(|_| was_full);
        let Some((loser, _)) = largest.filter(|(other, share)| !other.has_share_of(owner) && *share > own)
        else {
            return false;
        };
        let idlest = scrolls.iter().filter(|(_, scroll)| scroll.owner.has_share_of(loser));
        let idlest = idlest.min_by_key(|(_, scroll)| scroll.used_ms).map(|(id, _)| id.clone());
        // One that has most has one.
        idlest.and_then(|id| scrolls.remove(&id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str, last: u8) -> ScrollOwner {
        let network = (name == "anonymous").then(|| IpAddr::from([192, 0, 2, last]));
        ScrollOwner { caller: Arc::new(RequestCaller::unrestricted(name)), network }
    }

    /// Scrolls that were opened one after another, each of which is used later than those before.
    #[derive(Default)]
    struct OpenedScrolls {
        scrolls: BTreeMap<String, OpenScroll>,
        opened: u64,
    }

    impl OpenedScrolls {
        /// Opens as many as there is room for, up to a number; returns how many these were.
        fn open(&mut self, owner: &ScrollOwner, up_to: usize, count_max: usize) -> usize {
            let mut count = 0;
            while count < up_to && make_room(&mut self.scrolls, owner, 1, count_max, |_| 1) {
                self.opened += 1;
                let scroll = OpenScroll {
                    owner: owner.clone(),
                    used_ms: self.opened,
                    kept_ms: 0,
                    bytes: 0,
                    search_bytes: 0,
                    state: None,
                };
                self.scrolls.insert(format!("{:04}", self.opened), scroll);
                count += 1;
            }
            count
        }

        fn of(&self, owner: &ScrollOwner) -> usize {
            self.scrolls.values().filter(|scroll| scroll.owner.has_share_of(owner)).count()
        }
    }

    #[test]
    fn a_caller_leaves_room_to_others() {
        for (first, second) in [
            // Without credentials, clients are known by their networks.
            (owner("anonymous", 1), owner("anonymous", 2)),
            (owner("ann", 1), owner("bob", 1)),
        ] {
            let mut opened = OpenedScrolls::default();
            assert_eq!(opened.open(&first, 500, 500), 250);
            assert_eq!(opened.open(&second, 500, 500), 125);
            assert_eq!((opened.of(&first), opened.of(&second)), (250, 125), "none of the first is lost");
            assert_eq!(opened.open(&first, 1, 500), 0);
        }
        let mut opened = OpenedScrolls::default();
        assert_eq!(opened.open(&owner("ann", 1), 500, 500), 250);
        assert_eq!(opened.open(&owner("ann", 2), 500, 500), 0, "a credential is one client");
    }

    #[test]
    fn the_caller_with_most_makes_room_if_there_is_none() {
        let mut opened = OpenedScrolls::default();
        let callers: Vec<ScrollOwner> = (0..7).map(|last| owner("anonymous", last)).collect();
        let counts: Vec<usize> = callers.iter().map(|caller| opened.open(caller, 10, 10)).collect();
        assert_eq!(counts, [5, 3, 1, 2, 2, 1, 1]);
        let left: Vec<usize> = callers.iter().map(|caller| opened.of(caller)).collect();
        assert_eq!(left.iter().sum::<usize>(), 10);
        assert!(left.iter().all(|left| (1..=2).contains(left)), "{left:?}");
        // Those that were not used for longest have made room.
        assert_eq!(opened.scrolls.keys().next().map(String::as_str), Some("0004"));
        let alone = owner("anonymous", 9);
        let mut full = OpenedScrolls::default();
        for caller in &callers {
            full.open(caller, 1, 7);
        }
        assert_eq!(full.open(&alone, 1, 7), 0, "no other has more than one");
        assert_eq!(full.scrolls.len(), 7);
    }
}
