use super::*;

const SALT: LogSalt = *b"a salt of a test";
const KEYSPACE: u64 = 3;

/// Writes a batch; with a link where `end` has a salt.
fn write_batch(out: &mut Vec<u8>, end: &mut LogEnd, sequence: u64, value: &[u8]) {
    let synced = end.bytes;
    write_batch_after(out, end, synced, (sequence, value));
}

/// Writes a batch to a log that is synced up to a byte.
fn write_batch_after(out: &mut Vec<u8>, end: &mut LogEnd, synced: u64, (sequence, value): (u64, &[u8])) {
    let link = end.salt.map(|_| end.link(synced).encode());
    let mut items = Vec::new();
    let mut measure = BatchMeasure::default();
    if let Some(link) = &link {
        measure.add_link(KEYSPACE, link);
        write_item(&mut items, KEYSPACE, LINK_KEY, link);
    }
    measure.add(1, b"key", value);
    write_item(&mut items, 1, b"key", value);
    out.push(START);
    out.extend((1 + u32::from(link.is_some())).to_le_bytes());
    out.extend(sequence.to_le_bytes());
    out.extend(&items);
    out.push(END);
    out.extend(xxh3_64(&items).to_le_bytes());
    out.extend(MAGIC);
    *end = measure.after(end, true);
}

fn write_item(out: &mut Vec<u8>, keyspace: u64, key: &[u8], value: &[u8]) {
    out.extend([ITEM, 0, 0]);
    out.extend(keyspace.to_le_bytes());
    out.extend((key.len() as u16).to_le_bytes());
    out.extend((value.len() as u32).to_le_bytes());
    out.extend((value.len() as u32).to_le_bytes());
    out.extend(key);
    out.extend(value);
}

/// Three batches, and where each begins.
fn log(salt: Option<LogSalt>) -> (Vec<u8>, Vec<usize>) {
    let (mut log, mut begins) = (Vec::new(), Vec::new());
    let mut end = LogEnd { salt, ..LogEnd::default() };
    for sequence in 1..=3 {
        begins.push(log.len());
        write_batch(&mut log, &mut end, sequence, &[sequence as u8; 9000]);
    }
    assert_eq!(end.bytes, log.len() as u64, "the measure is that of the bytes");
    (log, begins)
}

fn is_torn(bytes: &[u8]) -> bool {
    matches!(judge(bytes).rest, LogTailState::Torn(_))
}

fn is_damaged(bytes: &[u8]) -> bool {
    matches!(judge(bytes).rest, LogTailState::Damaged(_))
}

const SALTS: [Option<LogSalt>; 2] = [None, Some(SALT)];

#[test]
fn a_whole_log_goes_on_where_it_was_left() {
    for salt in SALTS {
        let (mut whole, _) = log(salt);
        let length = whole.len() as u64;
        whole.extend([0; 5000]);
        let verdict = judge(&whole);
        assert_eq!(verdict.rest, LogTailState::Blank);
        assert_eq!(
            (verdict.end.bytes, verdict.end.salt, verdict.end.is_linked),
            (length, salt, salt.is_some())
        );
        let mut end = verdict.end;
        whole.truncate(length as usize);
        write_batch(&mut whole, &mut end, 4, b"more");
        assert_eq!(judge(&whole).rest, LogTailState::Blank);
    }
}

#[test]
fn a_log_cut_anywhere_is_torn() {
    for salt in SALTS {
        let (whole, begins) = log(salt);
        for cut in (1..9000).step_by(37).chain(1..60) {
            let mut torn = whole[..whole.len() - cut].to_vec();
            torn.extend([0; 5000]);
            assert!(is_torn(&torn), "cut by {cut}");
            assert_eq!(judge(&torn).end.bytes, begins[2] as u64);
        }
    }
}

