//! Calls on target groups.

use std::ptr::null;

use symlease::ffi::constants::*;
use symlease::ffi::group::*;
use symlease::ffi::types::*;
use symlease::record::id::target_id;

use super::{Bytes, World};
use crate::campaign::{claim_options, group_of, last_error, text, OWNERS, TTL};
use crate::model::{self, Ask};

fn ids(list: &[u64]) -> Vec<String> {
    let mut unique: Vec<String> = list
        .iter()
        .filter(|target| **target != 0)
        .map(|target| target_id(*target))
        .collect();
    unique.sort();
    unique.dedup();
    unique
}

impl World {
    pub(super) fn group(&self, bytes: &mut Bytes<'_>) -> (Vec<u64>, String) {
        let place = usize::from(bytes.next());
        match self.groups.len() {
            n if n > 0 && place != 255 => self.groups[n - 1 - place % n].clone(),
            _ => (vec![1, 2], "nobody".to_string()),
        }
    }

    pub(super) fn group_claim(&mut self, bytes: &mut Bytes<'_>) {
        let which = bytes.below(2);
        let (mask, how) = (bytes.next(), bytes.next());
        let mut list: Vec<u64> = (0..6).filter(|bit| mask >> bit & 1 != 0).collect();
        if mask & 64 != 0 {
            list.extend_from_within(..); // F32: twice is once
        }
        let ask = Ask {
            owner: OWNERS[which],
            now: self.bench.now,
            ttl: if how & 1 != 0 {
                f64::from(how) / 16.0
            } else {
                0.0
            },
            new_ttl: TTL,
            takeover: how & 2 != 0,
            payload: None,
        };
        let mut options = claim_options();
        options.ttl = ask.ttl;
        options.flags = u32::from(ask.takeover) * SYMLEASE_CLAIM_TAKEOVER;
        let mut group = group_of(&[], "untouched");
        // SAFETY: a struct of numbers.
        let mut holder: symlease_holder = unsafe { std::mem::zeroed() };
        // SAFETY: all pointers are valid during the call.
        let status = unsafe {
            let (handle, n) = (self.bench.handles[which], list.len());
            let (list, group, holder) = (list.as_ptr(), &mut group, &mut holder);
            symlease_group_claim_with(handle, list, n, null(), &options, group, holder)
        };
        let members = ids(&list);
        let answers = members
            .iter()
            .map(|id| model::claim(self.targets.get(id), &ask));
        let refused = answers.filter(|answer| *answer != SYMLEASE_OK).min();
        let expected = match members.len() {
            0 => SYMLEASE_E_INVALID,
            _ => refused.unwrap_or(SYMLEASE_OK),
        };
        assert_eq!(status, expected, "group claim: {}", last_error());
        if status == SYMLEASE_HELD {
            assert!(list.contains(&holder.target));
            assert_eq!(
                text(&holder.owner),
                self.targets[&target_id(holder.target)].owner
            );
        }
        if status != SYMLEASE_OK {
            return assert_eq!(text(&group.token), "untouched");
        }
        assert_eq!(group.count as usize, members.len());
        assert_eq!((group.updated, group.ttl), (ask.now, TTL));
        for id in members {
            let old = self.targets.get(&id);
            let record = model::claimed(old, &ask, &text(&group.token), group.fence);
            self.targets.insert(id, record);
        }
        let named = group.targets[..group.count as usize].to_vec();
        self.groups.push((named, text(&group.token)));
    }

    /// H1: all members get the same time, or (H2) none.
    pub(super) fn renew_group(&mut self, list: &[u64], token: &str) -> i32 {
        let members = ids(list);
        if !model::group_held(&self.targets, &members, token) {
            return SYMLEASE_STALE;
        }
        for id in members {
            self.targets.get_mut(&id).expect("held").updated = self.bench.now;
        }
        SYMLEASE_OK
    }

    pub(super) fn group_heartbeat(&mut self, bytes: &mut Bytes<'_>) {
        let handle = self.bench.handles[bytes.below(2)];
        let (list, token) = self.group(bytes);
        let mut group = group_of(&list, &token);
        // SAFETY: all pointers are valid during the call.
        let status = unsafe { symlease_group_heartbeat(handle, &mut group) };
        let expected = self.renew_group(&list, &token);
        assert_eq!(status, expected, "group heartbeat: {}", last_error());
        if status == SYMLEASE_OK {
            assert_eq!(group.updated, self.bench.now);
        }
    }

    pub(super) fn group_release(&mut self, bytes: &mut Bytes<'_>) {
        let handle = self.bench.handles[bytes.below(2)];
        let (list, token) = self.group(bytes);
        // SAFETY: all pointers are valid during the call.
        let status = unsafe { symlease_group_release(handle, &group_of(&list, &token)) };
        let members = ids(&list);
        let held = model::group_held(&self.targets, &members, &token);
        let expected = if held { SYMLEASE_OK } else { SYMLEASE_STALE };
        assert_eq!(status, expected, "group release: {}", last_error());
        if held {
            members.iter().for_each(|id| drop(self.targets.remove(id)));
        }
    }

    pub(super) fn group_verify(&mut self, bytes: &mut Bytes<'_>) {
        let handle = self.bench.handles[bytes.below(2)];
        let (list, token) = self.group(bytes);
        let mut group = group_of(&list, &token);
        // SAFETY: all pointers are valid during the call.
        let status = unsafe { symlease_group_verify(handle, &mut group) };
        let held = model::group_held(&self.targets, &ids(&list), &token);
        let expected = if held { SYMLEASE_OK } else { SYMLEASE_STALE };
        assert_eq!(status, expected, "group verify: {}", last_error());
    }
}
