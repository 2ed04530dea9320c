//! The simulated file system: page cache and disk apart. What was not synced is
//! kept or dropped at a power cut, block by block and entry by entry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A file's bytes, shared until somebody writes.
pub type Bytes = Arc<Vec<u8>>;

/// A directory's names.
pub type Entries = BTreeMap<Vec<u8>, usize>;

/// Decides at a power cut whether one unsynced effect reached the disk.
pub type Choose<'a> = dyn FnMut() -> bool + 'a;

/// A change of a directory that no sync has made durable.
#[derive(Clone, Debug)]
pub enum Pending {
    /// A name was given.
    Set(Vec<u8>, usize),
    /// A name was taken away.
    Gone(Vec<u8>),
    /// A file moved to another name, over what was there: whole or not at all.
    Moved(Vec<u8>, Vec<u8>, usize),
}

/// A regular file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// What every process sees.
    pub cached: Bytes,
    disk: Bytes,
    dirty: BTreeSet<usize>,
    resized: bool,
    /// A failed sync called blocks clean that never reached the disk.
    lied: bool,
}

/// A directory. None is ever renamed.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    /// Its absolute path.
    pub path: Vec<u8>,
    /// What every process sees.
    pub entries: Entries,
    durable: Entries,
    pending: Vec<Pending>,
    /// Names that changed, and when: listings that run meanwhile may miss or
    /// repeat them (F23).
    pub touched: Vec<(u64, Vec<u8>)>,
}

/// What an inode is.
#[derive(Clone, Debug)]
pub enum Body {
    /// A regular file.
    File(File),
    /// A directory.
    Folder(Folder),
}

/// One inode.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub body: Body,
    /// Who holds its lock, by open file description; one, or several sharing.
    pub locks: Vec<usize>,
    /// Whether those who hold it share it.
    pub shared: bool,
    /// Syncs that failed: each description open at the time hears of it once.
    pub failures: u64,
}

/// All inodes; the root directory is 0.
#[derive(Clone, Debug)]
pub struct Disk {
    /// By number.
    pub nodes: Vec<Node>,
    /// Whether a directory's failed sync, too, drops what it could not write.
    pub forgets: bool,
    block: usize,
}

impl File {
    /// Appends, as one write.
    pub fn append(&mut self, bytes: &[u8], block: usize) {
        let start = self.cached.len();
        Arc::make_mut(&mut self.cached).extend_from_slice(bytes);
        self.dirty
            .extend(start / block..=(self.cached.len().max(1) - 1) / block);
        self.resized = true;
    }

    fn store(&mut self, block: usize, chosen: &BTreeSet<usize>, size: usize) {
        let disk = Arc::make_mut(&mut self.disk);
        disk.resize(size, 0);
        for number in chosen {
            let (from, to) = (
                number * block,
                ((number + 1) * block).min(self.cached.len()),
            );
            let to = to.min(size);
            if from < to {
                disk[from..to].copy_from_slice(&self.cached[from..to]);
            }
        }
    }

    fn sync(&mut self, block: usize) {
        if self.lied {
            let (dirty, size) = (std::mem::take(&mut self.dirty), self.size_after(true));
            self.store(block, &dirty, size);
        } else {
            self.disk = Arc::clone(&self.cached);
            self.dirty.clear();
        }
        self.resized = false;
    }

    fn size_after(&self, kept: bool) -> usize {
        match kept && self.resized {
            true => self.cached.len(),
            false => self.disk.len(),
        }
    }

    fn clean(&self) -> bool {
        self.dirty.is_empty() && !self.resized
    }

    /// Leaves on the disk what the choice kept; the rest counts as clean.
    fn settle(&mut self, block: usize, choose: &mut Choose<'_>) {
        if self.clean() {
            return;
        }
        let kept = self.resized && choose();
        let size = self.size_after(kept);
        let dirty = std::mem::take(&mut self.dirty);
        let chosen: BTreeSet<usize> = dirty.into_iter().filter(|_| choose()).collect();
        self.store(block, &chosen, size);
        self.resized = false;
    }
}

impl Folder {
    /// An empty directory.
    pub fn new(path: Vec<u8>) -> Folder {
        Folder {
            path,
            ..Folder::default()
        }
    }

    fn apply(entries: &mut Entries, change: &Pending) {
        match change {
            Pending::Set(name, node) => {
                entries.insert(name.clone(), *node);
            }
            Pending::Gone(name) => {
                entries.remove(name);
            }
            Pending::Moved(from, to, node) => {
                entries.remove(from);
                entries.insert(to.clone(), *node);
            }
        }
    }

    /// Changes what processes see; the disk learns of it at a sync.
    pub fn change(&mut self, change: Pending, now: u64) {
        Folder::apply(&mut self.entries, &change);
        let names = match &change {
            Pending::Set(name, _) | Pending::Gone(name) => vec![name.clone()],
            Pending::Moved(from, to, _) => vec![from.clone(), to.clone()],
        };
        self.touched
            .extend(names.into_iter().map(|name| (now, name)));
        self.pending.push(change);
    }
}

