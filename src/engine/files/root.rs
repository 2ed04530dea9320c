//! One root directory: its identity is read at open and made at the first
//! change, and never altered (M1, M4).

use std::collections::btree_map::Entry;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::disk::{failed, Directory, Disk};
use super::paths::{self, IDENTITY};
use super::publish;
use super::session::Sessions;
use crate::engine::Read;
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::record::id::{hex, shard_of};
use crate::record::identity::{parse_floor, Identity, SCHEMA};
use crate::sys::Sys;

/// Called with an open folder, its shard number and a name in it.
pub type Visit<'a> = dyn FnMut(&Directory<'_>, u32, &[u8]) + 'a;

/// What the caller named; `None` takes what is there, else the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Named {
    /// Folders, 1 to 4096; default 256.
    pub shards: Option<u32>,
    /// The mode of files; default 0600.
    pub file_mode: Option<u32>,
    /// Whether an answer of OK survives power loss; default true.
    pub durable: Option<bool>,
}

/// An open root.
pub struct Root {
    /// Its absolute path.
    pub path: Vec<u8>,
    /// Its folders.
    pub shards: u32,
    /// Its files.
    pub disk: Disk,
    /// Every change is refused.
    read_only: bool,
    /// The identity on disk, once it was seen.
    seen: OnceLock<Identity>,
    /// The sessions in it.
    pub sessions: Sessions,
    /// Folders that this handle has swept at its first change there (H4).
    swept: Vec<AtomicBool>,
    /// Whether this handle has made sure that the identity is durable.
    settled: AtomicBool,
    /// The fence floor, once it was read: it is raised only while no other
    /// handle is open. The highest number, which is no fence: not read yet.
    floor: AtomicU64,
}

impl Root {
    /// Opens without making anything; `shards` where neither the caller nor the
    /// root itself names a count.
    pub fn open(
        sys: Arc<dyn Sys>,
        path: Vec<u8>,
        named: Named,
        shards: u32,
        read_only: bool,
    ) -> Result<Root> {
        let disk = Disk::new(
            sys,
            named.durable.unwrap_or(true),
            named.file_mode.unwrap_or(0o600),
        );
        let shards = named.shards.unwrap_or(shards);
        let mut root = Root {
            path,
            shards,
            sessions: Sessions::new(&disk, None),
            swept: Vec::new(),
            settled: AtomicBool::new(false),
            disk,
            read_only,
            seen: OnceLock::new(),
            floor: AtomicU64::new(u64::MAX),
        };
        if let Some(there) = root.read()? {
            root.agree(&there, named)?;
            root.shards = there.shards;
            root.disk.durable = there.durable;
            root.disk.file_mode = there.mode;
            let _ = root.seen.set(there);
        }
        root.swept
            .resize_with(root.shards as usize, AtomicBool::default);
        Ok(root)
    }

    /// From now on this handle keeps a session here, and sweeps.
    pub fn with_session(&mut self, owner: &str) {
        self.sessions = Sessions::new(&self.disk, Some(owner.to_string()));
    }

    /// Whether a folder is to be swept: at the first change there by a handle
    /// with a session (H4).
    pub fn sweeps(&self, shard: u32) -> bool {
        let swept = self.swept.get(shard as usize);
        swept.is_some_and(|swept| !swept.load(Ordering::Relaxed))
            && self.sessions.wanted(&self.disk)
            && swept.is_some_and(|swept| !swept.swap(true, Ordering::Relaxed))
    }

    /// Whether the root's directory is there.
    pub fn exists(&self) -> Result<bool> {
        let path = paths::c_path(self.path.clone())?;
        Ok(self.disk.directory(&path)?.is_some())
    }

