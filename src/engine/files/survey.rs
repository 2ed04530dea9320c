//! Goes through everything in the roots, and changes nothing (M4). A bad piece
//! is told and passed by: whoever looks for damage wants all of it.

use std::ffi::{CStr, CString};

use super::disk::{failed, Directory};
use super::merge::{Authority, FILE_MAX};
use super::paths::{self, FENCE, IDENTITY};
use super::root::Root;
use super::Files;
use crate::engine::survey::{Piece, Survey, What};
use crate::engine::Table;
use crate::error::Result;
use crate::model::coverage::parse_heartbeat;
use crate::record::counters::Published;
use crate::record::id::shard_of;
use crate::record::identity::{parse_floor, Identity};
use crate::record::intent::{Intent, INTENT_MAX};
use crate::record::lease::{Lease, RECORD_MAX};
use crate::record::map::MapInfo;
use crate::record::session::{parse_name, Header, SESSION_MAX};
use crate::record::shard::Shard;
use crate::record::transaction::Transaction;
use crate::sys::FileKind;

/// Looks at a file's bytes: why they are wrong.
type Check<'a> = &'a dyn Fn(&[u8]) -> std::result::Result<(), String>;

struct Walk<'a, 'v> {
    root: &'a Root,
    visit: &'a mut Survey<'v>,
}

