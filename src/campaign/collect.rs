//! What an operator removes for good once a campaign's coordinators have
//! stopped.

use super::Campaign;
use crate::engine::{Collected, Table};
use crate::error::{Error, Kind, Result};
use crate::record::lease::Status;

impl Campaign {
    /// Removes done records, lock files and sessions that no record names. That
    /// all peers have stopped, those without sessions too, is the caller's word;
    /// E_INVALID where a session lives or a commit has begun all the same. What
    /// was done may be claimed again, under a higher fence.
    pub fn collect(&self) -> Result<Collected> {
        self.engine.sweep()?;
        // Target leases know no commits.
        let mut begun = None;
        let scanned = self.scan(Table::Work, None, &mut |found| {
            let lease = found.record.ok();
            let committing = lease.filter(|lease| lease.status() == Status::Committing);
            begun = committing.map(|lease| (found.id, lease.owner()));
            begun.is_none()
        });
        match scanned {
            // Opened without work leases.
            Err(error) if error.kind == Kind::Invalid => {}
            other => other?,
        }
        if let Some((id, owner)) = begun {
            let text = format!("record {id}: the commit of {owner} has begun; recover it first");
            return Err(Error::new(Kind::Invalid, text));
        }
        self.engine.collect()
    }
}
