//! The end of a schedule: a newcomer finishes what the dead left, and then
//! nothing is left over, nothing is immortal, nothing novel is lost.

use symlease::campaign::coverage::Candidate;
use symlease::campaign::group::Members;
use symlease::campaign::work::Claimed;
use symlease::campaign::{Answer, Campaign, ClaimOptions};
use symlease::engine::Table;
use symlease::error::Result;
use symlease::record::id::sha256_hex;
use symlease::record::manifest::{map_bytes, Manifest};
use symlease::record::shard::Edge;
use symlease::sys::sim::Kernel;

use super::coverage::{add, missing, Bits};
use super::{show, Checker};
use crate::client::{open_campaign, work_id, CORPUS, TTL};
use crate::history::{Asked, Got};

/// Every index that candidates have.
const EVERY: std::ops::Range<u32> = 0..16;

impl Checker<'_> {
    /// Looks at what a newcomer finds, and what is there after it.
    pub(super) fn audit(&mut self, kernel: &Kernel) {
        self.no_locks(kernel, "when all had ended");
        let sys = kernel.start(0);
        {
            let mut state = kernel.state();
            state.now += 30_000_000_000;
        }
        let campaign = open_campaign(self.plan, &sys, self.plan.slots.len());
        match campaign {
            Ok(campaign) => {
                if let Err(error) = self.finish(kernel, &campaign) {
                    self.broken("audit", format!("{error:?}"));
                }
                drop(campaign);
            }
            Err(error) => self.broken("audit", format!("cannot open: {error:?}")),
        }
        let open = kernel.state().processes[sys.number()].descriptors.len();
        if open > 0 {
            self.broken("F9", format!("{open} descriptors leaked"));
        }
        kernel.state().kill(sys.number());
        self.no_locks(kernel, "after the audit");
        self.nothing_left(kernel);
    }

    /// L1: nobody lives, nobody holds a lock. A child that sleeps on has copies
    /// of descriptors, and no lock (F1).
    fn no_locks(&mut self, kernel: &Kernel, when: &str) {
        let state = kernel.state();
        let held = state
            .disk
            .nodes
            .iter()
            .filter(|node| !node.locks.is_empty())
            .count();
        drop(state);
        if held > 0 {
            self.broken("L1", format!("{held} locks are held {when}"));
        }
    }

    fn finish(&mut self, kernel: &Kernel, campaign: &Campaign) -> Result<()> {
        self.look(campaign)?;
        // Beyond a TTL and all that clocks may differ by.
        kernel.state().now += 90_000_000_000;
        let (_, outcome) = campaign.replay_commits(CORPUS.as_bytes(), 0);
        outcome?;
        for number in 0..self.plan.ids {
            self.end_work(campaign, &work_id(number))?;
        }
        for first in 1..=self.plan.targets {
            let members = Members::new(&[first, first % self.plan.targets + 1])?;
            match campaign.group_claim(&members, Some("{}"), &ClaimOptions::default())? {
                Claimed::Lease(held) => {
                    let (renewed, _) = campaign.group_heartbeat(&members, &held.token)?;
                    let released = campaign.group_release(&members, &held.token)?;
                    if (renewed, released) != (Answer::Ok, Answer::Ok) {
                        self.broken("group", format!("target {first}: {renewed:?} {released:?}"));
                    }
                }
                other => self.broken("immortal", format!("target {first}: {other:?}")),
            }
        }
        self.map(campaign)?;
        campaign.engine().sweep()?;
        self.commits(kernel, campaign)?;
        Ok(())
    }

    /// Sees every record once: those from the future are judged by how long
    /// they are seen unchanged.
    fn look(&mut self, campaign: &Campaign) -> Result<()> {
        let (_, outcome) = campaign.replay_commits(CORPUS.as_bytes(), 0);
        outcome?;
        campaign.expired(None)?;
        for target in 1..=self.plan.targets {
            let members = Members::new(&[target])?;
            let claimed = campaign.group_claim(&members, Some("{}"), &ClaimOptions::default())?;
            if let Claimed::Lease(held) = claimed {
                campaign.group_release(&members, &held.token)?;
            }
        }
        Ok(())
    }

    /// Work is free, done, or waits for an operator with its own manifest.
    fn end_work(&mut self, campaign: &Campaign, id: &str) -> Result<()> {
        match campaign.claim(id, Some("{}"), &ClaimOptions::default())? {
            Claimed::Lease(held) => {
                let told = self.history.entries.iter().find(|entry| {
                    let done = matches!(
                        &entry.got,
                        Some(Got::Step(Answer::Ok) | Got::Commit(Answer::Ok, _))
                    );
                    let ended = matches!(&entry.asked,
                        Asked::Complete(done, _) | Asked::Commit(done, _, _) | Asked::Replay(done, _)
                            if done == id);
                    done && ended
                });
                if let Some(entry) = told {
                    let text = format!("{id} is free, operation {} ended it", entry.operation);
                    self.broken("done", text);
                }
                if held.updated + TTL <= campaign.now()? {
                    self.broken("claim", format!("{id}: a new lease is past its TTL"));
                }
                let (answer, _) = campaign.commit(id, &held.token, CORPUS.as_bytes(), &[])?;
                if answer != Answer::Ok {
                    self.broken("commit", format!("{id}: {answer:?} to its holder"));
                }
            }
            Claimed::Refused(Answer::Done, _) => {}
            Claimed::Refused(Answer::Committing, _) => {
                let record = campaign
                    .committing()?
                    .into_iter()
                    .find(|lease| lease.id() == id);
                let ours = record
                    .as_ref()
                    .and_then(|lease| lease.commit())
                    .is_some_and(|text| text.contains("symlease-commit-v1"));
                if ours {
                    self.broken("C7", format!("{id}: its commit was not replayed"));
                }
                let token = record
                    .as_ref()
                    .and_then(|lease| lease.token())
                    .unwrap_or_default();
                let answer = campaign.complete(id, token)?;
                if answer != Answer::Ok {
                    self.broken("commit", format!("{id}: {answer:?} to an operator"));
                }
            }
            other => self.broken("immortal", format!("{id}: {other:?}")),
        }
        Ok(())
    }

    /// A merge over every shard settles what the dead left (C5).
    fn map(&mut self, campaign: &Campaign) -> Result<()> {
        let seen = |campaign: &Campaign| -> Result<Bits> {
            let shards = campaign.authority()?;
            Ok(shards.into_iter().flat_map(|shard| shard.entries).collect())
        };
        let before = seen(campaign)?;
        self.final_map(&before);
        let fresh: Vec<Edge> = EVERY.map(|index| (index, 128)).collect();
        let novel = campaign.merge(&[Candidate::sparse(&fresh)?])?;
        if novel.concat() != fresh {
            self.broken("C4", format!("new bits were answered as {novel:?}"));
        }
        let mut wanted = before;
        add(&mut wanted, &fresh);
        if seen(campaign)? != wanted {
            self.broken("C4", "a merge is not the exact OR".to_string());
        }
        Ok(())
    }

    /// C7: every result of a commit that was done is in the corpus, or all of
    /// its bits came from somewhere else.
    fn commits(&mut self, kernel: &Kernel, campaign: &Campaign) -> Result<()> {
        let files = kernel.state().disk.files();
        let corpus: Vec<&[u8]> = files
            .iter()
            .filter(|(path, _)| path.starts_with(b"/c/corpus/"))
            .map(|(_, bytes)| bytes.as_slice())
            .collect();
        let mut elsewhere = Bits::new();
        let mut offers = Vec::new();
        for entry in &self.history.entries {
            match &entry.asked {
                Asked::Merge(candidates) => {
                    for one in candidates {
                        add(&mut elsewhere, &one.edges);
                    }
                }
                Asked::Commit(_, _, offered) => offers.extend(offered),
                _ => {}
            }
        }
        for offer in offers
            .iter()
            .filter(|offer| corpus.contains(&offer.content.as_slice()))
        {
            add(&mut elsewhere, offer.map.as_deref().unwrap_or_default());
        }
        let map: Bits = {
            let shards = campaign.authority()?;
            shards.into_iter().flat_map(|shard| shard.entries).collect()
        };
        for number in 0..self.plan.ids {
            if !self.replayed(&work_id(number)) {
                continue;
            }
            let Some(text) = campaign.record(Table::Work, &work_id(number))? else {
                continue;
            };
            let lease = symlease::record::lease::Lease::parse(&work_id(number), text.as_bytes());
            let manifest = lease
                .ok()
                .and_then(|lease| lease.commit().map(str::to_string));
            let Some(Ok(Some(manifest))) = manifest.map(|text| Manifest::parse(&text)) else {
                continue;
            };
            for result in manifest.results {
                let offer = offers.iter().find(|offer| {
                    let digest = offer.map.as_ref().map(|map| sha256_hex(&map_bytes(map)));
                    sha256_hex(&offer.content) == result.sha256
                        && digest.unwrap_or_default() == result.map
                });
                let Some(offer) = offer else {
                    continue;
                };
                let edges = offer.map.as_deref().unwrap_or_default();
                if let Some(lost) = missing(&map, edges) {
                    self.broken("C7", format!("{}: {lost:?} not merged", show(&result.name)));
                }
                let published = corpus.contains(&offer.content.as_slice());
                let needed = offer.keep || offer.map.is_none();
                let lost = missing(&elsewhere, edges);
                if !published && (needed || lost.is_some()) {
                    self.broken("C7", format!("{}: lost, {lost:?}", show(&offer.content)));
                }
            }
        }
        Ok(())
    }

    /// Whether `done` was written by a commit or a replay of it. Whoever calls
    /// `complete` on a commit of ours gives its results up.
    fn replayed(&self, id: &str) -> bool {
        let place = |path: &&Vec<u8>| super::record_of(path).is_some_and(|(_, found)| found == id);
        let Some(path) = self.leases.keys().find(place) else {
            return false;
        };
        let last = self.timelines.0[path]
            .versions
            .iter()
            .rev()
            .find(|v| v.operation != 0);
        let entry = last.and_then(|version| self.history.of(version.operation));
        !entry.is_some_and(|entry| matches!(entry.asked, Asked::Complete(..) | Asked::Replay(..)))
    }

    /// H4 and C5: no temporary, no transaction, no intent.
    fn nothing_left(&mut self, kernel: &Kernel) {
        let files = kernel.state().disk.files();
        for (path, _) in files {
            let text = show(&path);
            if text.ends_with(".tmp") {
                self.broken("H4", format!("{text} is left"));
            }
            if text.contains("/claim-transactions/") && text.ends_with(".json") {
                self.broken("C5", format!("{text} is left"));
            }
            if text.contains("/.intents/") {
                self.broken("G1", format!("{text} is left"));
            }
        }
    }
}
