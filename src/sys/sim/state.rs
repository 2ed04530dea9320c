//! The kernel's state: processes, descriptors, locks, clocks, and the journal
//! of all that was published.

use super::disk::{join, Body, Bytes, Choose, Disk};
use super::fault::{plausible, Call, Fault};
use super::process::{Description, Host, Process};
use super::random::Random;
use crate::guard::{on, Guard};
use crate::sys::{Answer, Errno, Fd};

/// A name's new content, as every process sees it from then on.
#[derive(Clone, Debug)]
pub struct Change {
    /// The absolute path.
    pub path: Vec<u8>,
    /// The content; `None`: removed.
    pub bytes: Option<Bytes>,
    /// Who did it.
    pub process: usize,
    /// The operation it belongs to.
    pub operation: u64,
    /// The kernel's count of calls.
    pub call: u64,
    /// True time.
    pub now: u64,
    /// Whether its process held the lock file beside it then; `None`: there is
    /// no such file.
    pub locked: Option<bool>,
}

/// A private name that was made (H4).
#[derive(Clone, Debug)]
pub struct Temporary {
    /// Its directory's inode.
    pub directory: usize,
    /// The name.
    pub name: Vec<u8>,
    /// The operation that made it.
    pub operation: u64,
    /// The kernel's count of calls when it was gone.
    pub gone: Option<u64>,
}

/// All of it.
#[derive(Clone)]
pub struct State {
    /// The file system.
    pub disk: Disk,
    /// The machines.
    pub hosts: Vec<Host>,
    /// All processes that ever were.
    pub processes: Vec<Process>,
    /// Open file descriptions.
    pub descriptions: Vec<Description>,
    /// True time in nanoseconds.
    pub now: u64,
    /// Calls so far, of all processes.
    pub calls: u64,
    /// The source of every choice.
    pub random: Random,
    /// Renames, links and removals of names that count.
    pub journal: Vec<Change>,
    /// Private names, those that are gone too.
    pub temporaries: Vec<Temporary>,
    /// Whether a lock is only seen by processes of its holder's host.
    pub local_locks: bool,
    /// Calls until the scheduler is asked again.
    pub turn: u64,
    /// No space is left until this true time.
    pub full: u64,
    /// How many writes in a thousand are short.
    pub short: u64,
    /// What every call did, where somebody wants to read it.
    pub trace: Option<Vec<String>>,
}

impl State {
    /// A kernel with `hosts` machines.
    pub fn new(seed: u64, hosts: usize, disk: Disk) -> State {
        State {
            disk,
            hosts: (0..hosts).map(Host::new).collect(),
            processes: Vec::new(),
            descriptions: Vec::new(),
            now: 1_000_000_000,
            calls: 0,
            random: Random::new(seed),
            journal: Vec::new(),
            temporaries: Vec::new(),
            local_locks: false,
            turn: u64::MAX,
            full: 0,
            short: 0,
            trace: None,
        }
    }

    /// Starts a process.
    pub fn start(&mut self, host: usize) -> usize {
        self.processes.push(Process {
            host,
            id: 100 + self.processes.len() as u32,
            alive: true,
            ..Process::default()
        });
        self.processes.len() - 1
    }

    /// Counts a call. Answers whether the scheduler is due.
    pub(super) fn count(&mut self, process: usize, call: Call) -> bool {
        self.calls += 1;
        self.now += 500 + self.random.below(20_000);
        let caller = &mut self.processes[process];
        caller.calls += 1;
        if let Some(kinds) = &mut caller.kinds {
            kinds.push(call);
        }
        let pause = self.turn == 0;
        self.turn = self.turn.saturating_sub(1);
        pause
    }

    /// The fault that a call meets.
    pub(super) fn fault(&mut self, process: usize, call: Call) -> Option<Fault> {
        let full = self.now < self.full && matches!(call, Call::Create | Call::Write);
        let short = call == Call::Write && self.short > 0 && self.random.chance(self.short);
        let caller = &mut self.processes[process];
        let mut found = caller.faults.get(&caller.calls).copied();
        if found.is_none() {
            let next = caller.errors.front().copied();
            let meant = |(kind, errno): (Option<Call>, i32)| {
                plausible(call, errno) && kind.is_none_or(|kind| kind == call)
            };
            if next.is_some_and(meant) {
                caller.errors.pop_front();
                found = next.map(|(_, errno)| Fault::Error(errno));
            }
        }
        if found.is_none() && full {
            found = Some(Fault::Error(libc::ENOSPC));
        }
        if matches!(found, Some(Fault::Error(_))) {
            caller.failed += 1;
        }
        found.or(short.then_some(Fault::Short))
    }

    /// The inode behind a descriptor.
    pub(super) fn node(&self, process: usize, fd: Fd) -> Answer<usize> {
        Ok(self.descriptions[self.description(process, fd)?].node)
    }

    pub(super) fn description(&self, process: usize, fd: Fd) -> Answer<usize> {
        let found = self.processes[process].descriptors.get(&fd.0);
        found.copied().ok_or(Errno(libc::EBADF))
    }