impl Disk {
    /// An empty file system whose data tears at multiples of `block`.
    pub fn new(block: usize) -> Disk {
        let mut disk = Disk {
            nodes: Vec::new(),
            forgets: false,
            block,
        };
        disk.add(Body::Folder(Folder::new(b"/".to_vec())));
        disk
    }

    /// A new inode.
    pub fn add(&mut self, body: Body) -> usize {
        self.nodes.push(Node {
            body,
            locks: Vec::new(),
            shared: false,
            failures: 0,
        });
        self.nodes.len() - 1
    }

    /// A directory.
    pub fn folder(&self, node: usize) -> Option<&Folder> {
        match &self.nodes.get(node)?.body {
            Body::Folder(folder) => Some(folder),
            Body::File(_) => None,
        }
    }

    /// A directory, to change it.
    pub fn folder_mut(&mut self, node: usize) -> Option<&mut Folder> {
        match &mut self.nodes.get_mut(node)?.body {
            Body::Folder(folder) => Some(folder),
            Body::File(_) => None,
        }
    }

    /// A regular file's bytes as processes see them.
    pub fn bytes(&self, node: usize) -> Option<&Bytes> {
        match &self.nodes.get(node)?.body {
            Body::File(file) => Some(&file.cached),
            Body::Folder(_) => None,
        }
    }

    /// Appends to a file.
    pub fn append(&mut self, node: usize, bytes: &[u8]) {
        let block = self.block;
        if let Body::File(file) = &mut self.nodes[node].body {
            file.append(bytes, block);
        }
    }

    /// Makes a file's data, or a directory's entries, durable.
    pub fn sync(&mut self, node: usize) {
        let block = self.block;
        match &mut self.nodes[node].body {
            Body::File(file) => file.sync(block),
            Body::Folder(folder) => {
                for change in std::mem::take(&mut folder.pending) {
                    Folder::apply(&mut folder.durable, &change);
                }
            }
        }
    }

    /// A sync that fails: of a file's data some reaches the disk, and none is
    /// dirty any more, so that the next sync has nothing to do (F17). A
    /// directory's entries stay to be synced, as a rule.
    pub fn fail_sync(&mut self, node: usize, choose: &mut Choose<'_>) {
        let (block, forgets) = (self.block, self.forgets);
        let node = &mut self.nodes[node];
        node.failures += 1;
        match &mut node.body {
            Body::File(file) => {
                file.lied |= !file.clean();
                file.settle(block, choose);
            }
            Body::Folder(folder) if forgets => folder.pending.clear(),
            Body::Folder(_) => {}
        }
    }

    /// How many effects a power cut could keep or drop.
    pub fn unsynced(&self) -> usize {
        let reached = self.reached();
        let count = |node: &usize| match &self.nodes[*node].body {
            Body::File(file) => file.dirty.len() + usize::from(file.resized),
            Body::Folder(folder) => folder.pending.len(),
        };
        reached.iter().map(count).sum()
    }

    /// Inodes that some state of the disk names.
    fn reached(&self) -> BTreeSet<usize> {
        let mut found = BTreeSet::from([0]);
        for node in &self.nodes {
            if let Body::Folder(folder) = &node.body {
                found.extend(folder.entries.values().chain(folder.durable.values()));
                let named = folder.pending.iter().filter_map(|change| match change {
                    Pending::Set(_, node) | Pending::Moved(_, _, node) => Some(*node),
                    Pending::Gone(_) => None,
                });
                found.extend(named);
            }
        }
        found
    }

    /// The power goes: caches are lost, and each unsynced effect is kept or
    /// dropped on its own. No lock survives.
    pub fn cut(&mut self, choose: &mut Choose<'_>) {
        let (reached, block) = (self.reached(), self.block);
        for (number, node) in self.nodes.iter_mut().enumerate() {
            node.locks.clear();
            match &mut node.body {
                Body::File(file) if reached.contains(&number) => {
                    file.settle(block, choose);
                    file.cached = Arc::clone(&file.disk);
                    file.lied = false;
                }
                Body::File(_) => {}
                Body::Folder(folder) => {
                    let pending = std::mem::take(&mut folder.pending);
                    for change in pending {
                        if choose() {
                            Folder::apply(&mut folder.durable, &change);
                        }
                    }
                    folder.entries = folder.durable.clone();
                    folder.touched.clear();
                }
            }
        }
    }

    /// Every regular file that can be reached: its path and bytes.
    pub fn files(&self) -> Vec<(Vec<u8>, Bytes)> {
        let mut found = Vec::new();
        let mut rest = vec![0];
        while let Some(folder) = rest.pop().and_then(|node| self.folder(node)) {
            for (name, node) in &folder.entries {
                match &self.nodes[*node].body {
                    Body::Folder(_) => rest.push(*node),
                    Body::File(file) => {
                        found.push((join(&folder.path, name), Arc::clone(&file.cached)));
                    }
                }
            }
        }
        found.sort();
        found
    }
}

/// A path below a directory.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        b"/" => [b"/", name].concat(),
        _ => [directory, b"/", name].concat(),
    }
}
