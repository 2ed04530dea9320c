//! Commit: one result, exactly once. Stage, fence, merge, publish, complete;
//! finished by anybody after a crash (C7).

use std::collections::BTreeMap;

use super::coverage::Candidate;
use super::remembered::{is_unknown, Call};
use super::{Answer, Campaign};
use crate::engine::corpus::{Content, Fate};
use crate::engine::Table;
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::model::coverage::bits_in;
use crate::record::id::sha256_hex;
use crate::record::lease::Status;
use crate::record::manifest::{map_bytes, map_edges, Entry, Manifest, RESULTS_MAX};
use crate::record::path::{absolute, is_component, relative};

/// One result that a caller offers. Paths are absolute.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Where it is staged.
    pub staged: Vec<u8>,
    /// Its name in the corpus; `None`: its SHA-256.
    pub name: Option<Vec<u8>>,
    /// Its corpus; `None`: the commit's.
    pub corpus: Option<Vec<u8>>,
    /// Its coverage; `None`: not known, so it is always published.
    pub map: Option<Candidate>,
    /// Published even if nothing in it is new (crashes).
    pub keep: bool,
}

/// What became of one result.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// SHA-256 of its bytes.
    pub digest: String,
    /// Bits that were new to everybody.
    pub novel_bits: u64,
    /// `None`: it was not novel, and is gone.
    pub fate: Option<Fate>,
    /// What was wrong with it; it was published all the same.
    pub error: Option<Error>,
}

/// Whose turn of a commit this is.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    /// The first: what is not novel is removed.
    First,
    /// A later one: what is new was credited before, so all that is still
    /// staged is published.
    Replay,
}

impl Campaign {
    /// Commits results under a lease. OK: this caller wrote `done`, and it
    /// counts. DONE: somebody did before. STALE: the lease is lost, nothing was
    /// published. On an error the commit has or has not begun; the same call,
    /// or any replayer, goes on.
    pub fn commit(
        &self,
        id: &str,
        token: &str,
        corpus: &[u8],
        offers: &[Offer],
    ) -> Result<(Answer, Vec<Outcome>)> {
        check(offers)?;
        if let Some(outcomes) = self.ending(id, token) {
            return self.end(id, token, outcomes, true);
        }
        match self.look(id, token)?.0 {
            Answer::Ok => {}
            Answer::Committing => return self.go_on(id, token),
            Answer::Already => return self.end(id, token, Vec::new(), false),
            other => return Ok((other, Vec::new())),
        }
        let manifest = self.stage(corpus, offers)?;
        match self.begin_commit(id, token, &manifest.to_text())? {
            Answer::Ok => self.finish(id, token, &manifest, Turn::First),
            other => {
                // The staged results stay the caller's; the maps were ours.
                let with_map = offers.iter().filter(|offer| offer.map.is_some());
                for offer in with_map {
                    self.store.discard_map(&offer.staged)?;
                }
                Ok((other, Vec::new()))
            }
        }
    }

    /// Finishes a commit that has begun, once its beginning is durable.
    pub(super) fn proceed(
        &self,
        id: &str,
        token: &str,
        manifest: &Manifest,
        text: &str,
    ) -> Result<(Answer, Vec<Outcome>)> {
        match self.begin(id, token, text)? {
            // Its own beginning: nothing was merged before.
            (Answer::Ok, true) => self.finish(id, token, manifest, Turn::First),
            (Answer::Ok, false) if !on(Guard::ReplayNoted) => {
                self.finish(id, token, manifest, Turn::Replay)
            }
            (Answer::Ok, false) => match self.take_up(id, token, text)? {
                Answer::Ok => self.finish(id, token, manifest, Turn::Replay),
                _ => self.end(id, token, Vec::new(), false),
            },
            // Somebody ended it meanwhile.
            _ => self.end(id, token, Vec::new(), false),
        }
    }

    /// The commit of this token has begun: finishes it as its manifest says.
    fn go_on(&self, id: &str, token: &str) -> Result<(Answer, Vec<Outcome>)> {
        let record = super::decode(id, &self.engine.read(Table::Work, id))?;
        let text = record
            .as_ref()
            .and_then(|lease| lease.commit())
            .unwrap_or("{}");
        match parse(id, text)? {
            Some(manifest) => self.proceed(id, token, &manifest, text),
            None => {
                let text = format!(
                    "work {id}: its commit began with a manifest that is not symlease_commit's: \
                     symlease_replay ends it"
                );
                Err(Error::new(Kind::Mismatch, text))
            }
        }
    }

