//! Calls on the coverage map.

use std::collections::BTreeMap;
use std::ptr::null_mut;

use symlease::ffi::constants::*;
use symlease::ffi::coverage::*;
use symlease::ffi::types::*;

use super::{Bytes, World};
use crate::campaign::last_error;
use crate::model;

/// Indices of sparse lists lie below it.
const INDICES: usize = 96;

impl World {
    fn edges(&self, bytes: &mut Bytes<'_>) -> Vec<symlease_edge> {
        let edge = |bytes: &mut Bytes<'_>| symlease_edge {
            index: bytes.below(INDICES) as u32,
            bits: bytes.next(),
        };
        (0..bytes.below(6)).map(|_| edge(bytes)).collect()
    }

    /// C6: an index beyond a map whose size is fixed.
    fn fits(&self, edges: &[symlease_edge]) -> bool {
        let size = self.map_size.unwrap_or(INDICES);
        edges
            .iter()
            .all(|edge| edge.bits == 0 || (edge.index as usize) < size)
    }

    fn add(&mut self, edges: &[symlease_edge]) -> u64 {
        let pairs: Vec<(u32, u8)> = edges.iter().map(|edge| (edge.index, edge.bits)).collect();
        model::merge(&mut self.map, &pairs)
    }

    pub(super) fn merge(&mut self, bytes: &mut Bytes<'_>) {
        let handle = self.bench.handles[bytes.below(2)];
        let edges = self.edges(bytes);
        let mut novel = 99;
        // SAFETY: all pointers are valid during the call.
        let status = unsafe {
            symlease_coverage_merge_sparse(handle, edges.as_ptr(), edges.len(), &mut novel)
        };
        if !self.fits(&edges) {
            return assert_eq!(status, SYMLEASE_E_MISMATCH, "{}", last_error());
        }
        assert_eq!(status, SYMLEASE_OK, "{}", last_error());
        assert_eq!(novel, self.add(&edges), "C4");
    }

    pub(super) fn merge_many(&mut self, bytes: &mut Bytes<'_>) {
        let handle = self.bench.handles[bytes.below(2)];
        let lists: Vec<_> = (0..bytes.below(4)).map(|_| self.edges(bytes)).collect();
        let sparse: Vec<symlease_sparse> = lists
            .iter()
            .map(|list| symlease_sparse {
                edges: list.as_ptr(),
                count: list.len(),
            })
            .collect();
        let mut novel = vec![99; lists.len()];
        // SAFETY: all pointers are valid during the call.
        let status = unsafe {
            let (lists, n) = (sparse.as_ptr(), sparse.len());
            let novel = novel.as_mut_ptr();
            symlease_coverage_merge_sparse_many(handle, lists, n, novel, None, null_mut())
        };
        if !lists.iter().all(|list| self.fits(list)) {
            return assert_eq!(status, SYMLEASE_E_MISMATCH, "{}", last_error());
        }
        assert_eq!(status, SYMLEASE_OK, "{}", last_error());
        for (list, novel) in lists.iter().zip(novel) {
            assert_eq!(novel, self.add(list), "C4: in order, as if one by one");
        }
    }

    /// The first one fixes the size, unless larger indices are there (C6, F37).
    pub(super) fn merge_dense(&mut self, bytes: &mut Bytes<'_>) {
        let handle = self.bench.handles[bytes.below(2)];
        let size = [64, 96, 32][bytes.below(3)];
        let mut map = vec![0u8; size];
        for _ in 0..bytes.below(6) {
            map[bytes.below(size)] |= bytes.next();
        }
        let mut novel = 99;
        // SAFETY: all pointers are valid during the call.
        let status =
            unsafe { symlease_coverage_merge(handle, map.as_ptr(), map.len(), &mut novel) };
        let beyond = self.map.keys().any(|index| *index as usize >= size);
        if self.map_size.map_or(beyond, |fixed| fixed != size) {
            return assert_eq!(status, SYMLEASE_E_MISMATCH, "{}", last_error());
        }
        assert_eq!(status, SYMLEASE_OK, "{}", last_error());
        self.map_size = Some(size);
        let edges: Vec<symlease_edge> = (0u32..)
            .zip(&map)
            .map(|(index, bits)| symlease_edge { index, bits: *bits })
            .collect();
        assert_eq!(novel, self.add(&edges), "C4");
    }

    pub(super) fn ask_map(&mut self, bytes: &mut Bytes<'_>) {
        let which = bytes.below(2);
        let handle = self.bench.handles[which];
        if bytes.next() & 1 == 0 {
            let edges = self.edges(bytes);
            let mut unknown = 99;
            // SAFETY: all pointers are valid during the call.
            let status = unsafe {
                symlease_coverage_known(handle, edges.as_ptr(), edges.len(), &mut unknown)
            };
            if !self.fits(&edges) {
                return assert!(status == SYMLEASE_E_MISMATCH || status == SYMLEASE_OK);
            }
            assert_eq!(status, SYMLEASE_OK, "{}", last_error());
            let mut copy = self.map.clone();
            let pairs: Vec<_> = edges.iter().map(|edge| (edge.index, edge.bits)).collect();
            return assert_eq!(unknown, model::merge(&mut copy, &pairs));
        }
        // Own merges included, each bit once.
        let (mut map, mut new) = ([0u8; 128], 99);
        // SAFETY: all pointers are valid during the call.
        let status = unsafe { symlease_coverage_pull(handle, map.as_mut_ptr(), 128, &mut new) };
        assert_eq!(status, SYMLEASE_OK, "{}", last_error());
        let whole: Vec<(u32, u8)> = self.map.iter().map(|(at, bits)| (*at, *bits)).collect();
        let before = self.pulled[which].clone();
        assert_eq!(new, model::merge(&mut self.pulled[which], &whole));
        let fresh = |index: u32| {
            let old = before.get(&index).copied().unwrap_or(0);
            self.map.get(&index).copied().unwrap_or(0) & !old
        };
        for (index, bits) in (0u32..).zip(map) {
            assert_eq!(bits & fresh(index), fresh(index));
            assert_eq!(bits & !self.map.get(&index).copied().unwrap_or(0), 0);
        }
    }

    pub(super) fn check_map(&self) {
        let handle = self.bench.handles[0];
        let (mut edges, mut bits) = (99, 99);
        // SAFETY: all pointers are valid during the call.
        let status = unsafe { symlease_coverage_totals(handle, &mut edges, &mut bits) };
        assert_eq!(status, SYMLEASE_OK, "{}", last_error());
        let set: BTreeMap<_, _> = self.map.iter().filter(|entry| *entry.1 != 0).collect();
        let counted: u64 = set.values().map(|bits| u64::from(bits.count_ones())).sum();
        assert_eq!((edges, bits), (set.len() as u64, counted));
    }
}
