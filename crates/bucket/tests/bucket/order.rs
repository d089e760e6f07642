//! Keys sort so that buckets and groups are contiguous, independent of their names.

use millrace_bucket::{BucketId, DocumentSortKey, group_prefix};
use millrace_document::{DocumentGroup, DocumentId, Location};
use proptest::prelude::*;

fn id(group: &DocumentGroup, name: &str) -> DocumentId {
    DocumentId::new("ns", "mail", group, name).expect("the parts are valid")
}

/// Small numbers, the same numbers with high bits set (equal location bits), and names.
fn groups() -> impl Strategy<Value = DocumentGroup> {
    prop_oneof![
        (0u64..4).prop_map(DocumentGroup::Number),
        (0u64..4).prop_map(|low| DocumentGroup::Number(low | 7 << 32)),
        "[ab=n]{1,2}".prop_map(DocumentGroup::Name),
        Just(DocumentGroup::None),
    ]
}

proptest! {
    #[test]
    fn a_group_is_one_contiguous_range(documents in prop::collection::vec((groups(), "[a-c]{1,3}"), 1..60), group in groups()) {
        let Some(prefix) = group_prefix(&group) else { return Ok(()) };
        for (other, name) in &documents {
            let key = DocumentSortKey::new(&id(other, name));
            prop_assert_eq!(key.as_bytes().starts_with(&prefix), *other == group, "{} in {}", other, group);
        }
    }

    #[test]
    fn up_to_32_bits_a_bucket_is_one_contiguous_range(
        documents in prop::collection::vec((groups(), "[a-z]{1,6}"), 1..80), used_bits in 0u8..=32, pick in any::<prop::sample::Index>(),
    ) {
        let mut ids: Vec<DocumentId> = documents.iter().map(|(group, name)| id(group, name)).collect();
        let bucket = BucketId::new(used_bits, pick.get(&ids).location().bits());
        ids.sort_by_key(DocumentSortKey::new);
        let inside: Vec<bool> = ids.iter().map(|id| bucket.contains(id.location())).collect();
        let changes = inside.windows(2).filter(|pair| pair[0] != pair[1]).count();
        prop_assert!(changes <= 2 && (changes < 2 || !inside[0]), "{inside:?}");
    }

    /// Past 32 bits a bucket is one range in each group, because only the group is between the two parts of a
    /// location.
    #[test]
    fn past_32_bits_a_bucket_is_one_range_of_each_group(
        names in prop::collection::vec("[a-z]{1,6}", 1..80), used_bits in 33u8..=58, pick in any::<prop::sample::Index>(),
    ) {
        let mut ids: Vec<DocumentId> = names.iter().map(|name| id(&DocumentGroup::Number(5), name)).collect();
        let bucket = BucketId::new(used_bits, pick.get(&ids).location().bits());
        ids.sort_by_key(DocumentSortKey::new);
        let inside: Vec<bool> = ids.iter().map(|id| bucket.contains(id.location())).collect();
        let changes = inside.windows(2).filter(|pair| pair[0] != pair[1]).count();
        prop_assert!(changes <= 2 && (changes < 2 || !inside[0]), "{inside:?}");
        prop_assert!(ids.iter().all(|id| BucketId::new(32, 5).contains(id.location())));
    }

    #[test]
    fn a_key_tells_its_location_and_its_group(group in groups(), name in "[a-z0-9]{1,8}") {
        let id = id(&group, &name);
        let key = DocumentSortKey::new(&id);
        prop_assert_eq!(key.reversed_location(), id.location().reversed());
        prop_assert_eq!(key.group_key(), group.key());
    }

    #[test]
    fn children_part_their_parent(used_bits in 0u8..58, bits in any::<u64>(), location in any::<u64>()) {
        let bucket = BucketId::new(used_bits, bits);
        let location = Location::new(location);
        let children = bucket.children().expect("fewer than 58 bits are used");
        let inside = children.map(|child| child.contains(location));
        prop_assert_eq!(bucket.contains(location), inside[0] || inside[1]);
        prop_assert!(!(inside[0] && inside[1]));
        prop_assert_eq!(children.map(BucketId::parent), [Some(bucket), Some(bucket)]);
        for child in children {
            prop_assert!(bucket.covers(child) && child.covers(child) && !child.covers(bucket));
        }
        let range = bucket.reversed_range();
        prop_assert_eq!(bucket.contains(location), range.contains(location.reversed()));
    }
}

#[test]
fn a_part_cannot_run_into_the_next() {
    let group = |name: &str| DocumentGroup::Name(name.to_owned());
    for (namespace, document_type, group) in [
        ("a:b", "mail", group("x")),
        ("ns", "ma:il", group("x")),
        ("ns", "mail", group("x:y")),
        ("ns", "mail:g=x", DocumentGroup::None),
    ] {
        assert!(
            DocumentId::new(namespace, document_type, &group, "name").is_err(),
            "{namespace} {document_type} {group}"
        );
    }
}

#[test]
fn a_location_is_what_the_documentation_says() {
    // `n=` gives its low 32 bits.
    assert_eq!(id(&DocumentGroup::Number(0x1_2345_6789), "x").location().bits() as u32, 0x2345_6789);
    // `g=` gives the first four bytes of the name's MD5, little-endian: MD5("abc") starts with 90 01 50 98.
    assert_eq!(id(&DocumentGroup::Name("abc".to_owned()), "x").location().bits() as u32, 0x9850_0190);
    // Documents of a group differ in the bits above.
    let group = DocumentGroup::Number(1);
    assert_ne!(id(&group, "x").location(), id(&group, "y").location());
    assert!(BucketId::new(32, 1).intersects(&group) && !BucketId::new(32, 3).intersects(&group));
    assert!(BucketId::new(1, 1).intersects(&DocumentGroup::None));
}
