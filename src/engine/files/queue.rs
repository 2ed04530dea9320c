//! The queue of waiters (L8): who may try a lock next, and who is woken when
//! one is free. flock decides; whatever the shared page says, wrong or garbage,
//! costs time only. Without a page: jittered back-off.

use std::sync::atomic::Ordering::SeqCst;

use crate::sys::waiters::{Page, Slot, SLOTS};
use crate::sys::{Stat, Sys};

/// The first and the longest pause without a queue, in nanoseconds.
const PAUSE_FIRST: u64 = 30_000;
const PAUSE_LAST: u64 = 2_000_000;
/// How long a waiter sleeps at a time. Peers that know of no queue look every
/// 2 ms: a shorter time would starve them.
const TURN: u64 = 2_000_000;
/// A waiter that has not shown itself for so long is passed over.
const STAMP_MAX: u64 = 20_000_000;
/// One that was told and has not come within this time is, too.
const GRANT_MAX: u64 = 1_000_000;
/// A slot of so old a waiter may be taken over, when none is free.
const LOST: u64 = 1_000_000_000;
/// A waiter tries after so long, whatever the page says.
const OVERDUE: u64 = 50_000_000;
/// The pause after having been told wrongly that the lock is free.
const MISLED: u64 = 100_000;
/// After so many sleeps in a row cut short, by signals or by a writer of
/// garbage, comes one that the page cannot cut.
const CUT_MAX: u32 = 8;
/// How often a waiter queues anew whose slot was taken.
const QUEUE_MAX: u32 = 4;

/// Which lock: never 0. Two locks with one key cost time only.
pub fn key(stat: &Stat) -> u64 {
    mix(stat.inode ^ mix(stat.device)) | 1
}

fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Whether a time lies at most `most` back. The clock is looked at after the
/// time was read, so one that lies ahead is from no honest writer.
fn within(sys: &dyn Sys, time: u64, most: u64) -> bool {
    sys.monotonic()
        .checked_sub(time)
        .is_some_and(|age| age < most)
}

/// Whether a waiter runs, as far as the page tells.
fn lives(sys: &dyn Sys, slot: &Slot) -> bool {
    let grant = slot.grant.load(SeqCst);
    within(sys, slot.stamp.load(SeqCst), STAMP_MAX) && (grant == 0 || within(sys, grant, GRANT_MAX))
}

fn waiters(page: &'static Page, key: u64) -> impl Iterator<Item = (usize, &'static Slot)> {
    let keys = page.keys.iter().enumerate();
    keys.filter(move |(_, found)| found.load(SeqCst) == key)
        .map(|(at, _)| (at, &page.slots[at]))
}

/// Whether somebody queues for a lock, so that a newcomer goes behind.
pub fn waited_for(sys: &dyn Sys, key: u64) -> bool {
    sys.waiters(false)
        .is_some_and(|page| waiters(page, key).any(|(_, slot)| lives(sys, slot)))
}

/// After a lock was freed: tells its oldest living waiter, and no other.
pub fn pass_on(sys: &dyn Sys, key: u64) {
    let Some(page) = sys.waiters(false) else {
        return;
    };
    for _ in 0..3 {
        let oldest = waiters(page, key)
            .filter(|(_, slot)| slot.grant.load(SeqCst) == 0 && lives(sys, slot))
            .min_by_key(|(at, slot)| (slot.ticket.load(SeqCst), *at));
        let Some((_, slot)) = oldest else {
            return;
        };
        let now = sys.monotonic().max(1);
        if slot.grant.compare_exchange(0, now, SeqCst, SeqCst).is_ok() {
            slot.wake();
            return;
        }
    }
}

/// A place in the page.
struct Queued {
    page: &'static Page,
    at: usize,
    owner: u64,
}

impl Queued {
    fn slot(&self) -> &'static Slot {
        &self.page.slots[self.at]
    }

    /// Takes a free slot, or one whose owner is gone.
    fn find(sys: &dyn Sys, owner: u64) -> Option<Queued> {
        let page = sys.waiters(true)?;
        let start = owner as usize % SLOTS;
        for lost in [false, true] {
            for at in (start..SLOTS).chain(0..start) {
                let slot = &page.slots[at];
                let before = slot.owner.load(SeqCst);
                let takes = match lost {
                    false => before == 0,
                    true => !within(sys, slot.stamp.load(SeqCst), LOST),
                };
                let change = || slot.owner.compare_exchange(before, owner, SeqCst, SeqCst);
                if takes && change().is_ok() {
                    page.keys[at].store(0, SeqCst);
                    slot.grant.store(0, SeqCst);
                    return Some(Queued { page, at, owner });
                }
            }
        }
        None
    }

    /// Says that its owner runs, and for which lock. False where somebody else
    /// has the slot.
    fn show(&self, sys: &dyn Sys, ticket: u64, key: u64) -> bool {
        let slot = self.slot();
        if slot.owner.load(SeqCst) != self.owner {
            return false;
        }
        slot.ticket.store(ticket, SeqCst);
        slot.stamp.store(sys.monotonic(), SeqCst);
        self.page.keys[self.at].store(key, SeqCst);
        true
    }

    /// Whether nobody who lives has waited longer.
    fn oldest(&self, sys: &dyn Sys, ticket: u64, key: u64) -> bool {
        !waiters(self.page, key).any(|(at, slot)| {
            at != self.at && (slot.ticket.load(SeqCst), at) < (ticket, self.at) && lives(sys, slot)
        })
    }

    /// Leaves. Whether it had been told that the lock is free.
    fn leave(&self) -> bool {
        let slot = self.slot();
        if slot.owner.load(SeqCst) != self.owner {
            return false;
        }
        self.page.keys[self.at].store(0, SeqCst);
        let told = slot.grant.load(SeqCst) != 0;
        let _ = slot.owner.compare_exchange(self.owner, 0, SeqCst, SeqCst);
        told
    }
}

