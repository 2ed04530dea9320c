//! Intents: a group change stands written from before its first rename until
//! after its last, so that the next group call settles what a dead writer left
//! half done (G1).

use std::collections::BTreeMap;
use std::ffi::CString;

use super::disk::{failed, Directory};
use super::lock::take;
use super::publish::{self, unknown, Item};
use super::root::Root;
use super::{paths, Files};
use crate::engine::{Change, Read};
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::record::intent::{Intent, Member, INTENT_MAX};
use crate::sys::Errno;

fn file(id: &str) -> CString {
    CString::new(paths::record_name(id)).unwrap_or_default()
}

/// The directory of a root's intents, where there is one.
fn open(root: &Root) -> Result<Option<Directory<'_>>> {
    root.disk.folder(&paths::intents_path(&root.path)?)
}

/// The names that stand in it.
fn names(root: &Root, directory: &Directory<'_>) -> Result<Vec<Vec<u8>>> {
    let names = root.disk.sys.names(directory.fd);
    names.map_err(|errno| failed("list", &directory.path, errno))
}

/// One intent. One that cannot be read is CORRUPT and never passed by.
fn read(root: &Root, directory: &Directory<'_>, id: &str) -> Result<Option<Intent>> {
    let most = INTENT_MAX as u64;
    let Some(bytes) = root.disk.read_within(directory, &file(id), most)? else {
        return Ok(None);
    };
    let corrupt = |why: String| {
        let path = directory.path.to_string_lossy();
        Error::new(Kind::Corrupt, format!("intent {path}/{id}.json: {why}"))
    };
    let intent = Intent::parse(&bytes).map_err(corrupt)?;
    if intent.name() != id {
        return Err(corrupt(format!("says it is {}", intent.name())));
    }
    Ok(Some(intent))
}

/// An intent that shares a member with `keys`. Under their locks its writer is
/// dead: a living one would hold them.
pub(super) fn sharing(root: &Root, keys: &[String]) -> Result<Option<Intent>> {
    let Some(directory) = open(root)? else {
        return Ok(None);
    };
    for name in names(root, &directory)? {
        let Some(id) = paths::record_id(&name) else {
            continue;
        };
        // One that is gone belonged to a living writer of other members.
        let found = match read(root, &directory, id) {
            Err(error) if error.kind == Kind::Corrupt && !on(Guard::IntentDamaged) => None,
            other => other?,
        };
        if let Some(intent) = found.filter(|intent| intent.shares(keys)) {
            return Ok(Some(intent));
        }
    }
    Ok(None)
}

