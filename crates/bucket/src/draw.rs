//! Draws of nodes and groups. They must never change.

use crate::BucketId;

/// Buckets that share this many of their lowest bits are placed together, up to the bits that a group's
/// documents share.
const PLACED_BITS: u8 = 20;

/// First bit that distinguishes documents of one group.
const GROUP_BITS: u8 = 32;

/// Contribution of a bucket to a draw.
///
/// Only the *values* of bits count, not their number. When a bucket splits, the half whose new bit is 0 keeps
/// its place, and the other half gets a new draw. From [`PLACED_BITS`] on a split moves nothing, so that
/// buckets do not move as they grow. Past [`GROUP_BITS`] every split makes a new draw: parts of one large
/// group belong on different nodes.
pub(crate) fn of_bucket(bucket: BucketId) -> u32 {
    let low = bucket.bits() & ((1 << PLACED_BITS) - 1);
    let high = bucket.bits() >> GROUP_BITS << GROUP_BITS;
    finish(low | high)
}

/// Contribution of a node to a draw.
pub(crate) fn of_node(key: u16) -> u32 {
    finish(1 << 32 | u64::from(key))
}

/// Contribution of a group to a draw. Its key is unique only within its parent group.
pub(crate) fn of_group(parent: u32, key: u16) -> u32 {
    finish((2 << 32 | u64::from(key)) ^ u64::from(parent) << 34)
}

/// Draw of a node or group for a bucket; all values are equally likely. (The finalizer of MurmurHash3.)
#[inline(always)]
fn draw(bucket: u32, member: u32) -> u32 {
    let mut bits = bucket ^ member;
    bits = (bits ^ bits >> 16).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ bits >> 13).wrapping_mul(0xc2b2_ae35);
    bits ^ bits >> 16
}

/// Number of draws computed at once; a multiple of every vector register's lanes.
pub(crate) const DRAWS_PER_BATCH: usize = 64;

/// Draws of up to [`DRAWS_PER_BATCH`] members for a bucket; returns the highest.
pub(crate) fn draw_all(bucket: u32, members: &[u32], draws: &mut [u32; DRAWS_PER_BATCH]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the check above found the CPU feature that the function needs.
            return unsafe { draw_all_avx512(bucket, members, draws) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the check above found the CPU feature that the function needs.
            return unsafe { draw_all_avx2(bucket, members, draws) };
        }
    }
    draw_all_plain(bucket, members, draws)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn draw_all_avx512(bucket: u32, members: &[u32], draws: &mut [u32; DRAWS_PER_BATCH]) -> u32 {
    draw_all_plain(bucket, members, draws)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn draw_all_avx2(bucket: u32, members: &[u32], draws: &mut [u32; DRAWS_PER_BATCH]) -> u32 {
    draw_all_plain(bucket, members, draws)
}

/// Common body of all forms. With fewer members, the excess draws are meaningless.
#[inline(always)]
fn draw_all_plain(bucket: u32, members: &[u32], draws: &mut [u32; DRAWS_PER_BATCH]) -> u32 {
    draws.iter_mut().zip(members).for_each(|(slot, member)| *slot = draw(bucket, *member));
    draws.iter().take(members.len()).fold(0, |highest, draw| highest.max(*draw))
}

/// Makes draws of different capacities comparable: the logarithm of `u^(1/capacity)`, where `u` is the draw
/// scaled to 1. The chance to win is thus proportional to the capacity.
pub(crate) fn score(draw: u32, capacity: f64) -> f64 {
    libm::log((f64::from(draw) + 1.0) / TOP) / capacity
}

/// Lower bound of the draws that reach a score with a capacity of at most `capacity`. Some draws above the
/// bound may not reach it either.
pub(crate) fn least(score: f64, capacity: f64) -> u32 {
    // exp(x) is at least 1 + x, and hardly more for winning scores. The bound is lowered slightly because
    // both sides are rounded.
    ((1.0 + score * capacity) * TOP * (1.0 - 1e-9) - 2.0) as u32
}

const TOP: f64 = 4_294_967_296.0;

/// The upper half of SplitMix64's finalizer.
fn finish(bits: u64) -> u32 {
    let mut bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ bits >> 31) >> 32) as u32
}
