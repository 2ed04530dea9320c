//! Merges of nothing new, answered from memory: the call of every run inside a
//! target (C8, P12).

use std::sync::atomic::Ordering;

use super::coverage::Candidate;
use super::Campaign;
use crate::error::Result;
use crate::record::shard::Edge;
use crate::sys::known::Known;

impl Campaign {
    /// Whether a dense map brings nothing, as far as this handle and its
    /// process's relatives know. False says nothing.
    pub fn map_is_known(&self, map: &[u8]) -> Result<bool> {
        let Some(known) = self.memory(Some(map.len() as u64)) else {
            return Ok(false);
        };
        self.now()?;
        Ok(known.covers(map) && self.is_current(known))
    }

    /// The same of a list, in any order.
    pub fn list_is_known(&self, mut edges: impl Iterator<Item = Edge>) -> Result<bool> {
        let Some(known) = self.memory(None) else {
            return Ok(false);
        };
        self.now()?;
        Ok(known.covers_list(&mut edges) && self.is_current(known))
    }

    /// The same of lists and maps together.
    pub(super) fn all_known(&self, candidates: &[Candidate]) -> Result<bool> {
        let covered = |one: &Candidate| {
            let known = self.memory(one.map_size);
            known.is_some_and(|known| known.covers_list(one.edges.iter().copied()))
        };
        if candidates.is_empty() || !candidates.iter().all(covered) {
            return Ok(false);
        }
        self.now()?;
        Ok(self
            .known
            .as_ref()
            .is_some_and(|known| self.is_current(known)))
    }

    /// The memory, where it may answer for a candidate of this size. A call
    /// whose first try ended E_INDETERMINATE is owed its credit: it goes the
    /// long way. So does one that must be refused, or fix the map's size (C6).
    fn memory(&self, size: Option<u64>) -> Option<&Known> {
        let known = self.known.as_ref().filter(|_| !self.may_recall())?;
        let named = self.settings.map_size != 0 || self.settings.map_identity.is_some();
        let fits = match (size, known.size()) {
            (Some(size), fitted) => fitted == Some(size),
            (None, fitted) => fitted.is_some() || !named,
        };
        fits.then_some(known)
    }

    fn is_current(&self, known: &Known) -> bool {
        known.is_current(self.engine.monotonic(), || {
            self.engine.authority_id().map_err(|_| ())
        })
    }

    /// Before a merge: the memory, if what the merge makes known may be noted
    /// there. It is bound to the authority as it is before, so that a merge
    /// into another one is found out by the next look.
    pub(super) fn learner(&self) -> Option<&Known> {
        let known = self.known.as_ref()?;
        if known.id().is_some() {
            return self.is_current(known).then_some(known);
        }
        let now = self.engine.monotonic();
        let id = self.engine.authority_id().ok()??;
        known.bind(id, now).then_some(known)
    }

    /// After it: all of its bits are in the authority, durably.
    pub(super) fn learn(&self, learner: Option<&Known>, candidates: &[Candidate]) {
        let Some(known) = learner else {
            return;
        };
        match self.fitted.load(Ordering::Relaxed) {
            0 => {}
            size => known.fit(size),
        }
        for candidate in candidates {
            known.learn(&candidate.edges);
        }
    }
}