    /// The directory that a path begins at, and its last component.
    pub(super) fn walk<'a>(
        &self,
        process: usize,
        dir: Option<Fd>,
        path: &'a [u8],
    ) -> Answer<(usize, &'a [u8])> {
        let mut at = match (path.first(), dir) {
            (Some(b'/'), _) | (_, None) => 0,
            (_, Some(fd)) => self.node(process, fd)?,
        };
        let mut parts = path.split(|byte| *byte == b'/').filter(|part| {
            // The kernel's own meaning of `.` and of doubled slashes.
            !part.is_empty() && *part != b"."
        });
        let Some(mut last) = parts.next() else {
            return Ok((at, b"."));
        };
        for next in parts {
            at = self.child(at, last)?;
            last = next;
        }
        Ok((at, last))
    }

    /// What a name in a directory stands for.
    pub(super) fn child(&self, directory: usize, name: &[u8]) -> Answer<usize> {
        let folder = self.disk.folder(directory).ok_or(Errno(libc::ENOTDIR))?;
        if name == b"." {
            return Ok(directory);
        }
        let found = folder.entries.get(name).copied();
        found.ok_or(Errno(libc::ENOENT))
    }

    /// A descriptor for an inode: the lowest free number from 3 on.
    pub(super) fn install(&mut self, process: usize, node: usize) -> Fd {
        self.descriptions.push(Description {
            node,
            users: 1,
            host: self.processes[process].host,
            heard: self.disk.nodes[node].failures,
        });
        let table = &mut self.processes[process].descriptors;
        let mut free = 3;
        while table.contains_key(&free) {
            free += 1;
        }
        table.insert(free, self.descriptions.len() - 1);
        Fd(free)
    }

    /// Closes a descriptor; with the description's last one its lock goes.
    pub(super) fn close(&mut self, process: usize, fd: i32) {
        let Some(number) = self.processes[process].descriptors.remove(&fd) else {
            return;
        };
        let description = &mut self.descriptions[number];
        description.users -= 1;
        if description.users == 0 {
            let node = description.node;
            self.release(node, number);
        }
    }

    pub(super) fn release(&mut self, node: usize, description: usize) {
        let locks = &mut self.disk.nodes[node].locks;
        locks.retain(|holder| *holder != description);
    }

    /// Whether another description's lock on an inode stands in the way.
    pub(super) fn blocked(&self, node: usize, description: usize) -> bool {
        let host = |number: usize| self.descriptions[number].host;
        let mut others = self.disk.nodes[node].locks.iter();
        others.any(|other| {
            let seen = !self.local_locks || host(*other) == host(description);
            *other != description && seen
        })
    }

    /// Notes that a name was made, or is gone, where it is a private one.
    pub(super) fn private(&mut self, process: usize, directory: usize, name: &[u8], made: bool) {
        if !name.ends_with(b".tmp") {
            return;
        }
        if made {
            self.temporaries.push(Temporary {
                directory,
                name: name.to_vec(),
                operation: self.processes[process].operation,
                gone: None,
            });
            return;
        }
        self.gone(directory, name);
    }

    /// From now on a private name is not its maker's any more.
    pub(super) fn gone(&mut self, directory: usize, name: &[u8]) {
        let calls = self.calls;
        let same = |one: &&mut Temporary| one.directory == directory && one.name == name;
        if let Some(found) = self.temporaries.iter_mut().rev().find(same) {
            found.gone.get_or_insert(calls);
        }
    }

    /// Ends a process: all of its descriptors close.
    pub fn kill(&mut self, process: usize) {
        if self.processes[process].alive {
            self.processes[process].died = Some(self.calls);
        }
        self.processes[process].alive = false;
        let open: Vec<i32> = self.processes[process]
            .descriptors
            .keys()
            .copied()
            .collect();
        for fd in open {
            self.close(process, fd);
        }
    }

    /// A fork as the child sees it before it has run anything: it shares every
    /// open file description. It never calls the library itself.
    pub fn fork(&mut self, parent: usize) -> usize {
        let child = self.start(self.processes[parent].host);
        let descriptors = self.processes[parent].descriptors.clone();
        for number in descriptors.values() {
            self.descriptions[*number].users += 1;
        }
        let held = self.processes[parent].held.clone();
        let process = &mut self.processes[child];
        process.descriptors = descriptors;
        process.held = held;
        child
    }

    /// The fork handler in the child: what is known to hold a lock is closed.
    pub fn forked(&mut self, child: usize) {
        for fd in std::mem::take(&mut self.processes[child].held) {
            if on(Guard::ChildCloses) {
                self.close(child, fd);
            }
        }
    }

    /// The power of all machines goes, the file server's too.
    pub fn power_cut(&mut self, choose: &mut Choose<'_>) {
        for process in 0..self.processes.len() {
            self.kill(process);
        }
        self.disk.cut(choose);
        let calls = self.calls;
        for temporary in &mut self.temporaries {
            temporary.gone.get_or_insert(calls);
        }
        let now = self.now;
        self.hosts.iter_mut().for_each(|host| host.reboot(now));
    }

    /// Notes a name's new content, but for private names and lock files.
    pub(super) fn publish(&mut self, process: usize, directory: usize, name: &[u8]) {
        if name.ends_with(b".tmp") || name.ends_with(b".lock") {
            return;
        }
        let Some(folder) = self.disk.folder(directory) else {
            return;
        };
        let node = folder.entries.get(name).copied();
        let bytes = node.and_then(|node| match &self.disk.nodes[node].body {
            Body::File(file) => Some(Bytes::clone(&file.cached)),
            Body::Folder(_) => None,
        });
        self.journal.push(Change {
            path: join(&folder.path, name),
            bytes,
            process,
            operation: self.processes[process].operation,
            call: self.calls,
            now: self.now,
            locked: self.locked_beside(process, directory, name),
        });
    }

    fn locked_beside(&self, process: usize, directory: usize, name: &[u8]) -> Option<bool> {
        let beside = [name, b".lock"].concat();
        let node = self.child(directory, &beside).ok()?;
        let own = &self.processes[process].descriptors;
        let holders = self.disk.nodes[node].locks.iter();
        let mut holders = holders.filter(|_| !self.disk.nodes[node].shared);
        Some(holders.any(|holder| own.values().any(|mine| mine == holder)))
    }
}
