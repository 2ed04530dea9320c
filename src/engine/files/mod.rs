//! The files engine: one JSON record a file, shared with Python coordinators.

mod batch;
mod change;
mod collect;
mod counters;
pub(super) mod disk;
mod intent;
pub(super) mod known;
mod lock;
mod merge;
pub(super) mod paths;
mod publish;
mod queue;
mod root;
mod session;
mod shards;
mod side;
mod survey;
mod sweep;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use self::counters::published;
use self::known::{Known, Mark};
use self::lock::{Lock, Waits};
use self::merge::Authority;
pub use self::merge::Coverage;
pub use self::root::Named;
use self::root::Root;
use self::sweep::named_sessions;
use super::survey::{Session, Survey};
use super::{Collected, Counters, Decide, DecideMerge, DecideOne, Engine, Read, Side, Table};
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::model::lease::Presence;
use crate::record::json::quote;
use crate::record::number::python_float;
use crate::record::path::to_text;
use crate::record::shard::Shard;
use crate::sys::Sys;

/// How a campaign in a directory is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The work leases' root, absolute; bytes, not UTF-8 (F11).
    pub work_root: Option<Vec<u8>>,
    /// The target leases' root.
    pub target_root: Option<Vec<u8>>,
    /// What belongs to the campaign and was named by the caller (M1).
    pub named: Named,
    /// Folders where neither the caller nor the root names a count.
    pub shards: u32,
    /// Nanoseconds a lock is waited for; 0: one try (F35).
    pub lock_timeout: u64,
    /// Every change is refused.
    pub read_only: bool,
}

/// The engine of one handle.
pub struct Files {
    work: Option<Root>,
    target: Option<Root>,
    coverage: Option<Authority>,
    waits: Waits,
    known: Known,
    lock_timeout: u64,
    indeterminate: AtomicU64,
}

impl Files {
    /// Opens without touching anything (M4). E_MISMATCH where a root is there
    /// and is not what was named (M1).
    pub fn open(sys: Arc<dyn Sys>, options: Options) -> Result<Files> {
        let open = |path: Option<Vec<u8>>| {
            path.map(|path| {
                Root::open(
                    Arc::clone(&sys),
                    path,
                    options.named,
                    options.shards,
                    options.read_only,
                )
            })
            .transpose()
        };
        Ok(Files {
            work: open(options.work_root)?,
            target: open(options.target_root)?,
            coverage: None,
            waits: Waits::default(),
            known: Known::default(),
            lock_timeout: options.lock_timeout,
            indeterminate: AtomicU64::new(0),
        })
    }

    /// Whether the work root's files are synced, and their mode.
    pub fn work_files(&self) -> (bool, u32) {
        let disk = self.work.as_ref().map(|root| &root.disk);
        disk.map_or((true, 0o600), |disk| (disk.durable, disk.file_mode))
    }

    /// From now on this handle keeps a session in each root where it changes
    /// leases (D1), for `owner`.
    pub fn with_sessions(mut self, owner: &str) -> Files {
        let coverage = self
            .coverage
            .iter_mut()
            .map(|authority| &mut authority.root);
        for root in self.work.iter_mut().chain(&mut self.target).chain(coverage) {
            root.with_session(owner);
        }
        self
    }

