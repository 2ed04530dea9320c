//! Counters for those who watch, published beside the handle's session: with
//! the heartbeats, now and then, and when the handle is closed.

use std::sync::atomic::Ordering;

use super::Campaign;
use crate::error::Result;
use crate::record::id::hex;

/// Nanoseconds between two times.
const EVERY: u64 = 3_000_000_000;

impl Campaign {
    /// Publishes this handle's counters, unless that was done less than a few
    /// seconds ago. A handle without a session has none to publish.
    pub fn publish_counters(&self) -> Result<()> {
        let now = self.engine.monotonic();
        let last = self.published.load(Ordering::Relaxed);
        if last != 0 && now.saturating_sub(last) < EVERY {
            return Ok(());
        }
        // One thread does it; the others have heartbeats to send.
        let won =
            self.published
                .compare_exchange(last, now.max(1), Ordering::Relaxed, Ordering::Relaxed);
        match won {
            Ok(_) => self.publish_now(),
            Err(_) => Ok(()),
        }
    }

    fn publish_now(&self) -> Result<()> {
        // Not the caller's clock: at the close it may be gone.
        let handle = || self.handle();
        self.engine.publish_counters(&handle, &self.settings.owner)
    }

    /// An atomic, not a lock: a fork cannot leave it half made (F4).
    fn handle(&self) -> Result<String> {
        let mut handle = self.handle.load(Ordering::Relaxed);
        if handle == 0 {
            let mut bytes = [0u8; 8];
            (self.random)(&mut bytes)?;
            let new = u64::from_be_bytes(bytes).max(1);
            let made = self
                .handle
                .compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
            handle = made.map_or_else(|theirs| theirs, |_| new);
        }
        Ok(hex(&handle.to_be_bytes()))
    }
}

impl Drop for Campaign {
    /// The last word of a handle, before its sessions end. Whoever watches
    /// loses nothing but this where it fails.
    fn drop(&mut self) {
        let _ = self.publish_now();
    }
}
