//! State and resume token in a file, so that a restarted program gets only the difference.
//!
//! ```text
//! "LWREFL", 0, 1        the last byte is the version of this format
//! u32 length, Header    protobuf; numbers are little-endian
//! u32 length, Resource  as often as the header says; without keys' collection
//! u64 checksum          XXH3-64 of everything before it
//! ```
//!
//! A save writes a new file beside the old one, syncs it and renames it: whenever the
//! program dies, one of the two is whole.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use listwatch::v1::{Key, Resource, Selector};
use prost::Message as _;
use xxhash_rust::xxh3::Xxh3;

use super::{object::ObjectKey, snapshot::Snapshot};
use crate::watcher::ResumeToken;

const MAGIC: &[u8; 8] = b"LWREFL\x00\x01";
const CHECKSUM_BYTES: usize = 8;

/// Between two saves while something changes. What is lost in a crash is only time: the
/// server sends again what happened since the last save.
pub const DEFAULT_SAVE_INTERVAL: Duration = Duration::from_secs(30);

/// Where a reflector saves its state, and how often.
///
/// Objects then keep their encoded value in memory beside the decoded one. Let one reflector at
/// a time use a file.
#[derive(Debug, Clone)]
#[must_use]
pub struct Persistence {
    pub(super) path: PathBuf,
    pub(super) interval: Duration,
}

impl Persistence {
    /// Saves to this file every 30 s if something changed, and at
    /// [`Reflector::shutdown`](super::Reflector::shutdown). Its folder must exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            interval: DEFAULT_SAVE_INTERVAL,
        }
    }

    /// Saves this often.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }
}

/// Why state could not be saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersistError {
    /// The file system said no. A later save may succeed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The file is not what a save has written: damaged, cut off, or of another format.
    #[error("{}: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How that shows.
        problem: &'static str,
    },
    /// The file is whole, but of another selector or view.
    #[error("{}: saved for another selector or view", path.display())]
    Other {
        /// The file.
        path: PathBuf,
    },
}

#[derive(Clone, PartialEq, prost::Message)]
struct Header {
    #[prost(message, optional, tag = "1")]
    selector: Option<Selector>,
    #[prost(int32, tag = "2")]
    view: i32,
    #[prost(int64, tag = "3")]
    revision: i64,
    #[prost(string, tag = "4")]
    resume_token: String,
    #[prost(uint64, tag = "5")]
    objects: u64,
}

/// What belongs to a file: another one's state would be wrong in silence.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) selector: Selector,
    pub(super) view: i32,
}

#[derive(Debug)]
pub(super) struct Saved {
    pub(super) revision: i64,
    pub(super) resume_token: ResumeToken,
    pub(super) resources: Vec<Resource>,
}

/// Writes a snapshot. Blocks.
pub(super) fn save<T>(
    path: &Path,
    identity: &Identity,
    snapshot: &Snapshot<T>,
) -> Result<(), PersistError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    write(&beside, identity, snapshot)
        .and_then(|()| fs::rename(&beside, path))
        .and_then(|()| sync_folder(path))
        .map_err(|source| PersistError::Io {
            path: path.into(),
            source,
        })
}

fn write<T>(path: &Path, identity: &Identity, snapshot: &Snapshot<T>) -> io::Result<()> {
    let contents = &snapshot.contents;
    let header = Header {
        selector: Some(identity.selector.clone()),
        view: identity.view,
        revision: snapshot.revision,
        resume_token: snapshot
            .resume_token
            .as_ref()
            .map_or("", ResumeToken::as_str)
            .into(),
        objects: (contents.objects.len() + contents.undecodable.len()) as u64,
    };
    let mut out = Summing {
        file: BufWriter::new(File::create(path)?),
        sum: Xxh3::new(),
    };
    out.put(MAGIC)?;
    out.put_message(&header)?;
    for object in contents.objects.values() {
        out.put_message(&with_key(&object.key, &object.resource))?;
    }
    for object in contents.undecodable.values() {
        out.put_message(&with_key(&object.key, &object.resource))?;
    }
    let sum = out.sum.digest();
    out.file.write_all(&sum.to_le_bytes())?;
    out.file
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()
}

fn with_key(key: &ObjectKey, resource: &Resource) -> Resource {
    let key = Key {
        collection: String::new(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    };
    Resource {
        key: Some(key),
        ..resource.clone()
    }
}

/// A rename is on disk when its folder is.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

struct Summing {
    file: BufWriter<File>,
    sum: Xxh3,
}

impl Summing {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.file.write_all(bytes)
    }

    fn put_message(&mut self, message: &impl prost::Message) -> io::Result<()> {
        let bytes = message.encode_to_vec();
        let length = u32::try_from(bytes.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "an object of over 4 GiB"))?;
        self.put(&length.to_le_bytes())?;
        self.put(&bytes)
    }
}

/// Reads what [`save`] wrote; `None` if nothing was saved yet. Blocks.
pub(super) fn load(path: &Path, identity: &Identity) -> Result<Option<Saved>, PersistError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => Bytes::from(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(PersistError::Io {
                path: path.into(),
                source,
            });
        }
    };
    let (header, resources) = parse(bytes).map_err(|problem| PersistError::Damaged {
        path: path.into(),
        problem,
    })?;
    if header.selector.as_ref() != Some(&identity.selector) || header.view != identity.view {
        return Err(PersistError::Other { path: path.into() });
    }
    Ok(Some(Saved {
        revision: header.revision,
        resume_token: ResumeToken::new(header.resume_token),
        resources,
    }))
}

fn parse(mut bytes: Bytes) -> Result<(Header, Vec<Resource>), &'static str> {
    let Some((magic, version)) = bytes.get(..MAGIC.len()).map(|magic| magic.split_at(7)) else {
        return Err("too short");
    };
    if magic != &MAGIC[..7] {
        return Err("not a reflector's file");
    }
    if version != &MAGIC[7..] {
        return Err("of another version of the format");
    }
    let Some(end) = bytes
        .len()
        .checked_sub(CHECKSUM_BYTES)
        .filter(|end| *end >= MAGIC.len())
    else {
        return Err("cut off");
    };
    let expected = bytes.split_off(end).get_u64_le();
    if xxhash_rust::xxh3::xxh3_64(&bytes) != expected {
        return Err("the checksum does not agree");
    }
    bytes.advance(MAGIC.len());
    let header = Header::decode(frame(&mut bytes)?).map_err(|_| "the header is no message")?;
    if header.resume_token.is_empty() {
        return Err("without a resume token");
    }
    let mut resources = Vec::new();
    while !bytes.is_empty() {
        let resource =
            Resource::decode(frame(&mut bytes)?).map_err(|_| "an object is no message")?;
        resources.push(resource);
    }
    if resources.len() as u64 != header.objects {
        return Err("the number of objects does not agree");
    }
    Ok((header, resources))
}

fn frame(bytes: &mut Bytes) -> Result<Bytes, &'static str> {
    let length = bytes.try_get_u32_le().map_err(|_| "cut off")? as usize;
    if length > bytes.len() {
        return Err("cut off");
    }
    Ok(bytes.split_to(length))
}
