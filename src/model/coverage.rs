//! Coverage decisions: hit counts and their buckets.

/// The bucket bit of every hit count, as AFL++ has them: 1, 2, 3, 4-7, 8-15,
/// 16-31, 32-127, 128 and more.
const BUCKETS: [u8; 256] = buckets();

const fn buckets() -> [u8; 256] {
    let mut table = [0; 256];
    let mut count = 1;
    while count < 256 {
        table[count] = match count {
            1 => 1,
            2 => 2,
            3 => 4,
            4..=7 => 8,
            8..=15 => 16,
            16..=31 => 32,
            32..=127 => 64,
            _ => 128,
        };
        count += 1;
    }
    table
}

/// Turns raw hit counts into bucket bits. Lengths are equal.
pub fn classify(counts: &[u8], bits: &mut [u8]) {
    debug_assert_eq!(counts.len(), bits.len());
    for (bit, count) in bits.iter_mut().zip(counts) {
        *bit = BUCKETS[usize::from(*count)];
    }
}

/// The same, in place.
pub fn classify_in_place(counts: &mut [u8]) {
    for count in counts {
        *count = BUCKETS[usize::from(*count)];
    }
}