#[test]
fn a_sector_that_never_came_to_the_disk_is_torn() {
    for (salt, size) in [(None, 512), (None, 4096), (Some(SALT), 512), (Some(SALT), 4096)] {
        let (whole, begins) = log(salt);
        for sector in (begins[2] - begins[2] % size..whole.len()).step_by(size) {
            let mut torn = whole.clone();
            let end = torn.len().min(sector + size);
            torn[sector.max(begins[2])..end].fill(0);
            assert!(is_torn(&torn), "sector of {size} at {sector}");
        }
    }
}

#[test]
fn a_sector_that_went_blank_before_the_last_batch_is_damage() {
    for (salt, size) in [(None, 512), (Some(SALT), 512), (Some(SALT), 4096)] {
        let (whole, begins) = log(salt);
        for sector in (begins[1]..begins[2] - size).step_by(size) {
            let mut damaged = whole.clone();
            damaged[sector..sector + size].fill(0);
            assert!(is_damaged(&damaged), "sector of {size} at {sector}");
        }
    }
}

#[test]
fn every_flipped_bit_is_damage() {
    for salt in SALTS {
        let (whole, begins) = log(salt);
        for at in 0..whole.len() {
            // Of a batch's sequence number only the order counts.
            let in_batch = at - begins.iter().rev().find(|begin| **begin <= at).expect("the first is 0");
            if (5..13).contains(&in_batch) || (300..8700).contains(&in_batch) && at % 97 != 0 {
                continue;
            }
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            damaged.extend([0; 100]);
            assert!(is_damaged(&damaged), "byte {at}");
        }
    }
}

/// A batch without items has the same checksum everywhere, and one with items can be made by a client as
/// well.
fn made_by_a_client(begin: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.push(START);
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(4u64.to_le_bytes());
    bytes.push(END);
    bytes.extend(xxh3_64(&[]).to_le_bytes());
    bytes.extend(MAGIC);
    let begin = begin + bytes.len() as u64;
    let mut end = LogEnd { bytes: begin, salt: Some(*b"another's salt.."), ..LogEnd::default() };
    write_batch(&mut bytes, &mut end, 4, b"made by a client");
    bytes
}

#[test]
fn bytes_of_a_document_are_not_taken_for_a_batch() {
    let (mut whole, _) = log(Some(SALT));
    let mut end = judge(&whole).end;
    let begin = whole.len();
    // Its link says the right place, too.
    let mut value = vec![7; 4000];
    let item = BATCH_HEADER + 2 * ITEM_HEADER + LINK_KEY.len() + LINK_BYTES[0] + 3;
    value.extend(made_by_a_client((begin + item + 4000) as u64));
    value.extend([7; 5000]);
    write_batch(&mut whole, &mut end, 4, &value);
    assert_eq!(judge(&whole).rest, LogTailState::Blank);
    whole.truncate(whole.len() - 500);
    assert!(is_torn(&whole));
}

#[test]
fn a_batch_at_another_place_is_not_one_of_the_log() {
    let (mut whole, begins) = log(Some(SALT));
    let doubled = whole[begins[2]..].to_vec();
    let mut torn = whole.clone();
    torn.extend(&doubled[..doubled.len() - 3000]);
    assert!(is_torn(&torn));
    whole.extend(&doubled);
    assert!(is_damaged(&whole), "a whole batch that does not go on where the log ends");
}

#[test]
fn a_log_of_an_earlier_version_goes_on_with_links_and_back() {
    let (mut log, _) = log(None);
    let mut end = LogEnd { salt: Some(SALT), ..judge(&log).end };
    write_batch(&mut log, &mut end, 4, &[4; 3000]);
    assert_eq!((judge(&log).rest, judge(&log).end.is_linked), (LogTailState::Blank, true));
    // An earlier version writes on, and then this one again.
    let mut plain = LogEnd { salt: None, ..end };
    write_batch(&mut log, &mut plain, 5, &[5; 3000]);
    assert_eq!((judge(&log).rest, judge(&log).end.is_linked), (LogTailState::Blank, false));
    let mut end = judge(&log).end;
    assert_eq!(end.salt, Some(SALT));
    write_batch(&mut log, &mut end, 6, &[6; 3000]);
    assert_eq!((judge(&log).rest, judge(&log).end.is_linked), (LogTailState::Blank, true));
}

