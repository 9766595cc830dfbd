//! What a disk has of files that a process changes: what was synced, and of all else any part.
//!
//! As strictly as POSIX has it. A file's bytes are on the disk once a sync of the file that began
//! after the write has returned; its name, once such a sync of the folder has. Of all else a power
//! cut leaves what it will: whole, in order up to some point, or here and there, with writes torn
//! between sectors.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::trace::{Call, Step};
use crate::harness::dice::Dice;

const SECTOR: usize = 512;

type Number = usize;

/// See the module.
pub struct Disk {
    root: PathBuf,
    /// By number, as names may go and the file not. The root is 0.
    nodes: Vec<Node>,
    /// Changes are numbered in their order.
    changes: u64,
    /// Where the next write without an offset goes, per file.
    ends: BTreeMap<Number, u64>,
    /// Calls that have not returned.
    begun: BTreeMap<u64, Begun>,
    /// Moves from a folder to another, by their changes: durable in both at once, as every file system
    /// has it.
    moves: BTreeMap<u64, [Number; 2]>,
}

struct Begun {
    call: Call,
    /// Of a sync: of what, and all up to which change.
    syncs: Option<(Number, u64)>,
}

enum Node {
    Folder(Kept<BTreeMap<String, Number>, Naming>),
    File(Kept<Vec<u8>, Content>),
}

/// What is there, what of it is on the disk for certain, and the changes in between.
struct Kept<T, C> {
    now: T,
    safe: T,
    since: Vec<(u64, C)>,
}

#[derive(Clone)]
enum Naming {
    Set(String, Number),
    Unset(String),
    /// All or nothing.
    Moved(String, String, Number),
}

#[derive(Clone)]
enum Content {
    Bytes(u64, Vec<u8>),
    Length(u64),
    AtLeast(u64),
}

trait Change<T> {
    fn apply(&self, to: &mut T);
}

impl Change<BTreeMap<String, Number>> for Naming {
    fn apply(&self, to: &mut BTreeMap<String, Number>) {
        match self {
            Self::Set(name, number) => drop(to.insert(name.clone(), *number)),
            Self::Unset(name) => drop(to.remove(name)),
            Self::Moved(from, name, number) => {
                to.remove(from);
                to.insert(name.clone(), *number);
            }
        }
    }
}

impl Change<Vec<u8>> for Content {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Bytes(at, bytes) => {
                let at = usize::try_from(*at).unwrap();
                let end = at + bytes.len();
                to.resize(to.len().max(end), 0);
                to[at..end].copy_from_slice(bytes);
            }
            Self::Length(length) => to.resize(usize::try_from(*length).unwrap(), 0),
            Self::AtLeast(length) => {
                let length = usize::try_from(*length).unwrap();
                to.resize(to.len().max(length), 0);
            }
        }
    }
}

impl<T: Clone, C: Change<T>> Kept<T, C> {
    /// With all of it on the disk.
    fn of(now: T) -> Self {
        Self {
            safe: now.clone(),
            now,
            since: Vec::new(),
        }
    }

    fn change(&mut self, number: u64, change: C) {
        change.apply(&mut self.now);
        self.since.push((number, change));
    }

    /// Gives the changes that are on the disk now.
    fn synced(&mut self, upto: u64) -> Vec<u64> {
        let still = self.since.partition_point(|(number, _)| *number <= upto);
        let synced = self.since.drain(..still);
        let numbers = synced.map(|(number, change)| {
            change.apply(&mut self.safe);
            number
        });
        numbers.collect()
    }
}

/// What a cut leaves of what was not synced.
#[derive(Debug)]
enum Left {
    Nothing,
    Everything,
    /// All changes up to this one, which may be torn.
    Upto(u64),
    /// Each change in so many of eight cases, by a seed.
    Some {
        of_eight: u32,
        seed: u32,
    },
}

impl Disk {
    /// Of what is in a folder, all of which is on the disk.
    pub fn of(root: &Path) -> Self {
        let mut disk = Self {
            root: root.to_owned(),
            nodes: vec![Node::Folder(Kept::of(Default::default()))],
            changes: 0,
            ends: BTreeMap::new(),
            begun: BTreeMap::new(),
            moves: BTreeMap::new(),
        };
        disk.found(root, 0);
        disk
    }

