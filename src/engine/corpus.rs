//! Staged results and the corpora they are published into. Shared by every
//! engine: results are files wherever the records are.

mod staged;

use std::ffi::CString;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use self::staged::Staged;
use super::files::disk::{failed, Directory, Disk};
use super::files::paths::c_path;
use crate::error::{Error, Kind, Result};
use crate::guard::{on, Guard};
use crate::record::id::hex;
use crate::record::path::split;
use crate::sys::{Errno, Fd, FileKind, Open, Sys};

/// The largest map beside a staged result: every index once.
const MAP_MAX: u64 = 5 << 23;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// SHA-256, hex.
    pub sha256: String,
    /// Bytes.
    pub size: u64,
    /// The device it lies on.
    pub device: u64,
}

/// What became of a staged result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has its name now.
    Published,
    /// Its name held another content: it is there under its SHA-256.
    ByDigest,
    /// The same content was there under its name.
    AlreadyThere,
    /// It is neither staged nor published.
    Lost,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    directory: (u64, u64),
    name: Vec<u8>,
}

impl Spot {
    /// The map beside it.
    pub fn map(&self) -> Spot {
        Spot {
            directory: self.directory,
            name: map_path(&self.name),
        }
    }
}

/// The files of commits.
pub struct Store {
    disk: Disk,
    staged: Staged,
}

/// A file as an open directory and a name in it.
struct Place<'a> {
    directory: Directory<'a>,
    name: CString,
}

impl Store {
    /// A store that syncs where `durable` says so.
    pub fn new(sys: Arc<dyn Sys>, durable: bool, file_mode: u32) -> Store {
        Store {
            disk: Disk::new(sys, durable, file_mode),
            staged: Staged::default(),
        }
    }

    /// Reads a file whole for its digest; `None`: it is not there. Anything but
    /// a regular file is refused (F13).
    pub fn content(&self, path: &[u8]) -> Result<Option<Content>> {
        match self.place(path)? {
            Some(place) => self.content_at(&place),
            None => Ok(None),
        }
    }

    /// Writes the map beside a staged result, in place of an older one. It
    /// needs no private name: the manifest that makes it count has its digest,
    /// and comes later.
    pub fn write_map(&self, staged: &[u8], bytes: &[u8]) -> Result<()> {
        self.discard_map(staged)?;
        let path = map_path(staged);
        let missing = || Error::new(Kind::Io, format!("{}: no directory", show(&path)));
        let place = self.place(&path)?.ok_or_else(missing)?;
        let disk = &self.disk;
        disk.write_new(&place.directory, &place.name, bytes, Guard::SidecarData)?;
        disk.sync_directory(&place.directory, Guard::SidecarNames)
    }

    /// The map beside a staged result.
    pub fn read_map(&self, staged: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.place(&map_path(staged))? {
            Some(place) => self
                .disk
                .read_within(&place.directory, &place.name, MAP_MAX),
            None => Ok(None),
        }
    }

    /// The device of a directory, which is made where it is missing.
    pub fn device(&self, directory: &[u8]) -> Result<u64> {
        let open = self.disk.make_directory(&c_path(directory.to_vec())?)?;
        let stat = self.disk.sys.stat(open.fd);
        stat.map(|stat| stat.device)
            .map_err(|errno| failed("stat", &open.path, errno))
    }

    /// Where a path stands, however it is spelled: its directory's device and
    /// number, and its name there.
    pub fn spot(&self, path: &[u8]) -> Result<Spot> {
        let missing = || {
            let text = format!("staged {}: no directory", show(path));
            Error::system(Kind::Io, libc::ENOENT, text)
        };
        let place = self.place(path)?.ok_or_else(missing)?;
        let stat = self.disk.sys.stat(place.directory.fd);
        let stat = stat.map_err(|errno| failed("stat", &place.directory.path, errno))?;
        Ok(Spot {
            directory: (stat.device, stat.inode),
            name: place.name.into_bytes(),
        })
    }