/// Two batches that were synced, and three that were not; where each begins, and where the log ends.
fn unsynced_log() -> (Vec<u8>, Vec<usize>, LogEnd) {
    let (mut log, mut begins) = (Vec::new(), Vec::new());
    let mut end = LogEnd { salt: Some(SALT), ..LogEnd::default() };
    let mut synced = 0;
    for sequence in 1..=5 {
        begins.push(log.len());
        if sequence <= 3 {
            synced = end.bytes;
        }
        write_batch_after(&mut log, &mut end, synced, (sequence, &[sequence as u8; 3000]));
    }
    (log, begins, end)
}

/// A loss of power keeps any of the sectors that were written since the last sync, and blanks or an earlier
/// content in place of the others.
#[test]
fn sectors_of_what_was_not_synced_are_lost_in_any_combination() {
    let (whole, begins, _) = unsynced_log();
    assert_eq!(judge(&whole).rest, LogTailState::Blank);
    let mut draw = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) % below
    };
    for size in [512, 4096] {
        for _ in 0..2000 {
            let mut torn = whole.clone();
            let lost = 1 + next(8);
            for sector in (begins[2] - begins[2] % size..whole.len()).step_by(size) {
                if next(8) >= lost {
                    continue;
                }
                // It is as it was before one of the batches was written.
                let before = begins[2 + next(3) as usize];
                let end = torn.len().min(sector + size);
                torn[sector.max(before).min(end)..end].fill(0);
            }
            let verdict = judge(&torn);
            assert!(!matches!(verdict.rest, LogTailState::Damaged(_)), "{:?}", verdict.rest);
            assert!(verdict.end.bytes >= begins[2] as u64, "what was synced is there");
        }
    }
}

#[test]
fn what_was_synced_before_a_later_batch_is_damaged() {
    let (mut whole, begins, mut end) = unsynced_log();
    let blank = |log: &[u8], sector: usize| {
        let mut blank = log.to_vec();
        blank[sector..sector + 512].fill(0);
        blank
    };
    let sectors: Vec<usize> = (begins[1].next_multiple_of(512)..begins[2] - 512).step_by(512).collect();
    assert!(sectors.iter().all(|sector| is_damaged(&blank(&whole, *sector))), "it was synced");
    let sectors: Vec<usize> = (begins[2].next_multiple_of(512)..begins[4] - 512).step_by(512).collect();
    assert!(sectors.iter().all(|sector| is_torn(&blank(&whole, *sector))), "it was not");
    let synced = end.bytes;
    write_batch_after(&mut whole, &mut end, synced, (6, &[6; 3000]));
    assert!(sectors.iter().all(|sector| is_damaged(&blank(&whole, *sector))), "by now it was");
}

/// The bytes of a link stay as they are: logs that were written with it are read by every later version.
#[test]
fn a_link_is_written_as_it_always_was() {
    let link = BatchLink { salt: SALT, begin: 0x0102, before: 0x1122_3344_5566_7788, synced: 0x0102 };
    let bytes = b"\x01a salt of a test\x02\x01\0\0\0\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11";
    assert_eq!(link.encode(), bytes);
    assert_eq!(BatchLink::decode(bytes), Some(link));
    // All before it is not synced yet.
    let link = BatchLink { synced: 0x0101, ..link };
    let mut bytes = bytes.to_vec();
    bytes[0] = 2;
    bytes.extend(b"\x01\x01\0\0\0\0\0\0");
    assert_eq!(link.encode(), bytes);
    assert_eq!(BatchLink::decode(&bytes), Some(link));
    bytes[33..].copy_from_slice(&0x0102_u64.to_le_bytes());
    assert_eq!(BatchLink::decode(&bytes), None, "one that says nothing more has the short form");
    assert_eq!(LINK_KEY, b"link");
}
