//! Calls on work leases.

use std::ffi::{c_int, c_void, CString};
use std::ptr::{null, null_mut};

use symlease::ffi::batch::{symlease_heartbeat_all, symlease_heartbeat_many};
use symlease::ffi::commit::*;
use symlease::ffi::constants::*;
use symlease::ffi::look::*;
use symlease::ffi::types::*;
use symlease::ffi::work::*;

use super::{Bytes, World};
use crate::campaign::{claim_options, group_of, last_error, lease_of, text, OWNERS, TTL};
use crate::model::{self, Ask, Stage};

const PAYLOADS: [&str; 3] = [
    "{}",
    "{\"a\":[1.0,18446744073709551616]}",
    "{\"k\":\"\\ud800\"}",
];
/// The last is one of `symlease_commit`, of no results.
const MANIFESTS: [&str; 3] = [
    "{\"m\":1}",
    "{\"m\":2}",
    "{\"corpus\":\"corpus\",\"results\":[],\"schema\":\"symlease-commit-v1\"}",
];

unsafe extern "C" fn publish(user: *mut c_void, view: *const symlease_view) -> c_int {
    // SAFETY: the library passes a valid view; `user` is the caller's bool.
    let (view, good) = unsafe { (&*view, *(user as *const bool)) };
    assert!(!view.manifest.is_null() && view.status == SYMLEASE_SCAN_COMMITTING as i32);
    c_int::from(!good)
}

unsafe extern "C" fn count(user: *mut c_void, _: *const symlease_view) -> c_int {
    // SAFETY: `user` is the caller's counter.
    unsafe { *(user as *mut u64) += 1 };
    0
}

impl World {
    fn handle(&self, bytes: &mut Bytes<'_>) -> (*mut symlease_campaign, usize) {
        let which = bytes.below(2);
        (self.bench.handles[which], which)
    }

    /// A lease that somebody has or had; or one that nobody ever had.
    fn lease(&self, bytes: &mut Bytes<'_>) -> (String, String) {
        let place = usize::from(bytes.next());
        match self.leases.len() {
            n if n > 0 && place != 255 => self.leases[n - 1 - place % n].clone(),
            _ => (self.id(bytes), "nobody".to_string()),
        }
    }

    pub(super) fn claim(&mut self, bytes: &mut Bytes<'_>) {
        let (handle, which) = self.handle(bytes);
        let (id, how) = (self.id(bytes), bytes.next());
        let payload = (how & 1 != 0).then(|| PAYLOADS[usize::from(how >> 1) % 3]);
        let mut ask = Ask {
            owner: OWNERS[which],
            now: self.bench.now,
            ttl: 0.0,
            new_ttl: TTL,
            takeover: how & 16 != 0,
            payload,
        };
        let mut options = claim_options();
        if how & 32 != 0 {
            ask.ttl = f64::from(bytes.next()) / 8.0;
            options.ttl = ask.ttl;
        }
        if how & 64 != 0 {
            ask.new_ttl = f64::from(bytes.next()) / 8.0 + 0.5;
            options.new_ttl = ask.new_ttl;
        }
        options.flags = u32::from(ask.takeover) * SYMLEASE_CLAIM_TAKEOVER;
        let c_id = CString::new(id.as_str()).expect("hex");
        let c_payload = payload.map(|payload| CString::new(payload).expect("no NUL"));
        let c_payload = c_payload
            .as_ref()
            .map_or(null(), |payload| payload.as_ptr());
        let mut lease = lease_of("", "untouched");
        // SAFETY: a struct of numbers.
        let mut holder: symlease_holder = unsafe { std::mem::zeroed() };
        // SAFETY: all pointers are valid during the call.
        let status = unsafe {
            let id = c_id.as_ptr();
            symlease_claim_with(handle, id, c_payload, &options, &mut lease, &mut holder)
        };
        let old = self.work.get(&id);
        self.expect("claim", &id, status, model::claim(old, &ask));
        if status != SYMLEASE_OK {
            assert_eq!(text(&lease.token), "untouched", "outputs are for success");
        }
        if status == SYMLEASE_HELD {
            let old = old.expect("held by somebody");
            assert_eq!(text(&holder.owner), old.owner);
            assert!(holder.remaining > 0.0);
        }
        if status == SYMLEASE_OK {
            let (token, fence) = (text(&lease.token), lease.fence);
            let record = model::claimed(old, &ask, &token, fence);
            assert_eq!(text(&lease.id), id);
            assert_eq!(
                (lease.attempts, lease.steals),
                (record.attempts, record.steals)
            );
            assert_eq!((lease.updated, lease.ttl), (record.updated, record.ttl));
            self.work.insert(id.clone(), record);
            self.leases.push((id, token));
        }
    }