    fn found(&mut self, path: &Path, folder: Number) {
        for name in names(path) {
            let entry = path.join(&name);
            let node = if entry.is_dir() {
                Node::Folder(Kept::of(Default::default()))
            } else {
                Node::File(Kept::of(fs::read(&entry).unwrap()))
            };
            let is_folder = matches!(node, Node::Folder(_));
            let number = self.add(node);
            let names = self.folder(folder);
            names.now.insert(name.clone(), number);
            names.safe.insert(name, number);
            if is_folder {
                self.found(&entry, number);
            }
        }
    }

    /// Follows a trace.
    pub fn follow(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Begun(id, call) => {
                    let syncs = match call {
                        Call::Sync(path) => self.find(path).map(|node| (node, self.changes)),
                        _ => None,
                    };
                    let call = call.clone();
                    self.begun.insert(*id, Begun { call, syncs });
                }
                Step::Succeeded(id, done) => {
                    let begun = self.begun.remove(id).expect("it was begun");
                    self.returned(begun, *done);
                }
                Step::Failed(id) => {
                    let begun = self.begun.remove(id).expect("it was begun");
                    assert!(begun.syncs.is_none(), "no sync was to fail");
                }
            }
        }
    }

    fn returned(&mut self, begun: Begun, done: u64) {
        if let Some((node, upto)) = begun.syncs {
            match &mut self.nodes[node] {
                Node::Folder(names) => {
                    let moved = names.synced(upto);
                    self.moved(&moved);
                }
                Node::File(file) => drop(file.synced(upto)),
            }
            return;
        }
        self.make(begun.call, done);
    }

    /// What is durable in one of two folders is in the other.
    fn moved(&mut self, changes: &[u64]) {
        for number in changes {
            for folder in self.moves.remove(number).into_iter().flatten() {
                let names = self.folder(folder);
                let here = names.since.iter().position(|(since, _)| since == number);
                if let Some(here) = here {
                    let (_, change) = names.since.remove(here);
                    change.apply(&mut names.safe);
                }
            }
        }
    }

    fn make(&mut self, call: Call, done: u64) {
        self.changes += 1;
        match call {
            Call::Sync(_) => {}
            Call::Open {
                path,
                create,
                truncate,
            } => match self.find(&path) {
                Some(node) => {
                    self.ends.insert(node, 0);
                    if truncate {
                        self.edit(&path, Content::Length(0));
                    }
                }
                None if create => self.name(&path, Node::File(Kept::of(Default::default()))),
                None => {}
            },
            Call::MakeFolder(path) => self.name(&path, Node::Folder(Kept::of(Default::default()))),
            Call::Write { path, at, bytes } => {
                let Some(node) = self.find(&path) else { return };
                let written = usize::try_from(done).unwrap();
                let end = self.ends.entry(node).or_default();
                let at = at.unwrap_or_else(|| {
                    *end += done;
                    *end - done
                });
                self.edit(&path, Content::Bytes(at, bytes[..written].to_vec()));
            }
            Call::SetLength(path, length) => self.edit(&path, Content::Length(length)),
            Call::Extend(path, length) => self.edit(&path, Content::AtLeast(length)),
            Call::Rename(from, to) => {
                let Some(node) = self.find(&from) else { return };
                let ((folder, from), (other, to)) = (self.place(&from), self.place(&to));
                let number = self.changes;
                if folder == other {
                    let moved = Naming::Moved(from, to, node);
                    self.folder(folder).change(number, moved);
                } else {
                    self.folder(folder).change(number, Naming::Unset(from));
                    self.folder(other).change(number, Naming::Set(to, node));
                    self.moves.insert(number, [folder, other]);
                }
            }
            Call::Remove(path) => {
                if self.find(&path).is_some() {
                    let (folder, name) = self.place(&path);
                    let number = self.changes;
                    self.folder(folder).change(number, Naming::Unset(name));
                }
            }
        }
    }

    /// After the process has ended without the power being cut: what it was killed in has been
    /// done or not, as the files show.
    pub fn killed(&mut self) {
        for begun in std::mem::take(&mut self.begun).into_values() {
            let exists = |path: &str| Path::new(path).exists();
            let mut call = begun.call;
            let done = match &mut call {
                Call::Sync(_) => false,
                Call::Open { path, .. } | Call::MakeFolder(path) => {
                    exists(path) && self.find(path).is_none()
                }
                Call::Write { path, at, bytes } => {
                    let node = self.find(path);
                    let end = node.and_then(|node| self.ends.get(&node).copied());
                    let start = at.unwrap_or_else(|| end.unwrap_or_default());
                    // A kill may also end it in its middle.
                    *bytes = read_at(path, start, bytes.len());
                    !bytes.is_empty()
                }
                Call::SetLength(path, length) | Call::Extend(path, length) => {
                    fs::metadata(path).is_ok_and(|file| file.len() == *length)
                }
                Call::Rename(from, _) | Call::Remove(from) => !exists(from),
            };
            if done {
                let bytes = match &call {
                    Call::Write { bytes, .. } => bytes.len() as u64,
                    _ => 0,
                };
                self.make(call, bytes);
            }
        }
    }

    /// How many changes a power cut could take.
    pub fn at_stake(&self) -> usize {
        let since = self.nodes.iter().map(|node| match node {
            Node::Folder(names) => names.since.len(),
            Node::File(file) => file.since.len(),
        });
        since.sum()
    }

    /// Whether a power cut could take what a folder names.
    pub fn is_at_stake(&self, folder: &str, name: &str) -> bool {
        let folder = self.root.join(folder);
        let number = self.find(folder.to_str().unwrap());
        match number.map(|number| &self.nodes[number]) {
            Some(Node::Folder(names)) => names.safe.get(name) != names.now.get(name),
            _ => false,
        }
    }

    /// Cuts the power: makes a folder of what is left, and says what that is.
    pub fn cut(&self, dice: &mut Dice, into: &Path) -> String {
        let left = match dice.below(8) {
            0 => Left::Nothing,
            1 => Left::Everything,
            2 | 3 => Left::Upto(self.some_change(dice)),
            _ => Left::Some {
                of_eight: [1, 4, 7][dice.below(3) as usize],
                seed: dice.below(u32::MAX),
            },
        };
        let mut made = BTreeSet::new();
        self.write(0, into, &left, dice, &mut made);
        format!("{left:?} of {}", self.at_stake())
    }

    /// Makes a folder of all that is there.
    pub fn all(&self, into: &Path) {
        let (all, mut made) = (Left::Everything, BTreeSet::new());
        self.write(0, into, &all, &mut Dice::new(0), &mut made);
    }

    fn some_change(&self, dice: &mut Dice) -> u64 {
        let numbers = self.nodes.iter().flat_map(|node| -> Vec<u64> {
            match node {
                Node::Folder(names) => names.since.iter().map(|(n, _)| *n).collect(),
                Node::File(file) => file.since.iter().map(|(n, _)| *n).collect(),
            }
        });
        let numbers: BTreeSet<u64> = numbers.collect();
        let numbers: Vec<_> = numbers.into_iter().collect();
        match u32::try_from(numbers.len()) {
            Ok(0) | Err(_) => 0,
            Ok(count) => numbers[dice.below(count) as usize],
        }
    }

    fn write(
        &self,
        node: Number,
        path: &Path,
        left: &Left,
        dice: &mut Dice,
        made: &mut BTreeSet<Number>,
    ) {
        // Where a move is undone and a later use of the name is not, there could be two names.
        if !made.insert(node) {
            return;
        }
        match &self.nodes[node] {
            Node::Folder(names) => {
                let mut kept = names.safe.clone();
                for (number, change) in &names.since {
                    if left.has(*number) {
                        change.apply(&mut kept);
                    }
                }
                fs::create_dir_all(path).unwrap();
                for (name, number) in kept {
                    self.write(number, &path.join(name), left, dice, made);
                }
            }
            Node::File(file) => {
                let mut kept = file.safe.clone();
                for (number, change) in &file.since {
                    for part in left.parts(*number, change, dice) {
                        part.apply(&mut kept);
                    }
                }
                fs::write(path, kept).unwrap();
            }
        }
    }

    /// Whether the files are as the trace says: else it leaves something out.
    pub fn differences(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.compare(0, &self.root, &mut found);
        found
    }

    fn compare(&self, node: Number, path: &Path, found: &mut Vec<String>) {
        match &self.nodes[node] {
            Node::Folder(folder) => {
                let (there, told) = (names(path), &folder.now);
                if !there.iter().eq(told.keys()) {
                    let path = path.display();
                    found.push(format!("{path} has {there:?}, in the trace {told:?}"));
                }
                for (name, number) in told {
                    self.compare(*number, &path.join(name), found);
                }
            }
            Node::File(file) => {
                let there = fs::read(path).unwrap_or_default();
                if there != file.now {
                    let (path, length, told) = (path.display(), there.len(), file.now.len());
                    let at = there.iter().zip(&file.now).position(|(a, b)| a != b);
                    found.push(format!(
                        "{path} has other bytes at {at:?}, {length} in all, in the trace {told}"
                    ));
                }
            }
        }
    }

    fn add(&mut self, node: Node) -> Number {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn folder(&mut self, number: Number) -> &mut Kept<BTreeMap<String, Number>, Naming> {
        match &mut self.nodes[number] {
            Node::Folder(names) => names,
            Node::File(_) => panic!("a file is used as a folder"),
        }
    }

    fn name(&mut self, path: &str, node: Node) {
        if !Path::new(path).starts_with(&self.root) {
            return;
        }
        let number = self.add(node);
        let (folder, name) = self.place(path);
        let change = self.changes;
        let set = Naming::Set(name, number);
        self.folder(folder).change(change, set);
    }

    fn edit(&mut self, path: &str, content: Content) {
        if let Some(node) = self.find(path)
            && let Node::File(file) = &mut self.nodes[node]
        {
            file.change(self.changes, content);
        }
    }

    /// The folder that a path is in, and its name there.
    fn place(&self, path: &str) -> (Number, String) {
        let path = Path::new(path);
        let folder = path.parent().and_then(|folder| self.find(folder.to_str()?));
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (
            folder.unwrap_or_else(|| panic!("{} is in no folder", path.display())),
            name,
        )
    }

    /// What has this path now; `None` also outside the disk.
    fn find(&self, path: &str) -> Option<Number> {
        let within = Path::new(path).strip_prefix(&self.root).ok()?;
        within
            .iter()
            .try_fold(0, |node, name| match &self.nodes[node] {
                Node::Folder(names) => names.now.get(name.to_str()?).copied(),
                Node::File(_) => None,
            })
    }
}

