//! The numbers that nodes and groups draw. None of this may ever change.

use millrace_bucket::BucketId;

/// Buckets that share this many of their lowest bits stay together, up to the bits that a group's documents share.
const PLACED_BITS: u8 = 20;

/// From this bit on, bits tell documents of one group apart.
const GROUP_BITS: u8 = 32;

/// What a bucket brings to a draw.
///
/// Only the *values* of bits count, not how many are used: when a bucket splits, the half whose new bit is 0 stays where it is,
/// and the other half draws anew. From [`PLACED_BITS`] on a split moves nothing, so that buckets do not travel as they grow. Past
/// [`GROUP_BITS`] every split draws anew: parts of one large group belong on different nodes.
pub(crate) fn of_bucket(bucket: BucketId) -> u32 {
    let low = bucket.bits() & ((1 << PLACED_BITS) - 1);
    let high = bucket.bits() >> GROUP_BITS << GROUP_BITS;
    finish(low | high)
}

/// What a node brings.
pub(crate) fn of_node(key: u16) -> u32 {
    finish(1 << 32 | u64::from(key))
}

/// What a group brings. Its key is its own only among the groups of one group.
pub(crate) fn of_group(parent: u32, key: u16) -> u32 {
    finish((2 << 32 | u64::from(key)) ^ u64::from(parent) << 34)
}

/// The draw of a node or group for a bucket: all values are equally likely. (The finisher of MurmurHash3.)
#[inline(always)]
fn draw(bucket: u32, member: u32) -> u32 {
    let mut bits = bucket ^ member;
    bits = (bits ^ bits >> 16).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ bits >> 13).wrapping_mul(0xc2b2_ae35);
    bits ^ bits >> 16
}

/// How many draws are made in one go; a multiple of every vector register.
pub(crate) const TOGETHER: usize = 64;

/// The draws of up to [`TOGETHER`] members for a bucket, and the highest of them.
pub(crate) fn draw_all(bucket: u32, members: &[u32], draws: &mut [u32; TOGETHER]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature that the function needs was just found.
            return unsafe { draw_all_avx512(bucket, members, draws) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature that the function needs was just found.
            return unsafe { draw_all_avx2(bucket, members, draws) };
        }
    }
    draw_all_plain(bucket, members, draws)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn draw_all_avx512(bucket: u32, members: &[u32], draws: &mut [u32; TOGETHER]) -> u32 {
    draw_all_plain(bucket, members, draws)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn draw_all_avx2(bucket: u32, members: &[u32], draws: &mut [u32; TOGETHER]) -> u32 {
    draw_all_plain(bucket, members, draws)
}

/// The one body of all forms. Where there are fewer members, the other draws are of no one.
#[inline(always)]
fn draw_all_plain(bucket: u32, members: &[u32], draws: &mut [u32; TOGETHER]) -> u32 {
    draws.iter_mut().zip(members).for_each(|(slot, member)| *slot = draw(bucket, *member));
    draws.iter().take(members.len()).fold(0, |highest, draw| highest.max(*draw))
}

/// A draw made comparable between capacities: the logarithm of `u^(1/capacity)`, where `u` is the draw as a number up to 1. So the chance
/// to win is in proportion to the capacity.
pub(crate) fn score(draw: u32, capacity: f64) -> f64 {
    libm::log((f64::from(draw) + 1.0) / TOP) / capacity
}

/// No draw below this has such a score with a capacity of at most `capacity`; some above it may not have it either.
pub(crate) fn least(score: f64, capacity: f64) -> u32 {
    // exp(x) is at least 1 + x, and hardly more for the scores that win. A little lower, for the rounding of both sides.
    ((1.0 + score * capacity) * TOP * (1.0 - 1e-9) - 2.0) as u32
}

const TOP: f64 = 4_294_967_296.0;

/// The finisher of SplitMix64, its upper half.
fn finish(bits: u64) -> u32 {
    let mut bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ bits >> 31) >> 32) as u32
}
