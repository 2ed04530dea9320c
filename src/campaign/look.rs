//! Looking: scans, counts and single records. Reading never repairs (M4, F27).

use super::{checked_id, decode, Campaign};
use crate::engine::Table;
use crate::error::{Error, Kind, Result};
use crate::record::lease::{Lease, Status};

/// What a scan found under one id.
#[derive(Debug)]
pub struct Found {
    /// The record's id.
    pub id: String,
    /// The record, or why it is none.
    pub record: Result<Lease>,
}

/// Records by state. `expired` is part of `leased`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Status `leased`.
    pub leased: u64,
    /// Status `committing`.
    pub committing: u64,
    /// Leased and not live.
    pub expired: u64,
    /// Status `done`.
    pub done: u64,
    /// Damaged or unreadable.
    pub corrupt: u64,
}

impl Campaign {
    /// Every record of a lease table in id order, each once (F23). `visit`
    /// answers whether to go on; no lock is held while it runs.
    pub fn scan(
        &self,
        table: Table,
        after: Option<&str>,
        visit: &mut dyn FnMut(Found) -> bool,
    ) -> Result<()> {
        for id in self.engine.list(table)? {
            if after.is_some_and(|after| id.as_str() <= after) {
                continue;
            }
            let record = match decode(&id, &self.engine.read(table, &id)) {
                // Gone since the listing: not there, which is no finding.
                Ok(None) => continue,
                Ok(Some(lease)) => Ok(lease),
                Err(error) => Err(error),
            };
            if !visit(Found { id, record }) {
                break;
            }
        }
        Ok(())
    }

    /// Leased records that are not live, oldest first, ties by id, abandoned
    /// ones last. `ttl` judges them; `None`: each record's own.
    pub fn expired(&self, ttl: Option<f64>) -> Result<Vec<Lease>> {
        let judge = self.judge(Table::Work, self.now()?, ttl);
        let mut found = self.select(|lease| {
            lease.status() == Status::Leased
                && !judge.live(lease, &self.evidence(Table::Work, lease, &judge))
        })?;
        found.sort_by(|a, b| {
            let key = |lease: &Lease| (lease.updated() == 0.0, lease.updated());
            let (a_key, b_key) = (key(a), key(b));
            a_key
                .0
                .cmp(&b_key.0)
                .then(a_key.1.total_cmp(&b_key.1))
                .then(a.id().cmp(b.id()))
        });
        Ok(found)
    }

    /// Committing records, oldest first, ties by id.
    pub fn committing(&self) -> Result<Vec<Lease>> {
        let mut found = self.select(|lease| lease.status() == Status::Committing)?;
        found.sort_by(|a, b| a.updated().total_cmp(&b.updated()).then(a.id().cmp(b.id())));
        Ok(found)
    }

    /// How many records are in which state.
    pub fn counts(&self, table: Table) -> Result<Counts> {
        let judge = self.judge(table, self.now()?, None);
        let mut counts = Counts::default();
        self.scan(table, None, &mut |found| {
            match found.record {
                Err(_) => counts.corrupt += 1,
                Ok(lease) => match lease.status() {
                    Status::Done => counts.done += 1,
                    Status::Committing => counts.committing += 1,
                    Status::Leased => {
                        counts.leased += 1;
                        counts.expired +=
                            u64::from(!judge.live(&lease, &self.evidence(table, &lease, &judge)));
                    }
                },
            }
            true
        })?;
        Ok(counts)
    }

    /// One record's text, as it stands, without its newline; `None`: absent.
    pub fn record(&self, table: Table, id: &str) -> Result<Option<String>> {
        checked_id(id)?;
        let Some(bytes) = self.engine.read(table, id)? else {
            return Ok(None);
        };
        decode(id, &Ok(Some(bytes.clone())))?;
        String::from_utf8(bytes)
            .map(|text| Some(text.trim_end_matches('\n').to_string()))
            .map_err(|_| Error::new(Kind::Corrupt, format!("record {id}: not UTF-8")))
    }

    fn select(&self, wanted: impl Fn(&Lease) -> bool) -> Result<Vec<Lease>> {
        let mut found = Vec::new();
        self.scan(Table::Work, None, &mut |entry| {
            // A damaged record never ends a scan; `scan` reports it.
            found.extend(entry.record.ok().filter(|lease| wanted(lease)));
            true
        })?;
        Ok(found)
    }
}
