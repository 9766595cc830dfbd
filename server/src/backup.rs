//! Exports as files: every object as of one revision, in a form that outlives the store's
//! own format.
//!
//! A file is a sequence of `listwatch.v1.ExportResponse` messages, each behind its length as
//! a protobuf varint: one header, any number of objects, one footer with count and
//! checksum. The RPC `AdminService.Export` streams the same messages.

use std::{
    io::{self, Read, Write},
    sync::Arc,
    time::SystemTime,
};

use bytes::Bytes;
use futures::{StreamExt as _, pin_mut};
use listwatch::v1::{self, export_response::Kind};
use prost::Message as _;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::{
    limits::{
        CEILING_OBJECT_BYTES, MAX_EXPORT_FRAME_BYTES, MAX_IMPORT_REVISION, RESTORE_REVISION_GAP,
    },
    service::Export,
    store::{Content, Key, Object, Revision, Store, StoreError, Uid},
};

/// An export could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// Reading or writing the file failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is no export, is of an unknown version, was cut off, or was altered.
    #[error("{0}")]
    Damaged(String),
    /// The store could not be read or made; see there for what helps.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The export broke off.
    #[error("{0}")]
    BrokenOff(String),
}

fn damaged(what: impl Into<String>) -> BackupError {
    BackupError::Damaged(what.into())
}

/// Writes an export of a store, and returns the number of objects.
///
/// # Errors
/// [`BackupError`] if the store cannot be read or the file cannot be written.
pub async fn write(
    store: Arc<dyn Store>,
    now: SystemTime,
    mut to: impl Write,
) -> Result<u64, BackupError> {
    let revision = store.progress().revision;
    let frames = Export::new(store, revision)?.into_stream(now);
    pin_mut!(frames);
    let mut count = 0;
    while let Some(frame) = frames.next().await {
        let frame = frame.map_err(|status| BackupError::BrokenOff(status.message().to_owned()))?;
        if let Some(Kind::Footer(footer)) = &frame.kind {
            count = footer.object_count;
        }
        to.write_all(&frame.encode_length_delimited_to_vec())?;
    }
    to.flush()?;
    Ok(count.unsigned_abs())
}

/// Reads an export: an iterator over its objects, which fails where the file is not
/// what was written. Only when it has ended without an error has all been there.
pub struct ExportReader<R> {
    from: R,
    header: v1::ExportHeader,
    ready: std::vec::IntoIter<v1::Resource>,
    checksum: Xxh3,
    count: i64,
    ended: bool,
}

impl<R: Read> ExportReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`BackupError::Damaged`] if this is no export of a known version.
    pub fn new(mut from: R) -> Result<Self, BackupError> {
        let header = match read_frame(&mut from)? {
            Some(v1::ExportResponse {
                kind: Some(Kind::Header(header)),
            }) => header,
            _ => {
                return Err(damaged(
                    "this is no Listwatch export: it does not begin with a header",
                ));
            }
        };
        if header.format_version != 1 {
            let version = header.format_version;
            return Err(damaged(format!(
                "the export has format version {version}; this version reads 1"
            )));
        }
        if !(0..=MAX_IMPORT_REVISION).contains(&header.revision) {
            let revision = header.revision;
            return Err(damaged(format!(
                "the export has an impossible revision: {revision}"
            )));
        }
        let (checksum, ready) = (Xxh3::new(), Vec::new().into_iter());
        Ok(Self {
            from,
            header,
            ready,
            checksum,
            count: 0,
            ended: false,
        })
    }

    /// The revision that the export shows.
    pub fn revision(&self) -> Revision {
        Revision::from_wire(self.header.revision).unwrap_or_default()
    }

    /// Where the history of a store begins that is restored from it, for
    /// [`SledStore::restore`](crate::store::SledStore::restore): above whatever was given out
    /// after the backup was made. A client that holds a bare revision from then (Kubernetes'
    /// `resourceVersion` names no store) is told that it is compacted, where it would go on in
    /// a history that is not its own (etcd 16028).
    pub fn restored_revision(&self) -> Revision {
        // What the wire holds is a bound, which no store comes to.
        let above = self.revision().get().saturating_add(RESTORE_REVISION_GAP);
        Revision::new(above.min(i64::MAX as u64))
    }

    /// What the exporting server said of itself.
    pub fn header(&self) -> &v1::ExportHeader {
        &self.header
    }

    fn next_object(&mut self) -> Result<Option<Object>, BackupError> {
        loop {
            if let Some(resource) = self.ready.next() {
                let bytes = resource.encode_to_vec();
                self.checksum.update(&(bytes.len() as u32).to_le_bytes());
                self.checksum.update(&bytes);
                self.count += 1;
                return object(resource, self.revision()).map(Some);
            }
            match read_frame(&mut self.from)?.and_then(|frame| frame.kind) {
                Some(Kind::Objects(objects)) => self.ready = objects.resources.into_iter(),
                Some(Kind::Footer(footer)) => {
                    self.check(&footer)?;
                    return match read_frame(&mut self.from)? {
                        None => Ok(None),
                        Some(_) => Err(damaged("the export goes on after its footer")),
                    };
                }
                Some(Kind::Header(_)) => return Err(damaged("the export has two headers")),
                None => return Err(damaged("the export is cut off: it has no footer")),
            }
        }
    }

    fn check(&mut self, footer: &v1::ExportFooter) -> Result<(), BackupError> {
        if footer.object_count != self.count {
            let (wanted, found) = (footer.object_count, self.count);
            return Err(damaged(format!(
                "the export says {wanted} objects and has {found}"
            )));
        }
        if footer.header_checksum != xxh3_64(&self.header.encode_to_vec()) {
            return Err(damaged(
                "the export's checksum does not agree with its header",
            ));
        }
        if footer.checksum != self.checksum.digest() {
            return Err(damaged(
                "the export's checksum does not agree with its objects",
            ));
        }
        Ok(())
    }
}