/// Makes the intent of a group change durable, before anything changes.
pub(super) fn write(root: &Root, items: &[Item<'_>]) -> Result<Intent> {
    let text = |id: &str, bytes: Option<&[u8]>| {
        let text = bytes.map(|bytes| std::str::from_utf8(bytes).map(str::to_string));
        let corrupt = |_| Error::new(Kind::Corrupt, format!("record {id}: not UTF-8"));
        text.transpose().map_err(corrupt)
    };
    let mut members = Vec::new();
    for item in items.iter().filter(|item| item.changes()) {
        let (old, new) = match item.change {
            Change::Put(bytes) => (item.old, Some(&bytes[..])),
            Change::RemoveAgain(bytes) => (Some(&bytes[..]), None),
            _ => (item.old, None),
        };
        members.push(Member {
            id: item.id.to_string(),
            old: text(item.id, old)?,
            new: text(item.id, new)?,
        });
    }
    let limit = |why: String| Error::new(Kind::Limit, format!("group: {why}"));
    let intent = Intent::new(members).map_err(limit)?;
    let bytes = intent.to_bytes();
    if bytes.len() > INTENT_MAX {
        return Err(limit(
            "its records are too large for one intent".to_string(),
        ));
    }
    let path = paths::intents_path(&root.path)?;
    let directory = root.disk.make_folder(&path)?;
    let item = Item {
        directory: &directory,
        id: intent.name(),
        old: None,
        change: &Change::Put(bytes),
    };
    if let Err(failure) = publish::attempt(&root.disk, &[item]) {
        // No record has changed: should it stay, the next call finds nothing to do.
        let _ = root.disk.sys.unlink(directory.fd, &file(intent.name()));
        let _ = root.disk.sync_directory(&directory, Guard::IntentGone);
        let kind = Kind::Io;
        return Err(Error {
            kind,
            ..failure.error
        });
    }
    Ok(intent)
}

/// Removes an intent whose change is wholly made, or wholly taken back.
pub(super) fn remove(root: &Root, intent: &Intent) -> Result<()> {
    let Some(directory) = open(root)? else {
        return Ok(());
    };
    let name = file(intent.name());
    match root.disk.sys.unlink(directory.fd, &name) {
        Ok(()) | Err(Errno(libc::ENOENT)) => {
            root.disk.sync_directory(&directory, Guard::IntentGone)
        }
        Err(errno) => Err(failed("remove", &name, errno)),
    }
}

/// What settling does to each member. All hold the new record: it is published
/// again, for its syncs may have failed. Otherwise those that hold it get the
/// old one back; one that holds anything else is left alone.
fn settling(members: &[Member], reads: &[Option<Vec<u8>>]) -> Vec<Change> {
    let bytes = |text: &Option<String>| text.as_ref().map(|text| text.clone().into_bytes());
    let pairs = || members.iter().zip(reads);
    let whole = pairs().all(|(member, read)| bytes(&member.new) == *read);
    let change = |(member, read): (&Member, &Option<Vec<u8>>)| {
        let (old, new) = (bytes(&member.old), bytes(&member.new));
        if whole {
            return match (new, old) {
                (Some(_), _) if !on(Guard::IntentAgain) => Change::Keep,
                (Some(new), _) => Change::Put(new),
                (None, Some(old)) => Change::RemoveAgain(old),
                (None, None) => Change::Rely,
            };
        }
        match old {
            // The old one too: what put it back may not have been synced.
            _ if *read != old && *read != new && on(Guard::IntentOthers) => Change::Keep,
            Some(old) => Change::Put(old),
            None if read.is_some() => Change::Remove,
            None => Change::Rely,
        }
    };
    pairs().map(change).collect()
}

impl Files {
    /// Settles a dead writer's intent under the locks of its members.
    pub(super) fn settle_intent(&self, root: &Root, found: &Intent, deadline: u64) -> Result<()> {
        root.ensure()?;
        let members = found.members();
        let mut directories = BTreeMap::new();
        for member in members {
            root.enter(&member.id, &mut directories)?;
        }
        let (mut locks, mut places) = (Vec::new(), Vec::new());
        for member in members {
            let directory = &directories[&root.folder(&member.id)?];
            let lock = take(&root.disk, &self.waits, directory, &member.id, deadline)?;
            locks.push((member.id.clone(), lock));
            places.push(directory);
        }
        let Some(intents) = open(root)? else {
            return Ok(());
        };
        // Another caller may have settled it meanwhile.
        let there = read(root, &intents, found.name())?;
        if there.as_ref() != Some(found) && on(Guard::IntentReread) {
            return Ok(());
        }
        let mut reads = Vec::with_capacity(members.len());
        for (member, directory) in members.iter().zip(&places) {
            reads.push(match root.record(directory, &member.id) {
                // Damaged: neither of the two, so it is left alone.
                Err(error) if error.kind == Kind::Corrupt => Some(Vec::new()),
                other => other?,
            });
        }
        let changes = settling(members, &reads);
        let items: Vec<Item<'_>> = (0..members.len())
            .map(|at| Item {
                directory: places[at],
                id: &members[at].id,
                old: reads[at].as_deref(),
                change: &changes[at],
            })
            .collect();
        publish::all(&root.disk, &items)?;
        self.confirm(&locks)?;
        remove(root, found).map_err(unknown)
    }

    /// Settles the intents of dead writers, and removes their temporaries: an
    /// intent's name is a member's id, whose lock its writer held. Goes on past
    /// a bad one; answers how many temporaries, or the first error.
    pub(super) fn sweep_intents(&self, root: &Root) -> Result<u64> {
        let Some(directory) = open(root)? else {
            return Ok(0);
        };
        let (mut removed, mut first) = (0, Ok(()));
        for name in names(root, &directory)? {
            let swept = match (paths::record_id(&name), paths::temporary_id(&name)) {
                (Some(id), _) => self.sweep_intent(root, &directory, id).map(|()| 0),
                (_, Some(id)) => self.sweep_temporary(root, &directory, id, &name),
                _ => Ok(0),
            };
            match swept {
                Ok(count) => removed += count,
                // Its writer lives.
                Err(error) if error.kind == Kind::Timeout => {}
                Err(error) => first = first.and(Err(error)),
            }
        }
        first.map(|()| removed)
    }

    fn sweep_intent(&self, root: &Root, directory: &Directory<'_>, id: &str) -> Result<()> {
        match read(root, directory, id)? {
            Some(intent) => self.settle_intent(root, &intent, 0),
            None => Ok(()),
        }
    }

    fn sweep_temporary(
        &self,
        root: &Root,
        directory: &Directory<'_>,
        id: &str,
        name: &[u8],
    ) -> Result<u64> {
        let Some(folder) = root.disk.folder(&root.folder(id)?)? else {
            return Ok(0);
        };
        let _lock = take(&root.disk, &self.waits, &folder, id, 0)?;
        let gone =
            CString::new(name).is_ok_and(|name| root.disk.sys.unlink(directory.fd, &name).is_ok());
        Ok(u64::from(gone))
    }
}

/// The reads of a decision that changes several keys: what is damaged is never
/// overwritten.
pub(super) fn undamaged(reads: &[Read], changes: &[Change]) -> Result<()> {
    let mut pairs = reads.iter().zip(changes);
    let bad = pairs.find_map(|(read, change)| match change {
        Change::Keep | Change::Rely => None,
        _ => read.as_ref().err(),
    });
    bad.map_or(Ok(()), |error| Err(error.clone()))
}
