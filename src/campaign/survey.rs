//! Everything that lies in a campaign, whether or not it can be opened.

use std::sync::Arc;

use super::open::{engine, Request};
use super::Campaign;
use crate::engine::survey::{Piece, Session, Survey, What};
use crate::engine::Engine;
use crate::environment::Environment;
use crate::error::{Kind, Result};
use crate::record::lease::Lease;
use crate::record::manifest::Manifest;
use crate::record::path::absolute;
use crate::sys::Sys;

/// Shows every piece of the roots that the request names. Reads only. Each root
/// is opened by itself: one whose identity is damaged is told as that, and the
/// others are gone through. Answers which roots are not there.
pub fn survey(
    request: &Request,
    environment: &Environment,
    sys: &Arc<dyn Sys>,
    visit: &mut Survey<'_>,
) -> Result<Vec<Vec<u8>>> {
    let mut absent = Vec::new();
    for (path, alone) in request.each_root() {
        match engine(&alone, environment, sys) {
            Ok(files) if files.exists()? => files.survey(visit)?,
            Ok(_) => absent.push(path),
            Err(error) if matches!(error.kind, Kind::Corrupt | Kind::Mismatch) => {
                let damage = format!("{}; nothing else in this root was looked at", error.text);
                visit(Piece {
                    path,
                    what: What::Identity,
                    damage: Some(damage),
                    lease: None,
                });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(absent)
}

/// What can become of a commit that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Anybody can replay it: a manifest of ours.
    Replayable(Manifest),
    /// Its manifest is somebody else's: only they can replay it.
    Foreign,
    /// Nobody can replay it.
    Missing,
    /// Its manifest is one of ours, and damaged: why.
    Damaged(String),
}

/// What can become of this record's commit.
pub fn commit_of(lease: &Lease) -> Commit {
    match lease.commit().map(Manifest::parse) {
        None => Commit::Missing,
        Some(Ok(None)) => Commit::Foreign,
        Some(Ok(Some(manifest))) => Commit::Replayable(manifest),
        Some(Err(why)) => Commit::Damaged(why),
    }
}

impl Campaign {
    /// The sessions of all roots, by name; counters of sessions that are gone
    /// are not told.
    pub fn sessions(&self) -> Result<Vec<Session>> {
        self.engine.sessions()
    }

    /// Every piece of this campaign's roots. Reads only.
    pub fn survey(&self, visit: &mut Survey<'_>) -> Result<()> {
        self.engine.survey(visit)
    }

    /// Where a path of a manifest leads.
    pub fn path_of(&self, path: &[u8]) -> Vec<u8> {
        absolute(&self.settings.base, path)
    }
}