    pub(super) fn heartbeat(&mut self, bytes: &mut Bytes<'_>) {
        let (handle, _) = self.handle(bytes);
        let (id, token) = self.lease(bytes);
        let mut lease = lease_of(&id, &token);
        // SAFETY: all pointers are valid during the call.
        let status = unsafe { symlease_heartbeat(handle, &mut lease) };
        let model = match self.damaged.contains_key(&id) {
            true => SYMLEASE_E_CORRUPT,
            false => model::heartbeat(self.work.get_mut(&id), &token, self.bench.now),
        };
        self.expect("heartbeat", &id, status, model);
        if status == SYMLEASE_OK {
            let record = &self.work[&id];
            assert_eq!((lease.fence, lease.updated), (record.fence, record.updated));
        }
    }

    /// Many leases, the same ones too, and groups: each is judged alone (H3).
    pub(super) fn heartbeat_all(&mut self, bytes: &mut Bytes<'_>) {
        let (handle, _) = self.handle(bytes);
        let named: Vec<_> = (0..bytes.below(5)).map(|_| self.lease(bytes)).collect();
        let many: Vec<_> = (0..bytes.below(3)).map(|_| self.group(bytes)).collect();
        let mut leases: Vec<_> = named
            .iter()
            .map(|(id, token)| lease_of(id, token))
            .collect();
        let mut groups: Vec<_> = many
            .iter()
            .map(|(list, token)| group_of(list, token))
            .collect();
        let (mut ours, mut theirs) = (vec![99; leases.len()], vec![99; groups.len()]);
        let mut stats = symlease_heartbeat_stats::default();
        let (n, m) = (leases.len(), groups.len());
        // SAFETY: all pointers are valid during the call, for n and m entries.
        let status = unsafe {
            let results = ours.as_mut_ptr();
            match m {
                0 => symlease_heartbeat_many(handle, leases.as_mut_ptr(), n, results),
                _ => {
                    let (leases, groups) = (leases.as_mut_ptr(), groups.as_mut_ptr());
                    let their = theirs.as_mut_ptr();
                    symlease_heartbeat_all(handle, leases, n, groups, m, results, their, &mut stats)
                }
            }
        };
        assert_eq!(status, SYMLEASE_OK, "{}", last_error());
        for ((id, token), status) in named.iter().zip(&ours) {
            let model = match self.damaged.contains_key(id) {
                true => SYMLEASE_E_CORRUPT,
                false => model::heartbeat(self.work.get_mut(id), token, self.bench.now),
            };
            self.expect("heartbeat many", id, *status, model);
        }
        for ((list, token), status) in many.iter().zip(&theirs) {
            let model = self.renew_group(list, token);
            assert_eq!(*status, model, "heartbeat all, group: {}", last_error());
        }
        if m > 0 {
            assert_eq!(stats.work_ok + stats.work_failed, n as u64);
            let targets: usize = many.iter().map(|(list, _)| list.len()).sum();
            let counted = stats.target_ok + stats.target_failed;
            assert!(counted == targets as u64 || counted == m as u64);
        }
    }

    /// One call that takes a lease and may change its record.
    fn step(
        &mut self,
        bytes: &mut Bytes<'_>,
        what: &str,
        call: impl Fn(*mut symlease_campaign, &symlease_lease) -> i32,
        model: impl Fn(Option<&mut model::Record>, &str) -> i32,
    ) {
        let (handle, _) = self.handle(bytes);
        let (id, token) = self.lease(bytes);
        let status = call(handle, &lease_of(&id, &token));
        if self.damaged.contains_key(&id) {
            return self.expect(what, &id, status, SYMLEASE_E_CORRUPT);
        }
        let before = self.work.get(&id).map(|record| record.stage);
        let expected = model(self.work.get_mut(&id), &token);
        self.expect(what, &id, status, expected);
        let after = self.work.get(&id).map(|record| record.stage);
        if after == Some(Stage::Done) && before != after {
            *self.commits.entry(id).or_default() += 1;
        }
    }

    pub(super) fn abandon(&mut self, bytes: &mut Bytes<'_>) {
        // SAFETY: all pointers are valid during the call.
        let call = |handle, lease: &_| unsafe { symlease_abandon(handle, lease) };
        self.step(bytes, "abandon", call, model::abandon);
    }

    pub(super) fn begin(&mut self, bytes: &mut Bytes<'_>) {
        let manifest = MANIFESTS[bytes.below(3)];
        let c_manifest = CString::new(manifest).expect("no NUL");
        // SAFETY: all pointers are valid during the call.
        let call = |handle, lease: &_| unsafe {
            symlease_begin_commit(handle, lease, c_manifest.as_ptr())
        };
        let model = |record: Option<&mut _>, token: &str| model::begin(record, token, manifest);
        self.step(bytes, "begin commit", call, model);
    }

    pub(super) fn complete(&mut self, bytes: &mut Bytes<'_>) {
        // SAFETY: all pointers are valid during the call.
        let call = |handle, lease: &_| unsafe { symlease_complete(handle, lease) };
        self.step(bytes, "complete", call, model::complete);
    }