    /// Before the first change: the root is made, and its identity with it.
    /// Who loses the race takes the winner's, or refuses.
    pub fn ensure(&self) -> Result<()> {
        if self.read_only && on(Guard::ReadOnly) {
            let text = "campaign: opened with SYMLEASE_OPEN_READ_ONLY";
            return Err(Error::new(Kind::Invalid, text));
        }
        if let Some(seen) = self.seen.get() {
            changeable(seen)?;
            if self.settled.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        let directory = self
            .disk
            .make_directory(&paths::c_path(self.path.clone())?)?;
        if self.seen.get().is_none() {
            self.establish(&directory)?;
        }
        // Whoever made it may have died, or be about to sync it (M1).
        self.disk.sync_directory(&directory, Guard::OnceNames)?;
        self.settled.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the identity, or takes the one that is there.
    fn establish(&self, directory: &Directory<'_>) -> Result<()> {
        if self.read()?.is_none() {
            self.check_records()?;
            self.make(directory)?;
        }
        let there = self.read()?.ok_or_else(|| {
            Error::new(Kind::Io, format!("{}: gone after it was made", self.name()))
        })?;
        let all = Named {
            shards: Some(self.shards),
            file_mode: Some(self.disk.file_mode),
            durable: Some(self.disk.durable),
        };
        self.agree(&there, all)?;
        changeable(&there)?;
        let _ = self.seen.set(there);
        Ok(())
    }

    /// The floor of `fence.json`; 0 where there is none.
    pub fn fence_floor(&self) -> Result<u64> {
        match self.floor.load(Ordering::Relaxed) {
            u64::MAX => self.read_floor(),
            floor => Ok(floor),
        }
    }

    /// The same, read anew.
    pub(super) fn read_floor(&self) -> Result<u64> {
        let path = paths::c_path(self.path.clone())?;
        let bytes = match self.disk.directory(&path)? {
            Some(directory) => self.disk.read(&directory, paths::FENCE)?,
            None => None,
        };
        let floor = bytes.as_deref().map_or(Ok(0), parse_floor).map_err(|why| {
            let path = path.to_string_lossy().into_owned();
            Error::new(Kind::Corrupt, format!("{path}/fence.json: {why}"))
        })?;
        self.floor.store(floor, Ordering::Relaxed);
        Ok(floor)
    }

    /// The folder of an id.
    pub fn folder(&self, id: &str) -> Result<CString> {
        paths::shard_path(&self.path, id, self.shards)
    }

    /// A key's folder, made where missing, each opened once.
    pub fn enter<'a>(
        &'a self,
        key: &str,
        open: &mut BTreeMap<CString, Directory<'a>>,
    ) -> Result<()> {
        if let Entry::Vacant(free) = open.entry(self.folder(key)?) {
            if self.disk.folder(free.key())?.is_none() {
                self.renew()?;
            }
            // One that is there may not be durable yet (M2).
            let directory = self.disk.make_folder(free.key())?;
            free.insert(directory);
        }
        Ok(())
    }

    /// Somebody may have removed the whole root under this handle: records
    /// without an identity must not be made (M1).
    fn renew(&self) -> Result<()> {
        let path = paths::c_path(self.path.clone())?;
        if self.seen.get().is_some() && self.read()?.is_none() && on(Guard::IdentityRenewed) {
            let directory = self.disk.make_directory(&path)?;
            self.check_records()?;
            self.make(&directory)?;
        }
        Ok(())
    }

    /// A record's bytes.
    pub fn record(&self, directory: &Directory<'_>, id: &str) -> Read {
        let name = CString::new(paths::record_name(id)).unwrap_or_default();
        self.disk.read(directory, &name)
    }

    /// Every name in every folder; makes nothing (M4).
    pub fn each_name(&self, visit: &mut Visit<'_>) -> Result<()> {
        for shard in 0..self.shards {
            let path = paths::folder_path(&self.path, shard)?;
            let Some(directory) = self.disk.folder(&path)? else {
                continue;
            };
            let names = self.disk.sys.names(directory.fd);
            for name in names.map_err(|errno| failed("list", &path, errno))? {
                visit(&directory, shard, &name);
            }
        }
        Ok(())
    }

    /// The identity on disk, read anew.
    pub fn read(&self) -> Result<Option<Identity>> {
        let Some(directory) = self.disk.directory(&paths::c_path(self.path.clone())?)? else {
            return Ok(None);
        };
        let Some(bytes) = self.disk.read(&directory, IDENTITY)? else {
            return Ok(None);
        };
        Identity::parse(&bytes)
            .map(Some)
            .map_err(|why| Error::new(Kind::Corrupt, format!("{}: {why}", self.name())))
    }

    /// What was named must be what is there.
    fn agree(&self, there: &Identity, named: Named) -> Result<()> {
        if !on(Guard::Identity) {
            return Ok(());
        }
        let differs = |what: &str, has: String, wants: String| {
            let text = format!("{}: {what} is {has}, not {wants}", self.name());
            Err(Error::new(Kind::Mismatch, text))
        };
        if there.engine != "files" {
            return differs("engine", there.engine.clone(), "files".to_string());
        }
        if let Some(shards) = named.shards.filter(|shards| *shards != there.shards) {
            return differs("shards", there.shards.to_string(), shards.to_string());
        }
        if let Some(mode) = named.file_mode.filter(|mode| *mode != there.mode) {
            return differs("mode", format!("{:04o}", there.mode), format!("{mode:04o}"));
        }
        let word = |durable| if durable { "power" } else { "process" }.to_string();
        match named.durable.filter(|durable| *durable != there.durable) {
            Some(durable) => differs("durability", word(there.durable), word(durable)),
            None => Ok(()),
        }
    }

    /// Records that a peer made before must lie where this shard count has them.
    fn check_records(&self) -> Result<()> {
        let mismatch = |text: String| Err(Error::new(Kind::Mismatch, text));
        let path = paths::c_path(self.path.clone())?;
        let Some(directory) = self.disk.directory(&path)? else {
            return Ok(());
        };
        let names = self
            .disk
            .sys
            .names(directory.fd)
            .map_err(|e| failed("list", &path, e))?;
        for name in names {
            let Some(shard) = paths::folder_number(&name) else {
                continue;
            };
            let path = paths::folder_path(&self.path, shard)?;
            if shard >= self.shards {
                let text = path.to_string_lossy().into_owned();
                return mismatch(format!("{text}: beyond {} shards", self.shards));
            }
            let Some(folder) = self.disk.folder(&path)? else {
                continue;
            };
            let records = self
                .disk
                .sys
                .names(folder.fd)
                .map_err(|e| failed("list", &path, e))?;
            for id in records.iter().filter_map(|name| paths::record_id(name)) {
                if shard_of(id, self.shards) != shard && on(Guard::RecordsPlaced) {
                    let text = path.to_string_lossy().into_owned();
                    return mismatch(format!("{text}/{id}: not its folder of {}", self.shards));
                }
            }
        }
        Ok(())
    }

    fn make(&self, directory: &Directory<'_>) -> Result<()> {
        let mut random = [0u8; 16];
        let sys = &self.disk.sys;
        sys.random(&mut random)
            .map_err(|errno| Error::system(Kind::Io, errno.0, "getrandom failed"))?;
        let identity = Identity {
            campaign: hex(&random),
            durable: self.disk.durable,
            engine: "files".to_string(),
            mode: self.disk.file_mode,
            schema: SCHEMA,
            shards: self.shards,
        };
        publish::once(&self.disk, directory, IDENTITY, &identity.to_bytes())
    }

    fn name(&self) -> String {
        format!("{}/symlease.json", String::from_utf8_lossy(&self.path))
    }
}

fn changeable(identity: &Identity) -> Result<()> {
    if identity.schema <= SCHEMA || !on(Guard::IdentityNewer) {
        return Ok(());
    }
    let text = format!(
        "symlease.json: schema {} is newer than {SCHEMA}: this version only reads it",
        identity.schema
    );
    Err(Error::new(Kind::Unsupported, text))
}
