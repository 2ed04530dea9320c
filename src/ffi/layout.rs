//! What programs compiled against the header rely on, checked at compile time.

use std::mem::{align_of, offset_of, size_of};

use super::types::*;

/// The struct ends where its last field ends: no padding that an older caller
/// could leave unset.
macro_rules! no_tail {
    ($name:ident, $last:ident: $kind:ty) => {
        const _: () = assert!(size_of::<$name>() == offset_of!($name, $last) + size_of::<$kind>());
    };
}

no_tail!(symlease_options, reserved: u32);
no_tail!(symlease_claim_options, flags: u32);
no_tail!(symlease_view, holder: i32);

/// The offsets of fields and the size as C lays them out on 64-bit machines.
#[cfg(target_pointer_width = "64")]
macro_rules! layout {
    ($name:ident, $size:literal, $($field:ident: $offset:literal),+) => {
        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(offset_of!($name, $field) == $offset);)+
        };
    };
}

#[cfg(target_pointer_width = "64")]
mod wide {
    use super::*;

    layout!(symlease_options, 160, struct_size: 0, owner: 8, map_identity: 16, work_root: 24,
        target_root: 32, coverage_root: 40, map_size: 48, work_ttl: 56, target_ttl: 64,
        lock_timeout: 72, clock_skew: 80, coverage_ttl: 88, clock: 96, clock_user: 104,
        worker: 112, lease_shards: 116, coverage_shards: 120, coordinator_index: 124,
        coordinator_count: 128, file_mode: 132, flags: 136, engine: 140, durability: 144,
        expiry: 148, session: 152, reserved: 156);
    layout!(symlease_lease, 552, id: 0, token: 65, fence: 456, attempts: 464, steals: 468,
        updated: 472, ttl: 480, reserved: 488);
    layout!(symlease_group, 992, targets: 0, count: 512, token: 516, fence: 904, updated: 912,
        ttl: 920, reserved: 928);
    layout!(symlease_holder, 336, owner: 0, remaining: 256, target: 264, reserved: 272);
    layout!(symlease_heartbeat_stats, 96, work_ok: 0, work_failed: 8, target_ok: 16,
        target_failed: 24, reserved: 32);
    layout!(symlease_counts, 104, leased: 0, committing: 8, expired: 16, done: 24, corrupt: 32,
        reserved: 40);
    layout!(symlease_map, 16, bytes: 0, len: 8);
    layout!(symlease_result, 216, staged: 0, name: 8, corpus: 16, map: 24, edges: 40,
        edge_count: 48, map_kind: 56, flags: 60, novel_bits: 64, outcome: 72, status: 76,
        digest: 80, reserved: 152);
    layout!(symlease_sparse, 16, edges: 0, count: 8);
    layout!(symlease_counters, 128, locks: 0, contended: 8, timeouts: 16, wait_ns: 24,
        retries: 32, syncs: 40, cache_hits: 48, indeterminate: 56, reserved: 64);
    layout!(symlease_claim_options, 48, struct_size: 0, owner: 8, ttl: 16, new_ttl: 24, now: 32,
        worker: 40, flags: 44);
    layout!(symlease_view, 136, struct_size: 0, id: 8, owner: 16, previous_owner: 24, token: 32,
        payload: 40, manifest: 48, json: 56, session: 64, fence: 72, target: 80, updated: 88,
        ttl: 96, remaining: 104, worker: 112, attempts: 116, steals: 120, status: 124, life: 128,
        holder: 132);
}

const _: () = {
    assert!(size_of::<symlease_edge>() == 8 && align_of::<symlease_edge>() == 4);
    assert!(offset_of!(symlease_edge, index) == 0 && offset_of!(symlease_edge, bits) == 4);
    assert!(size_of::<symlease_view_fn>() == size_of::<usize>());
    assert!(size_of::<symlease_novel_fn>() == size_of::<usize>());
};