    /// Whether any of the roots is there.
    pub fn exists(&self) -> Result<bool> {
        let coverage = self.coverage.iter().map(|authority| &authority.root);
        for root in self.work.iter().chain(&self.target).chain(coverage) {
            if root.exists()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn root(&self, table: Table) -> Result<&Root> {
        let (root, name) = match table {
            Table::Work => (&self.work, "work_root"),
            Table::Target => (&self.target, "target_root"),
        };
        root.as_ref().ok_or_else(|| {
            Error::new(
                Kind::Invalid,
                format!("{name}: this campaign was opened without one"),
            )
        })
    }

    /// After a publish every lock's path must still name the locked file: if
    /// one moved, another writer may have been in (L5, F12).
    fn confirm(&self, locks: &[(String, Lock<'_>)]) -> Result<()> {
        match locks
            .iter()
            .find(|(_, lock)| !lock.in_place() && on(Guard::PathAfter))
        {
            None => Ok(()),
            Some((id, _)) => {
                let text = format!("lock {id}: its file was replaced while a change was published");
                Err(Error::new(Kind::Indeterminate, text))
            }
        }
    }

    fn count(&self, outcome: Result<()>) -> Result<()> {
        if outcome.as_ref().is_err_and(is_unknown) {
            self.indeterminate.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }
}

/// E_INDETERMINATE of either kind.
fn is_unknown(error: &Error) -> bool {
    matches!(error.kind, Kind::Indeterminate | Kind::Unsettled)
}

fn json_text(text: &[u8]) -> String {
    let mut out = String::new();
    quote(text, &mut out);
    out
}

impl Drop for Files {
    fn drop(&mut self) {
        for root in self.work.iter().chain(&self.target) {
            root.end_session();
        }
    }
}

impl Engine for Files {
    fn deadline(&self) -> u64 {
        self.monotonic().saturating_add(self.lock_timeout)
    }

    fn transact_until(
        &self,
        deadline: u64,
        table: Table,
        keys: &[String],
        decide: &mut Decide<'_>,
    ) -> Result<()> {
        let root = self.root(table)?;
        self.count(self.change_all(root, table, keys, deadline, decide))
    }

    fn batch_until(
        &self,
        deadline: u64,
        table: Table,
        keys: &[String],
        decide: &mut DecideOne<'_>,
    ) -> Vec<Result<()>> {
        self.renew(deadline, table, keys, decide)
    }

    fn merge(&self, shards: &[u32], decide: &mut DecideMerge<'_>) -> Result<()> {
        self.count(self.merge_shards(shards, decide))
    }

    fn session(&self, table: Table) -> Result<Option<String>> {
        self.root(table)?.session()
    }

    fn presence(&self, table: Table, session: &str) -> Presence {
        let root = self.root(table);
        root.map_or(Presence::Unknown, |root| root.presence(session))
    }

    fn monotonic(&self) -> u64 {
        let coverage = self.coverage.iter().map(|authority| &authority.root);
        let mut roots = self.work.iter().chain(&self.target).chain(coverage);
        roots.next().map_or(0, |root| root.disk.sys.monotonic())
    }

    fn fence_floor(&self, table: Table) -> Result<u64> {
        self.root(table)?.fence_floor()
    }

    fn coverage_shards(&self) -> Result<u32> {
        Ok(self.authority()?.root.shards)
    }

    fn authority_id(&self) -> Result<Option<u128>> {
        let there = self.authority()?.root.read()?;
        Ok(there.and_then(|there| u128::from_str_radix(&there.campaign, 16).ok()))
    }

    fn read_shard(&self, shard: u32) -> Read {
        self.authority()?.read_shard(shard)
    }

    fn pending(&self) -> Result<Vec<Shard>> {
        self.authority()?.pending_records()
    }

    fn read_side(&self, side: Side) -> Read {
        self.authority()?.read_side(side)
    }

    fn write_side(&self, side: Side, bytes: &[u8]) -> Result<()> {
        self.authority()?.write_side(side, bytes)
    }

    fn rely(&self, table: Table, key: &str, bytes: &[u8]) -> Result<()> {
        let root = self.root(table)?;
        let folder = root.folder(key)?;
        let mark = Mark::of(&folder, key, bytes);
        if !root.disk.durable || self.known.is_durable(mark) {
            return Ok(());
        }
        let Some(directory) = root.disk.folder(&folder)? else {
            return Ok(());
        };
        let synced = root.disk.sync_directory(&directory, Guard::VerifyDurable);
        // Without the lock nothing is published again: a doubt stays (F17).
        if synced.is_err() || !self.known.is_doubtful(mark) {
            self.known.synced(mark, synced.is_ok());
        }
        synced
    }

    fn process(&self) -> u32 {
        let coverage = self.coverage.iter().map(|authority| &authority.root);
        let mut roots = self.work.iter().chain(&self.target).chain(coverage);
        roots.next().map_or(0, |root| root.disk.sys.process())
    }

    fn read(&self, table: Table, key: &str) -> Read {
        let root = self.root(table)?;
        match root.disk.folder(&root.folder(key)?)? {
            Some(directory) => root.record(&directory, key),
            None => Ok(None),
        }
    }

    fn list(&self, table: Table) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        let root = self.root(table)?;
        root.each_name(&mut |_, shard, name| {
            let own = |id: &&str| crate::record::id::shard_of(id, root.shards) == shard;
            ids.extend(paths::record_id(name).filter(own).map(str::to_string));
        })?;
        ids.sort_unstable();
        if on(Guard::ListOnce) {
            ids.dedup();
        }
        Ok(ids)
    }

    fn sweep(&self) -> Result<u64> {
        let mut removed = 0;
        let mut first = Ok(());
        for root in self.work.iter().chain(&self.target) {
            match self.sweep_intents(root) {
                Ok(count) => removed += count,
                Err(error) => first = first.and(Err(error)),
            }
            root.each_name(&mut |directory, _, name| {
                removed += self.sweep_one(root, directory, name);
            })?;
            removed += self.sweep_root(root)?;
            removed += root.sweep_sessions(&|| named_sessions(root))?;
        }
        removed += self.sweep_coverage()?;
        first.map(|()| removed)
    }

    fn collect(&self) -> Result<Collected> {
        let roots = || self.work.iter().chain(&self.target);
        for root in roots() {
            collect::all_stopped(root)?;
        }
        let mut all = Collected::default();
        for root in roots() {
            all.add(&self.collect_root(root)?);
        }
        Ok(all)
    }

    fn survey(&self, visit: &mut Survey<'_>) -> Result<()> {
        self.walk(visit)
    }

    fn sessions(&self) -> Result<Vec<Session>> {
        let mut all = Vec::new();
        for (table, root) in [(Table::Work, &self.work), (Table::Target, &self.target)] {
            if let Some(root) = root {
                all.extend(root.all_sessions(table)?);
            }
        }
        Ok(all)
    }

    fn coordinators(&self) -> Result<Vec<u32>> {
        self.authority()?.coordinators()
    }

    fn publish_counters(&self, handle: &dyn Fn() -> Result<String>, owner: &str) -> Result<()> {
        for root in self.work.iter().chain(&self.target) {
            root.publish_counters(&|| {
                let now = root.disk.sys.realtime();
                Ok(published(&self.counters(), &handle()?, owner, now))
            })?;
        }
        Ok(())
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let roots = [
            ("work_root", self.work.as_ref()),
            ("target_root", self.target.as_ref()),
            (
                "coverage_root",
                self.coverage.as_ref().map(|authority| &authority.root),
            ),
        ];
        let first = roots.iter().find_map(|(_, root)| *root);
        let durable = first.is_none_or(|root| root.disk.durable);
        let mode = first.map_or(0, |root| root.disk.file_mode);
        let session = first.is_some_and(|root| root.sessions.wanted(&root.disk));
        let leases = self.work.as_ref().or(self.target.as_ref());
        let shards = leases.map(|root| root.shards.to_string());
        let mut all = vec![
            (
                "durability",
                json_text(if durable { b"power" } else { b"process" }),
            ),
            ("engine", json_text(b"files")),
            ("file_mode", json_text(format!("{mode:04o}").as_bytes())),
            ("lease_shards", shards.unwrap_or_else(|| "null".to_string())),
            ("lock_timeout", python_float(self.lock_timeout as f64 / 1e9)),
            ("session", session.to_string()),
        ];
        all.extend(roots.into_iter().map(|(name, root)| {
            let path = root.map(|root| json_text(&to_text(&root.path)));
            (name, path.unwrap_or_else(|| "null".to_string()))
        }));
        all
    }

    fn counters(&self) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let coverage = self.coverage.iter().map(|authority| &authority.root);
        let roots = || self.work.iter().chain(&self.target).chain(coverage.clone());
        Counters {
            locks: get(&self.waits.locks),
            contended: get(&self.waits.contended),
            timeouts: get(&self.waits.timeouts),
            wait_ns: get(&self.waits.wait_ns),
            retries: get(&self.waits.retries),
            syncs: roots().map(|root| get(&root.disk.syncs)).sum(),
            unsynced: roots().map(|root| get(&root.disk.unsynced)).sum(),
            indeterminate: get(&self.indeterminate),
            waits: std::array::from_fn(|slot| get(&self.waits.lengths[slot])),
        }
    }
}