/// What a file has at a place, up to its end.
fn read_at(path: &str, at: u64, length: usize) -> Vec<u8> {
    let bytes = fs::read(path).unwrap_or_default();
    let start = bytes.len().min(usize::try_from(at).unwrap());
    let end = bytes.len().min(start + length);
    bytes[start..end].to_vec()
}

/// Names in a folder, but those of the logs that our servers write to.
fn names(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).into_iter().flatten();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.contains(".log")).collect()
}

impl Left {
    /// The same for both halves of a move.
    fn has(&self, number: u64) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Upto(last) => number <= *last,
            Self::Some { of_eight, seed } => {
                let mut dice = Dice::new(number << 32 | u64::from(*seed));
                dice.below(8) < *of_eight
            }
        }
    }

    /// What is left of a change of a file.
    fn parts(&self, number: u64, change: &Content, dice: &mut Dice) -> Vec<Content> {
        let torn = match self {
            Self::Upto(last) => number == *last,
            Self::Some { .. } => dice.one_in(2),
            _ => false,
        };
        let (at, bytes) = match change {
            Content::Bytes(at, bytes) if torn => (*at, bytes),
            _ => return Vec::from_iter(self.has(number).then(|| change.clone())),
        };
        let (mut parts, mut from) = (Vec::new(), 0);
        let first = dice.below(u32::try_from(bytes.len() / SECTOR + 2).unwrap());
        while from < bytes.len() {
            let start = usize::try_from(at).unwrap() + from;
            let to = bytes.len().min(from + SECTOR - start % SECTOR);
            let has = match self {
                Self::Some { of_eight, .. } => dice.below(8) < *of_eight,
                // In order also within it.
                _ => from / SECTOR < first as usize,
            };
            if has {
                parts.push(Content::Bytes(start as u64, bytes[from..to].to_vec()));
            }
            from = to;
        }
        parts
    }
}
