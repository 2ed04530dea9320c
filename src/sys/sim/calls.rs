//! The system calls of a simulated process.

use std::ffi::CStr;

use super::disk::{join, Body, File, Folder, Pending};
use super::fault::{Call, Fault};
use super::state::State;
use super::{task, Simulated};
use crate::sys::{Answer, Errno, Fd, FileKind, Open, Stat, Sys};

/// The device of every simulated file.
const DEVICE: u64 = 7;

fn text(path: &CStr) -> String {
    path.to_string_lossy().into_owned()
}

impl State {
    fn stat_of(&self, node: usize) -> Stat {
        let (size, kind) = match &self.disk.nodes[node].body {
            Body::File(file) => (file.cached.len() as u64, FileKind::Regular),
            Body::Folder(_) => (4096, FileKind::Directory),
        };
        Stat {
            device: DEVICE,
            inode: node as u64 + 1,
            size,
            kind,
        }
    }

    fn open_at(&mut self, process: usize, dir: Option<Fd>, path: &[u8], how: Open) -> Answer<Fd> {
        let (directory, name) = self.walk(process, dir, path)?;
        let found = self.child(directory, name);
        let node = match (found, how) {
            (Ok(_), Open::CreateNew) => return Err(Errno(libc::EEXIST)),
            (Ok(node), _) => node,
            (Err(Errno(libc::ENOENT)), Open::Create | Open::CreateNew) => {
                let node = self.disk.add(Body::File(File::default()));
                self.set(directory, Pending::Set(name.to_vec(), node))?;
                self.private(process, directory, name, true);
                node
            }
            (Err(errno), _) => return Err(errno),
        };
        match (&self.disk.nodes[node].body, how) {
            (Body::File(_), Open::Directory | Open::Folder) => Err(Errno(libc::ENOTDIR)),
            (Body::Folder(_), Open::Write | Open::Create) => Err(Errno(libc::EISDIR)),
            _ => Ok(self.install(process, node)),
        }
    }

    fn set(&mut self, directory: usize, change: Pending) -> Answer<()> {
        let now = self.calls;
        let folder = self.disk.folder_mut(directory);
        folder.ok_or(Errno(libc::ENOTDIR))?.change(change, now);
        Ok(())
    }

    fn rename_in(&mut self, process: usize, dir: Fd, from: &[u8], to: &[u8]) -> Answer<()> {
        let directory = self.node(process, dir)?;
        let node = self.child(directory, from)?;
        self.set(directory, Pending::Moved(from.to_vec(), to.to_vec(), node))?;
        self.private(process, directory, from, false);
        self.publish(process, directory, to);
        Ok(())
    }

    fn link_at(&mut self, process: usize, from: (Fd, &[u8]), to: (Fd, &[u8])) -> Answer<()> {
        let node = self.child(self.node(process, from.0)?, from.1)?;
        let directory = self.node(process, to.0)?;
        if self.child(directory, to.1).is_ok() {
            return Err(Errno(libc::EEXIST));
        }
        self.set(directory, Pending::Set(to.1.to_vec(), node))?;
        self.publish(process, directory, to.1);
        Ok(())
    }

    fn unlink_in(&mut self, process: usize, dir: Fd, name: &[u8]) -> Answer<()> {
        let directory = self.node(process, dir)?;
        let node = self.child(directory, name)?;
        if self.disk.folder(node).is_some() {
            return Err(Errno(libc::EISDIR));
        }
        self.set(directory, Pending::Gone(name.to_vec()))?;
        self.private(process, directory, name, false);
        self.publish(process, directory, name);
        Ok(())
    }

    fn make(&mut self, process: usize, dir: Option<Fd>, path: &[u8]) -> Answer<()> {
        let (above, name) = self.walk(process, dir, path)?;
        if self.child(above, name).is_ok() {
            return Err(Errno(libc::EEXIST));
        }
        let parent = self.disk.folder(above).ok_or(Errno(libc::ENOTDIR))?;
        let folder = Folder::new(join(&parent.path, name));
        let node = self.disk.add(Body::Folder(folder));
        self.set(above, Pending::Set(name.to_vec(), node))
    }

    /// A listing that ran from call `since` on. What changed meanwhile may be
    /// missed or repeated; the rest is there, in any order (F23).
    fn listing(&mut self, directory: usize, since: u64) -> Vec<Vec<u8>> {
        let Some(folder) = self.disk.folder(directory) else {
            return Vec::new();
        };
        let moved = |name: &Vec<u8>| {
            let recent = folder.touched.iter().rev();
            let mut recent = recent.take_while(|(when, _)| *when > since);
            recent.any(|(_, touched)| touched == name)
        };
        let mut names = Vec::new();
        for name in folder.entries.keys() {
            let copies = if moved(name) { self.random.below(3) } else { 1 };
            names.extend((0..copies).map(|_| name.clone()));
        }
        for at in (1..names.len()).rev() {
            names.swap(at, self.random.below(at as u64 + 1) as usize);
        }
        names
    }
}

