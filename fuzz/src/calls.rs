//! Bytes as a sequence of C calls by two owners on one campaign, beside the
//! model: every answer is that of `protocol.md`, fences rise, each id is
//! committed once, coverage is the exact OR, and a damaged record stays as it is.

mod groups;
mod map;
mod work;

use std::collections::BTreeMap;

use symlease::ffi::constants::*;
use symlease::record::lease::{Lease, Status};

use crate::campaign::{last_error, Bench};
use crate::model::{Record, Stage, Table};

/// The most calls of one input.
const CALLS: usize = 96;

/// The input, byte by byte; zeros behind its end.
pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let (first, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        *first
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.next()) % limit
    }
}

/// The campaign, and what it must be.
pub struct World {
    bench: Bench,
    work: Table,
    targets: Table,
    /// Ids whose record was overwritten, with the bytes now and before.
    damaged: BTreeMap<String, (Vec<u8>, Vec<u8>)>,
    /// Leases that somebody holds or held: id and token.
    leases: Vec<(String, String)>,
    /// Groups likewise: targets and token.
    groups: Vec<(Vec<u64>, String)>,
    map: BTreeMap<u32, u8>,
    map_size: Option<usize>,
    /// What each handle's pulls have given.
    pulled: [BTreeMap<u32, u8>; 2],
    latest: f64,
    /// How often each id became done.
    commits: BTreeMap<String, u32>,
}

/// One input.
pub fn check(data: &[u8]) {
    let mut world = World {
        bench: Bench::new(),
        work: Table::new(),
        targets: Table::new(),
        damaged: BTreeMap::new(),
        leases: Vec::new(),
        groups: Vec::new(),
        map: BTreeMap::new(),
        map_size: None,
        pulled: Default::default(),
        latest: 0.0,
        commits: BTreeMap::new(),
    };
    let mut bytes = Bytes { rest: data };
    for _ in 0..CALLS {
        if bytes.rest.is_empty() {
            break;
        }
        world.call(&mut bytes);
    }
    world.end();
}

impl World {
    fn call(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.below(26) {
            0 | 1 => self.time(bytes),
            2..=4 => self.claim(bytes),
            5 => self.heartbeat(bytes),
            6 => self.heartbeat_all(bytes),
            7 => self.abandon(bytes),
            8 | 9 => self.begin(bytes),
            10 => self.complete(bytes),
            11 => self.replay(bytes),
            12 => self.verify(bytes),
            13 => self.commit(bytes),
            14 => self.replay_commits(bytes),
            15 | 16 => self.group_claim(bytes),
            17 => self.group_heartbeat(bytes),
            18 => self.group_release(bytes),
            19 => self.group_verify(bytes),
            20 => self.merge(bytes),
            21 => self.merge_many(bytes),
            22 => self.merge_dense(bytes),
            23 => self.ask_map(bytes),
            24 => self.damage(bytes),
            _ => self.look(bytes),
        }
    }

    /// Time passes, or a clock steps back by less than the allowed skew (F28);
    /// or a program starts again.
    fn time(&mut self, bytes: &mut Bytes<'_>) {
        let step = f64::from(bytes.next() as i8) / 4.0;
        if step == -32.0 {
            let which = bytes.below(2);
            self.bench.reopen(which);
            self.pulled[which].clear();
        } else if self.bench.now + step > self.latest - 50.0 {
            self.bench.advance(step);
            self.latest = self.latest.max(self.bench.now);
        }
    }

    /// Overwrites a record, or puts back what was there.
    fn damage(&mut self, bytes: &mut Bytes<'_>) {
        let id = self.id(bytes);
        let path = self.path(&id);
        if let Some((_, before)) = self.damaged.remove(&id) {
            std::fs::write(path, before).expect("written");
        } else if self.work.contains_key(&id) {
            let before = std::fs::read(&path).expect("a record");
            let now = match bytes.below(3) {
                0 => before[..before.len() / 2].to_vec(),
                1 => Vec::new(),
                _ => before.replace_first(b"\"schema\":1", b"\"schema\":2"),
            };
            std::fs::write(path, &now).expect("written");
            self.damaged.insert(id, (now, before));
        }
    }

    /// One of three ids, two of them in one folder or not, as SHA-256 has it.
    fn id(&self, bytes: &mut Bytes<'_>) -> String {
        symlease::record::id::sha256_hex(&[b'0' + bytes.below(3) as u8])
    }

    fn path(&self, id: &str) -> std::path::PathBuf {
        let head = u32::from_str_radix(&id[..8], 16).expect("hex");
        let below = format!(".work_lease_table/{:03}/{id}.json", head % 2);
        self.bench.path().join(below)
    }

    /// Compares a status; a damaged record's is CORRUPT for every call (F19).
    fn expect(&self, call: &str, id: &str, status: i32, model: i32) {
        let model = match self.damaged.contains_key(id) {
            true => SYMLEASE_E_CORRUPT,
            false => model,
        };
        assert_eq!(status, model, "{call}: {}", last_error());
    }

    /// All records and the map on disk are what the model has; nothing is left over.
    fn end(&mut self) {
        for (id, (bytes, before)) in std::mem::take(&mut self.damaged) {
            let path = self.path(&id);
            assert_eq!(
                std::fs::read(&path).expect("a file"),
                bytes,
                "a damaged record changed"
            );
            std::fs::write(path, before).expect("written");
        }
        self.check_map();
        let root = self.bench.path();
        compare(&root.join(".work_lease_table"), &self.work);
        compare(&root.join(".target_lease_table"), &self.targets);
        assert!(self.commits.values().all(|times| *times == 1));
    }
}

trait ReplaceFirst {
    fn replace_first(&self, from: &[u8], to: &[u8]) -> Vec<u8>;
}

impl ReplaceFirst for Vec<u8> {
    fn replace_first(&self, from: &[u8], to: &[u8]) -> Vec<u8> {
        let place = self.windows(from.len()).position(|part| part == from);
        let place = place.expect("it is there");
        [&self[..place], to, &self[place + from.len()..]].concat()
    }
}

fn compare(root: &std::path::Path, table: &Table) {
    let mut found = 0;
    for folder in std::fs::read_dir(root).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(folder.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = file.file_name().into_string().expect("ASCII");
            if name.ends_with(".lock") {
                continue;
            }
            let id = name.strip_suffix(".json");
            let id = id.unwrap_or_else(|| panic!("{name} was left (H4)"));
            let bytes = std::fs::read(file.path()).expect("a record");
            let lease = Lease::parse(id, &bytes).expect("valid");
            same(
                &lease,
                table
                    .get(id)
                    .unwrap_or_else(|| panic!("{id} should be gone")),
            );
            found += 1;
        }
    }
    assert_eq!(found, table.len(), "records below {}", root.display());
}

fn same(lease: &Lease, record: &Record) {
    let stage = match lease.status() {
        Status::Leased => Stage::Leased,
        Status::Committing => Stage::Committing,
        Status::Done => Stage::Done,
    };
    assert_eq!(stage, record.stage);
    assert!(record.token.is_none() || lease.token() == record.token.as_deref());
    assert_eq!(lease.owner(), record.owner);
    assert_eq!(lease.fence(), Some(record.fence));
    assert_eq!(
        (lease.attempts(), lease.steals()),
        (record.attempts, record.steals)
    );
    assert_eq!(
        (lease.updated(), lease.ttl()),
        (record.updated, Some(record.ttl))
    );
    assert_eq!(lease.payload(), record.payload);
    assert_eq!(lease.commit(), record.manifest.as_deref());
}