    /// Makes results and their maps durable, and names them in a manifest.
    fn stage(&self, corpus: &[u8], offers: &[Offer]) -> Result<Manifest> {
        let base = &self.settings.base;
        let contents = self.contents(corpus, offers)?;
        let mut results = Vec::with_capacity(offers.len());
        for (offer, content) in offers.iter().zip(contents) {
            let into = offer.corpus.as_deref().unwrap_or(corpus);
            let map = match &offer.map {
                None => String::new(),
                Some(candidate) => {
                    let bytes = map_bytes(&candidate.edges);
                    self.store.write_map(&offer.staged, &bytes)?;
                    sha256_hex(&bytes)
                }
            };
            let name = offer.name.clone();
            results.push(Entry {
                corpus: relative(base, into).to_vec(),
                keep: offer.keep,
                map,
                name: name.unwrap_or_else(|| content.sha256.clone().into_bytes()),
                sha256: content.sha256,
                size: content.size,
                staged: relative(base, &offer.staged).to_vec(),
            });
        }
        self.fit(
            &offers
                .iter()
                .filter_map(|offer| offer.map.clone())
                .collect::<Vec<_>>(),
        )?;
        Ok(Manifest {
            corpus: relative(base, corpus).to_vec(),
            results,
        })
    }

    /// What is staged, each a file of its own: none twice, none where another's
    /// map goes, none that is its own destination. Changes nothing.
    fn contents(&self, corpus: &[u8], offers: &[Offer]) -> Result<Vec<Content>> {
        let mut taken = BTreeMap::new();
        let mut contents = Vec::with_capacity(offers.len());
        for (place, offer) in offers.iter().enumerate() {
            let into = offer.corpus.as_deref().unwrap_or(corpus);
            let content = self.staged(offer, into)?;
            let spot = self.store.spot(&offer.staged)?;
            let path = String::from_utf8_lossy(&offer.staged).into_owned();
            let refused = |why: &str| {
                let text = format!("results[{place}].staged: {path}: {why}");
                Err(Error::new(Kind::Invalid, text))
            };
            let digest = content.sha256.as_bytes();
            for name in [offer.name.as_deref().unwrap_or(digest), digest] {
                if self.store.spot(&[into, b"/", name].concat())? == spot {
                    return refused("is in the corpus already, under this name");
                }
            }
            let own = offer.map.as_ref().map(|_| spot.map());
            for one in [Some(spot), own].into_iter().flatten() {
                if let Some(other) = taken.insert(one, place) {
                    return refused(&format!("is results[{other}] too, or its map"));
                }
            }
            contents.push(content);
        }
        for (offer, content) in offers.iter().zip(&contents) {
            self.store.settle(&offer.staged, content)?;
        }
        Ok(contents)
    }

    fn staged(&self, offer: &Offer, corpus: &[u8]) -> Result<Content> {
        let path = String::from_utf8_lossy(&offer.staged).into_owned();
        let content = self.store.content(&offer.staged)?.ok_or_else(|| {
            Error::system(Kind::Io, libc::ENOENT, format!("staged {path}: not there"))
        })?;
        if self.store.device(corpus)? != content.device {
            let text = format!("staged {path}: not on the corpus's file system");
            return Err(Error::system(Kind::Invalid, libc::EXDEV, text));
        }
        Ok(content)
    }

    /// Everything after the fence. Idempotent; may run in many processes.
    fn finish(
        &self,
        id: &str,
        token: &str,
        manifest: &Manifest,
        turn: Turn,
    ) -> Result<(Answer, Vec<Outcome>)> {
        let base = &self.settings.base;
        let (mut outcomes, again) = self.merge_staged(manifest)?;
        // The first merge was this handle's own: its credit is told only now.
        let own = u32::from(turn == Turn::Replay);
        let turn = if again { Turn::First } else { turn };
        // What is known now may be the credit of a replayer that dies before it
        // publishes: then nothing is dropped.
        let turn = match turn {
            Turn::First if outcomes.iter().any(|one| one.novel_bits == 0) => {
                self.whose(id, token, own)?
            }
            turn => turn,
        };
        for (entry, outcome) in manifest.results.iter().zip(&mut outcomes) {
            let known = !entry.map.is_empty() && outcome.error.is_none();
            let all = turn == Turn::Replay && on(Guard::ReplayAll);
            let wanted = all || entry.keep || !known || outcome.novel_bits > 0;
            if wanted {
                let (staged, corpus) =
                    (absolute(base, &entry.staged), absolute(base, &entry.corpus));
                let fate = self
                    .store
                    .publish(&staged, &corpus, &entry.name, &entry.sha256)?;
                outcome.fate = Some(fate);
            }
        }
        let mut corpora: Vec<&[u8]> = manifest.results.iter().map(|e| &e.corpus[..]).collect();
        corpora.sort_unstable();
        corpora.dedup();
        for corpus in corpora {
            self.store.sync_corpus(&absolute(base, corpus))?;
        }
        for entry in &manifest.results {
            let staged = absolute(base, &entry.staged);
            self.store.discard(&staged)?;
            if !entry.map.is_empty() {
                self.store.discard_map(&staged)?;
            }
        }
        self.end(id, token, outcomes, false)
    }