    pub(super) fn replay(&mut self, bytes: &mut Bytes<'_>) {
        let mut good = bytes.next() & 1 != 0;
        let flag: *mut bool = &mut good;
        // SAFETY: all pointers are valid during the call; `flag` is read by `publish` alone.
        let call = |handle, lease: &symlease_lease| unsafe {
            let (id, token) = (lease.id.as_ptr(), lease.token.as_ptr());
            symlease_replay(handle, id, token, Some(publish), flag.cast())
        };
        // SAFETY: as above.
        let published = unsafe { *flag };
        let model = |record: Option<&mut _>, token: &str| model::replay(record, token, published);
        self.step(bytes, "replay", call, model);
    }

    pub(super) fn verify(&mut self, bytes: &mut Bytes<'_>) {
        let call = |handle, lease: &symlease_lease| {
            let mut copy = *lease;
            // SAFETY: all pointers are valid during the call.
            unsafe { symlease_verify(handle, &mut copy) }
        };
        self.step(bytes, "verify", call, model::verify);
    }

    fn corpus(&self) -> CString {
        let path = self.bench.path().join("corpus");
        CString::new(path.to_str().expect("UTF-8")).expect("no NUL")
    }

    /// A commit without results.
    pub(super) fn commit(&mut self, bytes: &mut Bytes<'_>) {
        let corpus = self.corpus();
        // SAFETY: all pointers are valid during the call.
        let call = |handle, lease: &_| unsafe {
            symlease_commit(handle, lease, corpus.as_ptr(), null_mut(), 0)
        };
        let model = |mut record: Option<&mut model::Record>, token: &str| match model::verify(
            record.as_deref_mut(),
            token,
        ) {
            SYMLEASE_ALREADY => SYMLEASE_DONE,
            SYMLEASE_STALE => SYMLEASE_STALE,
            SYMLEASE_OK => {
                model::begin(record.as_deref_mut(), token, MANIFESTS[2]);
                model::complete(record, token)
            }
            _ => {
                let ours =
                    |record: &&mut model::Record| record.manifest.as_deref() == Some(MANIFESTS[2]);
                match record.as_ref().is_some_and(ours) {
                    true => model::complete(record, token),
                    false => SYMLEASE_E_MISMATCH,
                }
            }
        };
        self.step(bytes, "commit", call, model);
    }

    /// What was begun with a manifest of ours and is past its TTL, and only that.
    pub(super) fn replay_commits(&mut self, bytes: &mut Bytes<'_>) {
        let (handle, _) = self.handle(bytes);
        let (corpus, mut replayed) = (self.corpus(), 99);
        // SAFETY: all pointers are valid during the call.
        let status = unsafe { symlease_replay_commits(handle, corpus.as_ptr(), 0, &mut replayed) };
        if self.damaged.is_empty() {
            assert_eq!(status, SYMLEASE_OK, "{}", last_error());
        }
        let mut expected = 0;
        for (id, record) in &mut self.work {
            let ours = record.manifest.as_deref() == Some(MANIFESTS[2]);
            let past = self.bench.now - record.updated >= record.ttl;
            let there = !self.damaged.contains_key(id);
            if record.stage == Stage::Committing && ours && past && there {
                record.stage = Stage::Done;
                *self.commits.entry(id.clone()).or_default() += 1;
                expected += 1;
            }
        }
        assert_eq!(replayed, expected, "{}", last_error());
    }

    /// Counts, and the two recovery lists.
    pub(super) fn look(&mut self, bytes: &mut Bytes<'_>) {
        let (handle, _) = self.handle(bytes);
        let mut counts = symlease_counts::default();
        // SAFETY: all pointers are valid during the call.
        let status = unsafe { symlease_read_counts(handle, SYMLEASE_TABLE_WORK, &mut counts) };
        assert_eq!(status, SYMLEASE_OK, "{}", last_error());
        let there = || {
            let whole = |entry: &(&String, &model::Record)| !self.damaged.contains_key(entry.0);
            self.work.iter().filter(whole).map(|entry| entry.1)
        };
        let stage = |stage| there().filter(|record| record.stage == stage).count() as u64;
        let now = self.bench.now;
        let expired = |record: &&model::Record| {
            record.stage == Stage::Leased && !model::live(record, 0.0, now)
        };
        let expired = there().filter(expired).count() as u64;
        assert_eq!(counts.leased, stage(Stage::Leased));
        assert_eq!(counts.committing, stage(Stage::Committing));
        assert_eq!(counts.done, stage(Stage::Done));
        assert_eq!(counts.corrupt, self.damaged.len() as u64);
        assert_eq!(counts.expired, expired);
        let (mut listed, mut commits) = (0u64, 0u64);
        // SAFETY: the visitor counts in the variable that it is given.
        unsafe {
            let (visit, user): (symlease_view_fn, _) = (Some(count), &mut listed as *mut u64);
            let ttl = SYMLEASE_TTL_RECORD;
            let status = symlease_list_expired(handle, ttl, 0, visit, user.cast());
            assert_eq!(status, SYMLEASE_OK, "{}", last_error());
            let user = &mut commits as *mut u64;
            assert_eq!(
                symlease_list_commits(handle, 0, visit, user.cast()),
                SYMLEASE_OK
            );
        }
        assert_eq!((listed, commits), (expired, counts.committing));
    }
}