impl<R: Read> Iterator for ExportReader<R> {
    type Item = Result<Object, BackupError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_object().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// One message; `None` at the end of the file.
fn read_frame(from: &mut impl Read) -> Result<Option<v1::ExportResponse>, BackupError> {
    let mut length = 0u64;
    for shift in (0..).step_by(7) {
        let mut byte = [0];
        match from.read_exact(&mut byte) {
            Ok(()) => {}
            Err(e) if shift == 0 && e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(e) => return Err(cut_off(e)),
        }
        length |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            break;
        }
        if shift >= 28 {
            return Err(damaged("a frame of the export has an impossible length"));
        }
    }
    if length > MAX_EXPORT_FRAME_BYTES as u64 {
        return Err(damaged(format!(
            "a frame of the export claims {length} bytes"
        )));
    }
    let mut frame = Vec::new();
    // Grows with what is really there, whatever the length claims.
    from.take(length).read_to_end(&mut frame)?;
    if frame.len() as u64 != length {
        return Err(damaged("the export is cut off in the middle of a frame"));
    }
    let frame = v1::ExportResponse::decode(Bytes::from(frame));
    frame
        .map(Some)
        .map_err(|e| damaged(format!("a frame of the export is damaged: {e}")))
}

fn cut_off(error: io::Error) -> BackupError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("the export is cut off"),
        _ => BackupError::Io(error),
    }
}

fn object(resource: v1::Resource, newest: Revision) -> Result<Object, BackupError> {
    let key = resource.key.unwrap_or_default();
    let key = Key::new(&key.collection, &key.namespace, &key.name)
        .map_err(|e| damaged(format!("an object of the export has a bad key: {e}")))?;
    let bad = |what: &str| damaged(format!("{key} in the export has a bad {what}"));
    let revision = |number| match Revision::from_wire(number) {
        Some(revision) if revision > Revision::ZERO && revision <= newest => Ok(revision),
        _ => Err(bad("revision")),
    };
    let time = |t: prost_types::Timestamp| storable(t).ok_or_else(|| bad("time"));
    if resource.value.len() > CEILING_OBJECT_BYTES {
        return Err(bad("value: it is too large"));
    }
    let content = Content {
        labels: resource.labels,
        value: Bytes::copy_from_slice(&resource.value),
        content_type: resource.content_type.into(),
        expire_time: resource.expire_time.map(time).transpose()?,
    };
    Ok(Object::new(
        key.clone(),
        Uid::parse(&resource.uid).ok_or_else(|| bad("uid"))?,
        revision(resource.revision)?,
        revision(resource.create_revision)?,
        time(resource.update_time.unwrap_or_default())?,
        content,
    ))
}

/// A point in time as the store keeps it, in nanoseconds of 64 bits: one that is further off
/// would come back as another.
fn storable(time: prost_types::Timestamp) -> Option<SystemTime> {
    let nanos = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    i64::try_from(nanos).ok()?;
    SystemTime::try_from(time).ok()
}