    /// The first turn, unless somebody took the commit up again meanwhile, but
    /// for this very call (`own`). They say so before they merge
    /// (`model::lease::taken_up`).
    fn whose(&self, id: &str, token: &str, own: u32) -> Result<Turn> {
        let record = super::decode(id, &self.engine.read(Table::Work, id))?;
        let alone = record.is_some_and(|lease| {
            lease.token() == Some(token)
                && lease.status() == Status::Committing
                && lease.replays() == own
        });
        let alone = alone || !on(Guard::FirstTurn);
        Ok(if alone { Turn::First } else { Turn::Replay })
    }

    /// Writes `done`, and answers for the commit. Where that is perhaps not
    /// durable the outcomes are kept for the same call.
    pub(super) fn end(
        &self,
        id: &str,
        token: &str,
        outcomes: Vec<Outcome>,
        recalled: bool,
    ) -> Result<(Answer, Vec<Outcome>)> {
        match self.complete(id, token) {
            Ok(Answer::Already) if on(Guard::CountedOnce) => Ok((Answer::Done, outcomes)),
            Ok(Answer::Already) => Ok((Answer::Ok, outcomes)),
            Ok(other) => Ok((other, outcomes)),
            Err(error) => {
                if recalled || is_unknown(&error) {
                    let (keys, words) = ([id.to_string()], [token]);
                    let weight = 300 * outcomes.len() + 1000;
                    self.remember(&commit(&keys, &words), weight, outcomes);
                }
                Err(error)
            }
        }
    }

    /// The outcomes of a commit that ended so.
    pub(super) fn ending(&self, id: &str, token: &str) -> Option<Vec<Outcome>> {
        self.recall(&commit(&[id.to_string()], &[token]))
    }

    /// Merges the staged maps in order; also whether an earlier call did. A map that is gone was merged before;
    /// a damaged one makes its result's coverage unknown.
    fn merge_staged(&self, manifest: &Manifest) -> Result<(Vec<Outcome>, bool)> {
        let mut outcomes = Vec::with_capacity(manifest.results.len());
        let mut candidates = Vec::new();
        let mut places = Vec::new();
        for (place, entry) in manifest.results.iter().enumerate() {
            let mut error = None;
            match self.staged_map(entry) {
                Ok(Some(candidate)) => {
                    candidates.push(candidate);
                    places.push(place);
                }
                Ok(None) => {}
                Err(bad) if bad.kind == Kind::Corrupt => error = Some(bad),
                Err(other) => return Err(other),
            }
            let digest = entry.sha256.clone();
            outcomes.push(Outcome {
                digest,
                novel_bits: 0,
                fate: None,
                error,
            });
        }
        if candidates.is_empty() {
            return Ok((outcomes, false));
        }
        let (novel, again) = self.merge_again(&candidates)?;
        for (place, novel) in places.into_iter().zip(novel) {
            outcomes[place].novel_bits = bits_in(&novel);
        }
        Ok((outcomes, again))
    }

    fn staged_map(&self, entry: &Entry) -> Result<Option<Candidate>> {
        if entry.map.is_empty() {
            return Ok(None);
        }
        let staged = absolute(&self.settings.base, &entry.staged);
        let Some(bytes) = self.store.read_map(&staged)? else {
            return Ok(None);
        };
        let corrupt = |why: String| {
            let path = String::from_utf8_lossy(&staged).into_owned();
            Error::new(Kind::Corrupt, format!("{path}.map: {why}"))
        };
        if sha256_hex(&bytes) != entry.map && on(Guard::SidecarDigest) {
            return Err(corrupt("not the map of the manifest".to_string()));
        }
        let edges = map_edges(&bytes).map_err(corrupt)?;
        Ok(Some(Candidate {
            edges,
            map_size: None,
        }))
    }
}

fn commit<'a>(keys: &'a [String], words: &'a [&'a str]) -> Call<'a> {
    Call {
        name: "commit",
        table: Table::Work,
        keys,
        words,
    }
}

pub(super) fn parse(id: &str, text: &str) -> Result<Option<Manifest>> {
    Manifest::parse(text)
        .map_err(|why| Error::new(Kind::Corrupt, format!("work {id}: its manifest: {why}")))
}

fn check(offers: &[Offer]) -> Result<()> {
    if offers.len() > RESULTS_MAX {
        let text = format!("results: {}, more than {RESULTS_MAX}", offers.len());
        return Err(Error::new(Kind::Limit, text));
    }
    let bad = |offer: &&Offer| offer.name.as_ref().is_some_and(|name| !is_component(name));
    match offers.iter().position(|offer| bad(&offer)) {
        None => Ok(()),
        Some(place) => {
            let name = offers[place].name.as_deref().unwrap_or_default();
            let name = String::from_utf8_lossy(name);
            let text = format!("results[{place}].name: \"{name}\" is not one path component");
            Err(Error::new(Kind::Invalid, text))
        }
    }
}
