//! Memory of known coverage bits, shared between a process and the children
//! that it forks, so that they learn from each other. Bits are only ever added.
//! What they belong to stands beside them: which authority, and its map's size.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering};

use super::scan::{covers, prepare};
use crate::record::shard::{Edge, INDEX_LIMIT};

/// Bytes before the map: one page, so that the map is aligned.
const HEADER: usize = 4096;

/// Nanoseconds that a look at the authority's identity counts (C8).
const LOOK: u64 = 1_000_000_000;

/// An authority's random id.
pub type AuthorityId = u128;

/// States of [`Header::bound`].
const UNBOUND: u32 = 0;
const BINDING: u32 = 1;
const BOUND: u32 = 2;

/// What stands before the map; all zero in a fresh mapping.
#[repr(C)]
struct Header {
    dropped: AtomicU32,
    /// Who finds [`BINDING`] for ever, since a process died there, knows nothing.
    bound: AtomicU32,
    id: [AtomicU64; 2],
    /// When the identity was looked at last, on the machine's monotonic clock.
    looked: AtomicU64,
    /// Bytes of the map that merges fitted (C6); 0: nobody knows yet.
    size: AtomicU64,
}
const _: () = assert!(std::mem::size_of::<Header>() <= HEADER);

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
        prepare();
        // SAFETY: a fresh mapping; no address is asked for.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                Known::bytes(),
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

    const fn bytes() -> usize {
        HEADER + INDEX_LIMIT as usize
    }

    fn header(&self) -> &Header {
        // SAFETY: at the mapping's start, aligned; all of it is atomic.
        unsafe { &*self.start.as_ptr().cast() }
    }

    /// From now on its bits are those of this authority, seen at `now`. False:
    /// they are another one's, or nobody can tell.
    pub fn bind(&self, id: AuthorityId, now: u64) -> bool {
        let header = self.header();
        let first =
            header
                .bound
                .compare_exchange(UNBOUND, BINDING, Ordering::SeqCst, Ordering::SeqCst);
        if first.is_ok() {
            header.id[0].store((id >> 64) as u64, Ordering::SeqCst);
            header.id[1].store(id as u64, Ordering::SeqCst);
            header.looked.store(now, Ordering::SeqCst);
            header.bound.store(BOUND, Ordering::SeqCst);
        }
        self.id() == Some(id)
    }

    /// The authority that the bits belong to.
    pub fn id(&self) -> Option<AuthorityId> {
        let header = self.header();
        let part = |at: usize| AuthorityId::from(header.id[at].load(Ordering::SeqCst));
        let bound = header.bound.load(Ordering::SeqCst) == BOUND
            && header.dropped.load(Ordering::SeqCst) == 0;
        bound.then(|| part(0) << 64 | part(1))
    }

    /// Whether it is surely the authority that is there. The last look counts
    /// for a second; then `look` is asked. Another one, or none: all is
    /// forgotten (C8).
    pub fn is_current(
        &self,
        now: u64,
        look: impl FnOnce() -> Result<Option<AuthorityId>, ()>,
    ) -> bool {
        let Some(id) = self.id() else {
            return false;
        };
        let looked = self.header().looked.load(Ordering::SeqCst);
        if now.checked_sub(looked).is_some_and(|since| since < LOOK) {
            return true;
        }
        match look() {
            Ok(Some(there)) if there == id => {
                self.header().looked.store(now, Ordering::SeqCst);
                true
            }
            Ok(_) => {
                self.forget();
                false
            }
            Err(()) => false,
        }
    }

    /// Notes the size of the map, which a merge fitted.
    pub fn fit(&self, size: u64) {
        self.header().size.store(size, Ordering::SeqCst);
    }

    /// That size.
    pub fn size(&self) -> Option<u64> {
        let size = self.header().size.load(Ordering::SeqCst);
        (size != 0).then_some(size)
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
        self.header().dropped.store(1, Ordering::SeqCst);
    }

    /// Whether all bits of a dense map are known.
    pub fn covers(&self, map: &[u8]) -> bool {
        if map.len() > INDEX_LIMIT as usize {
            return false;
        }
        // SAFETY: the map is page-aligned and as long as any index.
        let all = unsafe { covers(map, self.map()) };
        all && self.header().dropped.load(Ordering::SeqCst) == 0
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
        self.header().dropped.load(Ordering::SeqCst) == 0
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
        unsafe { libc::munmap(self.start.as_ptr().cast(), Known::bytes()) };
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

    /// Bits belong to one authority, for a second after each look at it.
    #[test]
    fn another_authority_is_forgotten() {
        let known = Known::new().unwrap();
        let there = |id: AuthorityId| move || Ok(Some(id));
        let never = || -> Result<Option<AuthorityId>, ()> { panic!("looked too early") };
        assert!(!known.is_current(5, never), "bound to nothing");
        assert!(known.bind(7 << 64 | 9, 5) && known.bind(7 << 64 | 9, 6) && !known.bind(8, 6));
        assert!(known.is_current(5 + LOOK - 1, never));
        assert!(!known.is_current(5 + LOOK, || Err(())), "nobody can look");
        assert!(known.is_current(5 + LOOK, there(7 << 64 | 9)));
        assert!(known.is_current(4 + 2 * LOOK, never));
        assert!(known.is_current(3, there(7 << 64 | 9)), "a clock that fell");
        assert!(!known.is_current(3 + LOOK, || Ok(None)));
        assert!(!known.is_current(3 + LOOK, there(7 << 64 | 9)), "for ever");
        assert!(!known.bind(7 << 64 | 9, 4) && known.size().is_none());
        known.fit(64);
        assert_eq!(known.size(), Some(64));
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
