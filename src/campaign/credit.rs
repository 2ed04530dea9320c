//! Credit for merges that ended E_INDETERMINATE: the same call again answers
//! the bits that it merged then, which nobody else can be credited with (C4).

use std::collections::BTreeMap;

use super::remembered::{is_unknown, print, Call, Print};
use super::Campaign;
use crate::engine::{Change, Read, Table};
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::model::coverage::bits_in;
use crate::record::id::sha256_hex;
use crate::record::manifest::map_bytes;
use crate::record::shard::Edge;

/// A merge as it was made, and the answer that was not given.
struct Merged {
    /// The shards that were written, and with what.
    shards: BTreeMap<u32, Print>,
    /// Each candidate's new bits.
    novel: Vec<Vec<Edge>>,
    /// Whether it was made for sure. If so a shard that has all bits has them
    /// from here, whoever changed it since; otherwise only the very bytes tell.
    certain: bool,
}

/// A decision over shards: their changes, and each candidate's new bits.
pub(super) type DecideBits<'a> = dyn FnMut(&[Read]) -> Result<(Vec<Change>, Vec<Vec<Edge>>)> + 'a;

impl Merged {
    fn new(
        shards: &[u32],
        changes: &[Change],
        novel: Vec<Vec<Edge>>,
        certain: bool,
    ) -> Option<Merged> {
        let written = |(shard, change): (&u32, &Change)| match change {
            Change::Put(bytes) => Some((*shard, print(bytes))),
            _ => None,
        };
        let shards: BTreeMap<u32, Print> = shards.iter().zip(changes).filter_map(written).collect();
        (!shards.is_empty()).then_some(Merged {
            shards,
            novel,
            certain,
        })
    }

    /// Whether a shard, to which a candidate would bring nothing, has that from
    /// this merge.
    fn made(&self, shard: u32, bytes: &[u8]) -> bool {
        let there = self.shards.get(&shard);
        there.is_some_and(|there| self.certain || *there == print(bytes))
    }

    fn weight(&self) -> usize {
        let edges: usize = self.novel.iter().map(Vec::len).sum();
        8 * edges + 100 * self.shards.len() + 1000
    }
}

/// Gives a repeated merge the bits that its first call merged, and has their
/// shards published again (F17). Answers whether there were any.
fn credit(
    before: &Merged,
    shards: &[u32],
    count: u32,
    reads: &[Read],
    changes: &mut [Change],
    novel: &mut [Vec<Edge>],
) -> bool {
    let mut made = Vec::new();
    for ((shard, read), change) in shards.iter().zip(reads).zip(changes) {
        if let (Change::Rely, Ok(Some(bytes))) = (&change, read) {
            if before.made(*shard, bytes) {
                *change = Change::Put(bytes.clone());
                made.push(*shard);
            }
        }
    }
    for (novel, before) in novel.iter_mut().zip(&before.novel) {
        let ours = |edge: &&Edge| made.binary_search(&(edge.0 % count)).is_ok();
        novel.extend(before.iter().filter(ours));
        novel.sort_unstable();
    }
    !made.is_empty()
}

impl Campaign {
    /// Runs a merge's decision under the shards' locks. Answers each
    /// candidate's new bits, and whether bits of an earlier call are in them.
    pub(super) fn transact_merge(
        &self,
        lists: &[Vec<Edge>],
        shards: &[u32],
        decide: &mut DecideBits<'_>,
    ) -> Result<(Vec<Vec<Edge>>, bool)> {
        let count = self.engine.coverage_shards()?;
        let words = self.may_recall().then(|| words(lists));
        let before: Option<Merged> = words
            .as_ref()
            .and_then(|words| self.recall(&call(&[words])));
        let mut made = None;
        let mut again = false;
        let outcome = self.engine.merge(shards, &mut |reads| {
            let (mut changes, mut novel) = decide(reads)?;
            if let Some(before) = before.as_ref().filter(|_| on(Guard::CreditRepeated)) {
                again = credit(before, shards, count, reads, &mut changes, &mut novel);
            }
            let credited = novel.iter().map(|edges| bits_in(edges)).collect();
            made = Some((changes.clone(), novel));
            Ok((changes, credited))
        });
        let error = match (outcome, made) {
            (Ok(()), Some((_, novel))) => return Ok((novel, again)),
            (Ok(()), None) => return Err(Error::new(Kind::Internal, "no decision was made")),
            (Err(error), made) => {
                let unknown = made.filter(|_| is_unknown(&error));
                let certain = error.kind == Kind::Indeterminate;
                let now = unknown
                    .and_then(|(changes, novel)| Merged::new(shards, &changes, novel, certain));
                if let Some(merged) = now.or(before) {
                    let words = words.unwrap_or_else(|| self::words(lists));
                    self.remember(&call(&[&words]), merged.weight(), merged);
                }
                error
            }
        };
        Err(error)
    }
}

fn call<'a>(words: &'a [&'a str]) -> Call<'a> {
    Call {
        name: "merge",
        table: Table::Work,
        keys: &[],
        words,
    }
}

fn words(lists: &[Vec<Edge>]) -> String {
    let digests = lists.iter().map(|list| sha256_hex(&map_bytes(list)));
    digests.collect::<Vec<_>>().join(" ")
}
