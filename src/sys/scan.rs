//! The hot scan: are all bits of a candidate in a map of known bits? Zero
//! blocks of the candidate are skipped before the known map is touched.
//! Other threads and processes set bits in the known map meanwhile; it is read
//! with loads that the compiler knows nothing about, and as bits are only ever
//! added, whatever mix of old and new a load sees is a subset of what is there.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};

/// Asks the processor what it can. It is remembered, and children of a fork
/// have it from their parent: in a virtual machine each question is dear (P12).
pub(super) fn prepare() {
    #[cfg(target_arch = "x86_64")]
    let _ = std::arch::is_x86_feature_detected!("avx2");
}

/// Whether every bit of `candidate` is set in the map at `known`.
///
/// # Safety
/// `known` is aligned to 8 and readable for `candidate.len()` bytes.
pub(super) unsafe fn covers(candidate: &[u8], known: *const u8) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the caller's contract; the feature is there.
            return unsafe { x86::covers_avx2(candidate, known) };
        }
        // SAFETY: the caller's contract; SSE2 is part of the architecture.
        unsafe { x86::covers_sse2(candidate, known) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's contract.
    unsafe {
        covers_words(candidate, known, 0)
    }
}

/// The rule itself, eight bytes at a time, from `start` (a multiple of 8) on.
///
/// # Safety
/// As [`covers`].
unsafe fn covers_words(candidate: &[u8], known: *const u8, start: usize) -> bool {
    let mut at = start;
    while at + 8 <= candidate.len() {
        let mut word = [0; 8];
        word.copy_from_slice(&candidate[at..at + 8]);
        let word = u64::from_ne_bytes(word);
        if word != 0 {
            // SAFETY: within the map, aligned; only ever accessed atomically.
            let known = unsafe { &*known.add(at).cast::<AtomicU64>() };
            if word & !known.load(Ordering::Relaxed) != 0 {
                return false;
            }
        }
        at += 8;
    }
    candidate[at..].iter().enumerate().all(|(offset, bits)| {
        // SAFETY: within the map.
        let known = unsafe { &*known.add(at + offset).cast::<AtomicU8>() };
        bits & !known.load(Ordering::Relaxed) == 0
    })
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::*;

    use super::covers_words;

    /// # Safety
    /// As [`super::covers`]; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn covers_avx2(candidate: &[u8], known: *const u8) -> bool {
        const BLOCK: usize = 128;
        let whole = candidate.len() / BLOCK * BLOCK;
        let mut at = 0;
        while at < whole {
            // SAFETY: four vectors within the candidate.
            let part =
                |n: usize| unsafe { _mm256_loadu_si256(candidate.as_ptr().add(at + n).cast()) };
            let (a, b, c, d) = (part(0), part(32), part(64), part(96));
            let any = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
            if _mm256_testz_si256(any, any) == 0 {
                // SAFETY: within the map, which is as long as the candidate.
                let is_known = |bits, n| unsafe {
                    _mm256_testc_si256(load_avx2(known.add(at + n)), bits) == 1
                };
                if !(is_known(a, 0) && is_known(b, 32) && is_known(c, 64) && is_known(d, 96)) {
                    return false;
                }
            }
            at += BLOCK;
        }
        // SAFETY: the caller's contract.
        unsafe { covers_words(candidate, known, whole) }
    }

    /// # Safety
    /// As [`super::covers`].
    pub(super) unsafe fn covers_sse2(candidate: &[u8], known: *const u8) -> bool {
        const BLOCK: usize = 64;
        let whole = candidate.len() / BLOCK * BLOCK;
        let mut at = 0;
        while at < whole {
            // SAFETY: four vectors within the candidate; SSE2 is always there.
            let part = |n: usize| unsafe { _mm_loadu_si128(candidate.as_ptr().add(at + n).cast()) };
            let (a, b, c, d) = (part(0), part(16), part(32), part(48));
            // SAFETY: SSE2 is part of the architecture.
            let empty = |bits| unsafe {
                _mm_movemask_epi8(_mm_cmpeq_epi8(bits, _mm_setzero_si128())) == 0xffff
            };
            // SAFETY: as above.
            let any = unsafe { _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d)) };
            if !empty(any) {
                // SAFETY: within the map, which is as long as the candidate.
                let is_known = |bits, n| unsafe {
                    empty(_mm_andnot_si128(load_sse2(known.add(at + n)), bits))
                };
                if !(is_known(a, 0) && is_known(b, 16) && is_known(c, 32) && is_known(d, 48)) {
                    return false;
                }
            }
            at += BLOCK;
        }
        // SAFETY: the caller's contract.
        unsafe { covers_words(candidate, known, whole) }
    }

    /// # Safety
    /// 32 readable bytes; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn load_avx2(from: *const u8) -> __m256i {
        let value;
        // SAFETY: one load of memory that is readable, by the contract.
        unsafe {
            asm!("vmovdqu {}, ymmword ptr [{}]", out(ymm_reg) value, in(reg) from,
                options(readonly, nostack, preserves_flags));
        }
        value
    }

    /// # Safety
    /// 16 readable bytes.
    unsafe fn load_sse2(from: *const u8) -> __m128i {
        let value;
        // SAFETY: one load of memory that is readable, by the contract.
        unsafe {
            asm!("movdqu {}, xmmword ptr [{}]", out(xmm_reg) value, in(reg) from,
                options(readonly, nostack, preserves_flags));
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of words, so that it is aligned.
    fn known(bytes: &[u8]) -> Vec<u64> {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        for (at, byte) in bytes.iter().enumerate() {
            words[at / 8] |= u64::from(*byte) << (at % 8 * 8);
        }
        words
    }

    fn all(candidate: &[u8], map: &[u8]) -> Vec<bool> {
        let words = known(map);
        let place = words.as_ptr().cast();
        // SAFETY: aligned, and as long as the candidate.
        unsafe {
            let mut found = vec![covers(candidate, place), covers_words(candidate, place, 0)];
            #[cfg(target_arch = "x86_64")]
            found.push(x86::covers_sse2(candidate, place));
            found
        }
    }

    /// Every length around the block sizes, one bit missing at every place.
    #[test]
    fn every_way_finds_every_missing_bit() {
        for len in [0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 200, 256, 300] {
            let full = vec![0xa5; len];
            assert!(all(&full, &full).iter().all(|found| *found), "{len}");
            let empty = vec![0; len];
            assert!(all(&empty, &empty).iter().all(|found| *found), "{len}");
            for at in 0..len {
                let mut map = full.clone();
                map[at] &= !1;
                assert!(all(&full, &map).iter().all(|found| !found), "{len} at {at}");
                let mut one = empty.clone();
                one[at] = 1;
                assert!(all(&one, &full).iter().all(|found| *found), "{len} at {at}");
                assert!(all(&one, &map).iter().all(|found| !found), "{len} at {at}");
            }
        }
    }
}