    /// Gives a staged result its name in a corpus without replacing anything.
    /// The staged name stays until [`Store::discard`], so that a death in
    /// between loses nothing. May be repeated, by anybody.
    pub fn publish(&self, staged: &[u8], corpus: &[u8], name: &[u8], sha256: &str) -> Result<Fate> {
        let corpus = self.disk.make_directory(&c_path(corpus.to_vec())?)?;
        let from = self.place(staged)?;
        let digest = sha256.as_bytes();
        for (name, new) in [(name, Fate::Published), (digest, Fate::ByDigest)] {
            let to = c_path(name.to_vec())?;
            if !on(Guard::CorpusKept) && from.is_some() {
                let _ = self.disk.sys.unlink(corpus.fd, &to);
            }
            let linked = match &from {
                Some(from) => self
                    .disk
                    .sys
                    .link(from.directory.fd, &from.name, corpus.fd, &to),
                None => Err(Errno(libc::ENOENT)),
            };
            match linked {
                Ok(()) => return Ok(new),
                Err(Errno(libc::EEXIST | libc::ENOENT)) => {}
                Err(Errno(errno @ (libc::EPERM | libc::EOPNOTSUPP))) => {
                    let mut error = failed("link into the corpus", &to, Errno(errno));
                    error.kind = Kind::Unsupported;
                    return Err(error);
                }
                Err(errno) => return Err(failed("link into the corpus", &to, errno)),
            }
            let directory = Directory::again(&self.disk, &corpus)?;
            let there = self.content_at(&Place {
                directory,
                name: to,
            })?;
            if there.is_some_and(|there| there.sha256 == sha256) {
                let old = if new == Fate::Published {
                    Fate::AlreadyThere
                } else {
                    new
                };
                return Ok(old);
            }
        }
        if self.content(staged)?.is_none() {
            return Ok(Fate::Lost);
        }
        let text = format!(
            "corpus {}: {sha256} holds another content",
            corpus.path.to_string_lossy()
        );
        Err(Error::new(Kind::Corrupt, text))
    }

    /// Makes a corpus's new names durable.
    pub fn sync_corpus(&self, corpus: &[u8]) -> Result<()> {
        match self.disk.directory(&c_path(corpus.to_vec())?)? {
            Some(directory) => self.disk.sync_directory(&directory, Guard::CorpusNames),
            None => Ok(()),
        }
    }

    /// Removes a staged result.
    pub fn discard(&self, staged: &[u8]) -> Result<()> {
        self.remove(staged)
    }

    /// Removes the map beside a staged result: ours, where the manifest or the
    /// offer has one.
    pub fn discard_map(&self, staged: &[u8]) -> Result<()> {
        self.remove(&map_path(staged))
    }

    fn remove(&self, path: &[u8]) -> Result<()> {
        let Some(place) = self.place(path)? else {
            return Ok(());
        };
        match self.disk.sys.unlink(place.directory.fd, &place.name) {
            Ok(()) | Err(Errno(libc::ENOENT)) => Ok(()),
            Err(errno) => Err(failed("remove", &place.name, errno)),
        }
    }

    fn place(&self, path: &[u8]) -> Result<Option<Place<'_>>> {
        let invalid = || Error::new(Kind::Invalid, format!("path {}: names no file", show(path)));
        let (parent, name) = split(path).ok_or_else(invalid)?;
        let name = c_path(name.to_vec())?;
        let directory = self.disk.directory(&c_path(parent.to_vec())?)?;
        Ok(directory.map(|directory| Place { directory, name }))
    }

    fn content_at(&self, place: &Place<'_>) -> Result<Option<Content>> {
        let sys = &self.disk.sys;
        let fd = match sys.open(Some(place.directory.fd), &place.name, Open::Read, 0) {
            Ok(fd) => fd,
            Err(Errno(libc::ENOENT)) => return Ok(None),
            Err(errno) => return Err(failed("open", &place.name, errno)),
        };
        let content = self.content_of(fd, &place.name);
        sys.close(fd);
        content.map(Some)
    }

    fn content_of(&self, fd: Fd, name: &CString) -> Result<Content> {
        let sys = &self.disk.sys;
        let stat = sys.stat(fd).map_err(|errno| failed("stat", name, errno))?;
        if stat.kind != FileKind::Regular {
            let text = format!("{}: not a regular file", name.to_string_lossy());
            return Err(Error::new(Kind::Invalid, text));
        }
        let mut digest = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        let mut size = 0;
        loop {
            let count = sys
                .read_at(fd, &mut buffer, size)
                .map_err(|errno| failed("read", name, errno))?;
            if count == 0 {
                break;
            }
            digest.update(&buffer[..count]);
            size += count as u64;
        }
        Ok(Content {
            sha256: hex(&digest.finalize()),
            size,
            device: stat.device,
        })
    }
}

fn map_path(staged: &[u8]) -> Vec<u8> {
    [staged, b".map"].concat()
}

fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