impl<'a> Walk<'a, '_> {
    fn tell(&mut self, directory: &CStr, name: &[u8], what: What, damage: Option<String>) {
        self.tell_lease(directory, name, what, damage, None);
    }

    fn tell_lease(
        &mut self,
        directory: &CStr,
        name: &[u8],
        what: What,
        damage: Option<String>,
        lease: Option<Box<Lease>>,
    ) {
        let slash: &[u8] = if name.is_empty() { b"" } else { b"/" };
        (self.visit)(Piece {
            path: [directory.to_bytes(), slash, name].concat(),
            what,
            damage,
            lease,
        });
    }

    /// A directory and its names, sorted; one that cannot be read is told.
    fn open(&mut self, path: &CStr, link: bool) -> Option<(Directory<'a>, Vec<Vec<u8>>)> {
        let disk = &self.root.disk;
        let opened = match link {
            true => disk.directory(path),
            false => disk.folder(path),
        };
        let listed = opened.and_then(|directory| match directory {
            None => Ok(None),
            Some(directory) => match disk.sys.names(directory.fd) {
                Ok(names) => Ok(Some((directory, names))),
                Err(errno) => Err(failed("list", path, errno)),
            },
        });
        match listed {
            Ok(found) => found.map(|(directory, mut names)| {
                names.sort();
                (directory, names)
            }),
            Err(error) => {
                self.tell(path, b"", What::Folder, Some(error.text));
                None
            }
        }
    }

    fn folder(&mut self, path: Result<CString>) -> Option<(Directory<'a>, Vec<Vec<u8>>)> {
        path.ok().and_then(|path| self.open(&path, false))
    }

    /// A whole file; one that is gone since the listing is not told.
    fn file(&mut self, place: &Directory<'_>, name: &[u8], what: What, most: u64, check: Check) {
        match self.read(place, name, most) {
            Ok(None) => {}
            Ok(Some(bytes)) => self.tell(&place.path, name, what, check(&bytes).err()),
            Err(error) => self.tell(&place.path, name, what, Some(error.text)),
        }
    }

    fn read(&self, place: &Directory<'_>, name: &[u8], most: u64) -> Result<Option<Vec<u8>>> {
        let name = paths::c_path(name.to_vec())?;
        self.root.disk.read_within(place, &name, most)
    }

    /// A lock file is empty and regular (L6).
    fn lock(&mut self, place: &Directory<'_>, name: &[u8]) {
        let stat = CString::new(name)
            .ok()
            .and_then(|name| self.root.disk.sys.stat_at(place.fd, &name).ok());
        let damage = match stat.map(|stat| stat.kind) {
            Some(FileKind::Directory) => {
                Some("a lock that is a directory: an older writer's (operations.md)")
            }
            Some(FileKind::Other) => Some("a lock that is no regular file"),
            _ => None,
        };
        self.tell(&place.path, name, What::Lock, damage.map(str::to_string));
    }

    fn identity(&mut self, top: &Directory<'_>, name: &[u8]) {
        let check = |bytes: &[u8]| Identity::parse(bytes).map(|_| ());
        self.file(top, name, What::Identity, RECORD_MAX as u64, &check);
    }

    fn floor(&mut self, top: &Directory<'_>, name: &[u8]) {
        let check = |bytes: &[u8]| parse_floor(bytes).map(|_| ());
        self.file(top, name, What::FenceFloor, RECORD_MAX as u64, &check);
    }

    /// One name that any root may hold. Answers whether it was one.
    fn common(&mut self, top: &Directory<'_>, name: &[u8]) -> bool {
        match name {
            _ if name == IDENTITY.to_bytes() => self.identity(top, name),
            _ if name == FENCE.to_bytes() => self.floor(top, name),
            _ if paths::own_temporary(name).is_some() => {
                self.tell(&top.path, name, What::Temporary, None);
            }
            b".sessions" => self.sessions(),
            _ => return false,
        }
        true
    }

    fn sessions(&mut self) {
        let Some((place, names)) = self.folder(paths::sessions_path(&self.root.path)) else {
            return;
        };
        for name in names {
            let text = String::from_utf8_lossy(&name).into_owned();
            if paths::temporary_session(&text).is_some() {
                self.tell(&place.path, &name, What::Temporary, None);
            } else if paths::counted_session(&text).is_some() {
                let check = |bytes: &[u8]| Published::parse(bytes).map(|_| ());
                self.file(&place, &name, What::Counters, SESSION_MAX, &check);
            } else if parse_name(&text).is_some() {
                let what = What::Session(self.root.presence(&text));
                let check = |bytes: &[u8]| Header::parse(bytes).map(|_| ());
                self.file(&place, &name, what, SESSION_MAX, &check);
            } else {
                self.tell(&place.path, &name, What::Foreign, None);
            }
        }
        self.tell(&place.path, b"", What::Folder, None);
    }

    fn intents(&mut self) {
        let Some((place, names)) = self.folder(paths::intents_path(&self.root.path)) else {
            return;
        };
        for name in names {
            if let Some(id) = paths::record_id(&name) {
                let check = |bytes: &[u8]| match Intent::parse(bytes)? {
                    intent if intent.name() == id => Ok(()),
                    intent => Err(format!("says it is {}", intent.name())),
                };
                self.file(&place, &name, What::Intent, INTENT_MAX as u64, &check);
            } else {
                self.beside(&place, &name, paths::temporary_id(&name).is_some());
            }
        }
        self.tell(&place.path, b"", What::Folder, None);
    }

    /// A lock, a temporary, or nothing of ours.
    fn beside(&mut self, place: &Directory<'_>, name: &[u8], temporary: bool) {
        if name.ends_with(b".json.lock") {
            self.lock(place, name);
        } else if temporary {
            self.tell(&place.path, name, What::Temporary, None);
        } else {
            self.tell(&place.path, name, What::Foreign, None);
        }
    }

    fn leases(&mut self, table: Table) -> Result<()> {
        let path = paths::c_path(self.root.path.clone())?;
        let Some((top, names)) = self.open(&path, true) else {
            return Ok(());
        };
        let mut folders = Vec::new();
        for name in &names {
            if self.common(&top, name) {
                continue;
            }
            match paths::folder_number(name) {
                Some(number) => folders.push(number),
                None if name == b".intents" => self.intents(),
                None => self.tell(&top.path, name, What::Foreign, None),
            }
        }
        folders.sort_unstable();
        for number in folders {
            let path = paths::folder_path(&self.root.path, number)?;
            if number >= self.root.shards {
                let text = format!("beyond {} shards: no call looks here", self.root.shards);
                self.tell(&path, b"", What::Folder, Some(text));
            } else if let Some((place, names)) = self.open(&path, false) {
                for name in &names {
                    self.lease_name(table, number, &place, name);
                }
                self.tell(&place.path, b"", What::Folder, None);
            }
        }
        Ok(())
    }

    fn lease_name(&mut self, table: Table, folder: u32, place: &Directory<'_>, name: &[u8]) {
        let Some(id) = paths::record_id(name) else {
            return self.beside(place, name, paths::temporary_id(name).is_some());
        };
        let own = shard_of(id, self.root.shards);
        let parsed = match self.read(place, name, RECORD_MAX as u64) {
            Ok(None) => return,
            Ok(Some(_)) if own != folder => {
                Err(format!("belongs into folder {own:03}: no call looks here"))
            }
            Ok(Some(bytes)) => Lease::parse(id, &bytes),
            Err(error) => Err(error.text),
        };
        let (lease, damage) = match parsed {
            Ok(lease) => (Some(Box::new(lease)), None),
            Err(why) => (None, Some(why)),
        };
        self.tell_lease(&place.path, name, What::Record(table), damage, lease);
    }

    fn coverage(&mut self, authority: &Authority) -> Result<()> {
        let path = paths::c_path(self.root.path.clone())?;
        let Some((top, names)) = self.open(&path, true) else {
            return Ok(());
        };
        let old = paths::record_name(paths::OLD_TRANSACTION);
        let map = paths::record_name(paths::MAP);
        for name in &names {
            if self.common(&top, name) {
                continue;
            }
            match &name[..] {
                name if name == map.as_bytes() => {
                    let check = |bytes: &[u8]| MapInfo::parse(bytes).map(|_| ());
                    self.file(&top, name, What::Map, RECORD_MAX as u64, &check);
                }
                name if name == old.as_bytes() => self.transaction(&top, name),
                b"state" => self.shards(authority),
                b"coordinators" => self.coordinators(),
                b"claim-transactions" => self.transactions(),
                name => self.tell(&top.path, name, What::Foreign, None),
            }
        }
        Ok(())
    }

    fn shards(&mut self, authority: &Authority) {
        let Some((place, names)) = self.folder(paths::state_path(&self.root.path)) else {
            return;
        };
        let count = authority.root.shards;
        for name in &names {
            let Some(number) = paths::shard_number(name) else {
                self.beside(&place, name, paths::shard_temporary(name).is_some());
                continue;
            };
            let check = |bytes: &[u8]| match number < count {
                true => Shard::parse(number, count, bytes).map(|_| ()),
                false => Err(format!("beyond {count} shards: no call looks here")),
            };
            self.file(&place, name, What::Shard, FILE_MAX, &check);
        }
        self.tell(&place.path, b"", What::Folder, None);
    }

    fn coordinators(&mut self) {
        let Some((place, names)) = self.folder(paths::coordinators_path(&self.root.path)) else {
            return;
        };
        for name in &names {
            let Some(number) = paths::shard_number(name) else {
                self.beside(&place, name, name.ends_with(b".tmp"));
                continue;
            };
            let check = |bytes: &[u8]| match parse_heartbeat(bytes)? {
                beat if beat.index == number => Ok(()),
                beat => Err(format!("says it is coordinator {}", beat.index)),
            };
            self.file(&place, name, What::Coordinator, RECORD_MAX as u64, &check);
        }
        self.tell(&place.path, b"", What::Folder, None);
    }

    fn transaction(&mut self, place: &Directory<'_>, name: &[u8]) {
        let count = self.root.shards;
        let check = |bytes: &[u8]| Transaction::parse(count, bytes).map(|_| ());
        self.file(place, name, What::Transaction, FILE_MAX, &check);
    }

    fn transactions(&mut self) {
        let Some((place, names)) = self.folder(paths::transactions_path(&self.root.path)) else {
            return;
        };
        for name in &names {
            match paths::record_id(name) {
                Some(_) => self.transaction(&place, name),
                None => self.beside(&place, name, paths::temporary_id(name).is_some()),
            }
        }
        self.tell(&place.path, b"", What::Folder, None);
    }
}

impl Files {
    /// `Engine::survey`.
    pub(super) fn walk(&self, visit: &mut Survey<'_>) -> Result<()> {
        for (table, root) in [(Table::Work, &self.work), (Table::Target, &self.target)] {
            if let Some(root) = root {
                let mut walk = Walk { root, visit };
                walk.leases(table)?;
            }
        }
        if let Some(authority) = &self.coverage {
            let root = &authority.root;
            let mut walk = Walk { root, visit };
            walk.coverage(authority)?;
        }
        Ok(())
    }
}
