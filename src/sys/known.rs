//! Memory of known coverage bits, shared between a process and the children
//! that it forks, so that they learn from each other. Bits are only ever added.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU8, Ordering};

use super::scan::covers;
use crate::record::shard::{Edge, INDEX_LIMIT};

/// Bytes before the map: one page, so that the map is aligned.
const HEADER: usize = 4096;

/// A map of every index that there can be. Untouched pages cost nothing.
pub struct Known {
    start: NonNull<u8>,
}

// SAFETY: the memory is only accessed atomically, or read by loads that accept
// any mix of old and new; it lives until the handle is dropped.
unsafe impl Send for Known {}
// SAFETY: as above.
unsafe impl Sync for Known {}

impl Known {
    /// Nothing known. `None`: the system gives no memory, and nothing is lost
    /// but speed.
    pub fn new() -> Option<Known> {
        // SAFETY: a fresh mapping; no address is asked for.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                Known::size(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(start.cast()).map(|start| Known { start })
    }

    const fn size() -> usize {
        HEADER + INDEX_LIMIT as usize
    }

    fn dropped(&self) -> &AtomicU32 {
        // SAFETY: the first word of the mapping, aligned, only used atomically.
        unsafe { &*self.start.as_ptr().cast() }
    }

    fn map(&self) -> *const u8 {
        // SAFETY: within the mapping.
        unsafe { self.start.as_ptr().add(HEADER) }
    }

    fn byte(&self, index: u32) -> Option<&AtomicU8> {
        // SAFETY: an index below the limit lies within the mapping.
        (index < INDEX_LIMIT).then(|| unsafe { &*self.map().add(index as usize).cast() })
    }

    /// From now on nothing is known any more, in every process that shares
    /// this memory: the authority is another one (C8). For ever, so that a
    /// process that still learns from the old one cannot undo it.
    pub fn forget(&self) {
        self.dropped().store(1, Ordering::SeqCst);
    }

    /// Whether all bits of a dense map are known.
    pub fn covers(&self, map: &[u8]) -> bool {
        if map.len() > INDEX_LIMIT as usize {
            return false;
        }
        // SAFETY: the map is page-aligned and as long as any index.
        let all = unsafe { covers(map, self.map()) };
        all && self.dropped().load(Ordering::SeqCst) == 0
    }

    /// Whether all bits of a list are known.
    pub fn covers_list(&self, edges: impl Iterator<Item = Edge>) -> bool {
        for (index, bits) in edges {
            let Some(byte) = self.byte(index) else {
                return false;
            };
            if bits & !byte.load(Ordering::Relaxed) != 0 {
                return false;
            }
        }
        self.dropped().load(Ordering::SeqCst) == 0
    }

    /// Notes durable bits.
    pub fn learn(&self, edges: &[Edge]) {
        for (index, bits) in edges {
            if let Some(byte) = self.byte(*index) {
                if bits & !byte.load(Ordering::Relaxed) != 0 {
                    byte.fetch_or(*bits, Ordering::Relaxed);
                }
            }
        }
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made in `new`, unmapped once; children
        // have their own mapping of the memory.
        unsafe { libc::munmap(self.start.as_ptr().cast(), Known::size()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_it_learned_and_forgets_for_ever() {
        let known = Known::new().unwrap();
        let last = INDEX_LIMIT - 1;
        assert!(known.covers(&[0; 100]) && !known.covers(&[0, 1]));
        known.learn(&[(1, 3), (last, 128), (INDEX_LIMIT, 1)]);
        assert!(known.covers(&[0, 1]) && known.covers(&[0, 3]) && !known.covers(&[0, 7]));
        assert!(known.covers_list([(1, 2), (last, 128)].into_iter()));
        assert!(!known.covers_list([(last, 1)].into_iter()));
        assert!(!known.covers_list([(INDEX_LIMIT, 0)].into_iter()));
        assert!(!known.covers(&vec![0; INDEX_LIMIT as usize + 1]));
        known.forget();
        known.learn(&[(1, 3)]);
        assert!(!known.covers(&[0, 1]) && !known.covers_list([(1, 1)].into_iter()));
    }

    /// Children learn for their parent.
    #[test]
    fn forked_children_share_it() {
        let known = Known::new().unwrap();
        // SAFETY: the child only uses atomics and _exit.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                known.learn(&[(7, 1)]);
                libc::_exit(0);
            }
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert!(known.covers_list([(7, 1)].into_iter()));
    }
}