impl Sys for Simulated {
    fn open(&self, dir: Option<Fd>, path: &CStr, how: Open, _mode: u32) -> Answer<Fd> {
        let call = match how {
            Open::Create | Open::CreateNew => Call::Create,
            Open::Read | Open::Write | Open::Directory | Open::Folder => Call::Open,
        };
        let mut state = self.begin(call, &|| format!("{dir:?} {} {how:?}", text(path)))?;
        state.open_at(self.process, dir, path.to_bytes(), how)
    }

    fn close(&self, fd: Fd) {
        if let Ok((mut state, _)) = self.enter(Call::Close, &|| format!("{fd:?}")) {
            state.close(self.process, fd.0);
        }
    }

    fn stat(&self, fd: Fd) -> Answer<Stat> {
        let state = self.begin(Call::Stat, &|| format!("{fd:?}"))?;
        Ok(state.stat_of(state.node(self.process, fd)?))
    }

    fn stat_at(&self, dir: Fd, name: &CStr) -> Answer<Stat> {
        let state = self.begin(Call::Stat, &|| format!("{dir:?} {}", text(name)))?;
        let (directory, last) = state.walk(self.process, Some(dir), name.to_bytes())?;
        Ok(state.stat_of(state.child(directory, last)?))
    }

    fn read_at(&self, fd: Fd, bytes: &mut [u8], offset: u64) -> Answer<usize> {
        let state = self.begin(Call::Read, &|| format!("{fd:?} at {offset}"))?;
        let node = state.node(self.process, fd)?;
        let content = state.disk.bytes(node).ok_or(Errno(libc::EISDIR))?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = &content[start.min(content.len())..];
        let count = rest.len().min(bytes.len());
        bytes[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write(&self, fd: Fd, bytes: &[u8]) -> Answer<usize> {
        let (mut state, fault) =
            self.enter(Call::Write, &|| format!("{fd:?} {} bytes", bytes.len()))?;
        let count = match fault {
            Some(Fault::Error(errno)) => return Err(Errno(errno)),
            Some(Fault::Short) => bytes.len().div_ceil(2),
            _ => bytes.len(),
        };
        let node = state.node(self.process, fd)?;
        state.disk.append(node, &bytes[..count]);
        Ok(count)
    }

    fn sync(&self, fd: Fd) -> Answer<()> {
        let (mut guard, fault) = self.enter(Call::Sync, &|| format!("{fd:?}"))?;
        let state = &mut *guard;
        let description = state.description(self.process, fd)?;
        let node = state.descriptions[description].node;
        if let Some(Fault::Error(errno)) = fault {
            let random = &mut state.random;
            state.disk.fail_sync(node, &mut || random.chance(500));
            state.descriptions[description].heard = state.disk.nodes[node].failures;
            return Err(Errno(errno));
        }
        if state.descriptions[description].heard != state.disk.nodes[node].failures {
            state.descriptions[description].heard = state.disk.nodes[node].failures;
            state.processes[self.process].failed += 1;
            return Err(Errno(libc::EIO));
        }
        state.disk.sync(node);
        Ok(())
    }

    fn rename(&self, dir: Fd, from: &CStr, to: &CStr) -> Answer<()> {
        let what = || format!("{dir:?} {} -> {}", text(from), text(to));
        let mut state = self.begin(Call::Rename, &what)?;
        state.rename_in(self.process, dir, from.to_bytes(), to.to_bytes())
    }

    fn link(&self, from_dir: Fd, from: &CStr, to_dir: Fd, to: &CStr) -> Answer<()> {
        let what = || format!("{from_dir:?} {} -> {to_dir:?} {}", text(from), text(to));
        let mut state = self.begin(Call::Link, &what)?;
        let (from, to) = ((from_dir, from.to_bytes()), (to_dir, to.to_bytes()));
        state.link_at(self.process, from, to)
    }

    fn unlink(&self, dir: Fd, name: &CStr) -> Answer<()> {
        let what = || format!("{dir:?} {}", text(name));
        let (mut state, fault) = self.enter(Call::Unlink, &what)?;
        if let Some(Fault::Error(errno)) = fault {
            // Nobody can be blamed for a private name that does not go.
            if let Ok(directory) = state.node(self.process, dir) {
                state.gone(directory, name.to_bytes());
            }
            return Err(Errno(errno));
        }
        state.unlink_in(self.process, dir, name.to_bytes())
    }

    fn make_directory(&self, dir: Option<Fd>, path: &CStr, _mode: u32) -> Answer<()> {
        let mut state = self.begin(Call::MakeDirectory, &|| format!("{dir:?} {}", text(path)))?;
        state.make(self.process, dir, path.to_bytes())
    }

    fn set_mode(&self, fd: Fd, _mode: u32) -> Answer<()> {
        let state = self.begin(Call::SetMode, &|| format!("{fd:?}"))?;
        state.node(self.process, fd).map(|_| ())
    }

    fn lock(&self, fd: Fd, forks: Option<u64>) -> Answer<()> {
        let mut state = self.begin(Call::Lock, &|| format!("{fd:?}"))?;
        state.processes[self.process].since(forks)?;
        let description = state.description(self.process, fd)?;
        let node = state.descriptions[description].node;
        if state.blocked(node, description) {
            return Err(Errno(libc::EAGAIN));
        }
        let inode = &mut state.disk.nodes[node];
        if !inode.locks.contains(&description) {
            inode.locks.push(description);
        }
        inode.shared = false;
        state.processes[self.process].held.push(fd.0);
        Ok(())
    }

    fn lock_shared(&self, fd: Fd, forks: Option<u64>) -> Answer<()> {
        let mut state = self.begin(Call::Lock, &|| format!("{fd:?} shared"))?;
        state.processes[self.process].since(forks)?;
        let description = state.description(self.process, fd)?;
        let node = state.descriptions[description].node;
        if state.blocked(node, description) && !state.disk.nodes[node].shared {
            return Err(Errno(libc::EAGAIN));
        }
        let inode = &mut state.disk.nodes[node];
        inode.locks.push(description);
        inode.shared = true;
        state.processes[self.process].held.push(fd.0);
        Ok(())
    }

    fn disown(&self, fd: Fd, _stat: &Stat) {
        let mut state = self.kernel.state();
        let held = &mut state.processes[self.process].held;
        held.retain(|number| *number != fd.0);
    }

    fn forks(&self) -> Option<u64> {
        let state = self.kernel.state();
        state.processes[self.process].forks()
    }

    fn unlock(&self, fd: Fd) {
        let Ok((mut state, _)) = self.enter(Call::Unlock, &|| format!("{fd:?}")) else {
            return;
        };
        let held = &mut state.processes[self.process].held;
        let Some(at) = held.iter().position(|number| *number == fd.0) else {
            return;
        };
        held.remove(at);
        if let Ok(description) = state.description(self.process, fd) {
            // LOCK_UN frees the lock even while a forked child has a copy.
            let node = state.descriptions[description].node;
            state.release(node, description);
        }
        state.close(self.process, fd.0);
    }

    fn names(&self, dir: Fd) -> Answer<Vec<Vec<u8>>> {
        let since = {
            let state = self.begin(Call::List, &|| format!("{dir:?}"))?;
            state.node(self.process, dir)?;
            state.calls
        };
        let mut state = self.begin(Call::Listed, &|| format!("{dir:?}"))?;
        let node = state.node(self.process, dir)?;
        Ok(state.listing(node, since))
    }

    fn monotonic(&self) -> u64 {
        let mut state = self.kernel.state();
        if !state.processes[self.process].alive {
            return u64::MAX;
        }
        // Somebody who only looks at the clock must see it move.
        state.now += 100;
        let host = state.processes[self.process].host;
        state.hosts[host].monotonic(state.now)
    }

    fn realtime(&self) -> f64 {
        let state = self.kernel.state();
        let host = state.processes[self.process].host;
        state.hosts[host].realtime(state.now)
    }

    fn sleep(&self, nanoseconds: u64) {
        let Ok((mut state, _)) = self.enter(Call::Sleep, &|| format!("{nanoseconds} ns")) else {
            return;
        };
        let wake = state.now.saturating_add(nanoseconds);
        let process = &mut state.processes[self.process];
        process.asleep = wake;
        process.slept = process.slept.saturating_add(nanoseconds);
        drop(state);
        if !task::pause() {
            let mut state = self.kernel.state();
            state.now = state.now.max(wake);
        }
    }

    fn random(&self, bytes: &mut [u8]) -> Answer<()> {
        let mut state = self.begin(Call::Random, &|| format!("{} bytes", bytes.len()))?;
        for chunk in bytes.chunks_mut(8) {
            let number = state.random.next().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
        Ok(())
    }

    fn host(&self) -> String {
        let state = self.kernel.state();
        let host = state.processes[self.process].host;
        state.hosts[host].name.clone()
    }

    fn process(&self) -> u32 {
        self.kernel.state().processes[self.process].id
    }

    fn boot(&self) -> String {
        let state = self.kernel.state();
        let boot = state.hosts[state.processes[self.process].host].boot;
        format!("{boot:08x}-0000-4000-8000-{boot:012x}")
    }

    fn on_block_device(&self, device: u64) -> bool {
        // With several machines the disk is another one's.
        device == DEVICE && self.kernel.state().hosts.len() == 1
    }
}

/// From outside of any process, durably.
impl State {
    /// Makes a directory in one that is there.
    pub fn place_directory(&mut self, path: &[u8]) -> Answer<()> {
        self.make(0, None, path)?;
        let (above, name) = self.walk(0, None, path)?;
        let node = self.child(above, name)?;
        self.disk.sync(node);
        self.disk.sync(above);
        Ok(())
    }

    /// Writes a file whole.
    pub fn place(&mut self, path: &[u8], bytes: &[u8]) -> Answer<()> {
        let (directory, name) = self.walk(0, None, path)?;
        let node = self.disk.add(Body::File(File::default()));
        self.disk.append(node, bytes);
        self.set(directory, Pending::Set(name.to_vec(), node))?;
        self.disk.sync(node);
        self.disk.sync(directory);
        Ok(())
    }
}