/// One wait, from the first try to the last. Leaves the queue when dropped.
pub struct Turn<'a> {
    sys: &'a dyn Sys,
    queued: Option<Queued>,
    key: u64,
    /// When it came (monotonic).
    came: u64,
    tried: u64,
    /// Told that the lock is free, for the try that comes now.
    told: bool,
    /// How long the next sleep is, off the page; 0: on it.
    plain: u64,
    /// Sleeps in a row that were cut short for no reason.
    cut: u32,
    pause: u64,
    random: u64,
    left: u32,
}

impl<'a> Turn<'a> {
    /// A newcomer.
    pub fn new(sys: &'a dyn Sys, now: u64) -> Turn<'a> {
        Turn {
            sys,
            queued: None,
            key: 0,
            came: now,
            tried: now,
            told: false,
            plain: 0,
            cut: 0,
            pause: PAUSE_FIRST,
            random: 0,
            left: QUEUE_MAX,
        }
    }

    /// Whether it stands in the queue.
    pub fn queued(&self) -> bool {
        self.queued.is_some()
    }

    /// Whether to try the lock now.
    pub fn may_try(&mut self) -> bool {
        let Some(queued) = &self.queued else {
            return true;
        };
        if !queued.show(self.sys, self.came, self.key) {
            self.queued = None;
            return true;
        }
        self.told = queued.slot().grant.load(SeqCst) != 0;
        self.told
            || queued.oldest(self.sys, self.came, self.key)
            || !within(self.sys, self.tried, OVERDUE)
    }

    /// The lock was not free, or somebody goes first.
    pub fn missed(&mut self, key: u64) {
        self.key = key;
        self.tried = self.sys.monotonic();
        if let (true, Some(queued)) = (self.told, &self.queued) {
            queued.slot().grant.store(0, SeqCst);
            self.plain = MISLED;
        }
        self.told = false;
    }

    /// The lock is taken: nobody needs to be told.
    pub fn served(&mut self) {
        if let Some(queued) = self.queued.take() {
            queued.leave();
        }
    }

    /// Waits for a reason to try again, for `most` nanoseconds at the most.
    pub fn wait(&mut self, most: u64) {
        if self.queued.is_none() && self.left > 0 {
            self.left -= 1;
            let owner = self.number() | 1;
            self.queued = Queued::find(self.sys, owner);
            if let Some(queued) = &self.queued {
                // Seen from here on. Who freed the lock before knew nothing of
                // it, so the caller looks once more before it sleeps.
                queued.show(self.sys, self.came, self.key);
                return;
            }
            self.left = 0;
        }
        let plain = std::mem::take(&mut self.plain);
        let Some(slot) = self.queued.as_ref().map(Queued::slot) else {
            let time = self.spread(self.pause);
            self.pause = (self.pause * 2).min(PAUSE_LAST);
            return self.sys.sleep(time.min(most));
        };
        if plain > 0 {
            return self.sys.sleep(plain.min(most));
        }
        let seen = slot.word.load(SeqCst);
        if slot.grant.load(SeqCst) != 0 {
            return;
        }
        let time = TURN * 3 / 4 + self.number() % (TURN / 2);
        let short = slot.sleep(seen, time.min(most));
        self.cut = match short && slot.grant.load(SeqCst) == 0 {
            true => self.cut + 1,
            false => 0,
        };
        if self.cut == CUT_MAX {
            (self.cut, self.plain) = (0, TURN / 2);
        }
    }

    /// Between half of a time and one and a half.
    fn spread(&mut self, time: u64) -> u64 {
        time / 2 + self.number() % time.max(1)
    }

    /// A random number: the system's first, then a sequence from it.
    fn number(&mut self) -> u64 {
        if self.random == 0 {
            let mut bytes = [0u8; 8];
            let _ = self.sys.random(&mut bytes);
            self.random = u64::from_ne_bytes(bytes) ^ self.came ^ u64::from(self.sys.process());
        }
        self.random = mix(self.random);
        self.random
    }
}

impl Drop for Turn<'_> {
    /// Who gives up lets the next one know what it was told.
    fn drop(&mut self) {
        if self.queued.take().is_some_and(|queued| queued.leave()) {
            pass_on(self.sys, self.key);
        }
    }
}
