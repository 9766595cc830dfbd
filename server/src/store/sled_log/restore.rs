//! A new store from the objects of a backup.

use std::{fs, path::Path, sync::Arc};

use super::{
    Bounds, SledStore,
    folder::{self, io_error, remove_file, sync_folder, write_synced},
    head::Head,
    manifest::Manifest,
    manifest_of,
    opening::{RESTORING, check_creatable},
    record::{self, Part},
    repair,
    segment::{self, Segment},
};
use crate::{
    limits::COPY_BATCH_RECORDS,
    store::{
        Object, Revision, StoreError, StoreId, StoreOptions,
        plan::{new_store_id, random},
        restored::Restored,
    },
};

impl SledStore {
    /// Makes a new store, with a new identity, in an empty folder: these objects, as of
    /// `revision`, with their uids and revisions. History before it is compacted.
    /// Interrupted, it leaves a folder that no store opens. Blocks.
    ///
    /// # Errors
    /// What the objects' source says; [`StoreError::Unusable`] if the folder is not empty
    /// or an object cannot be (a revision above `revision`, a key twice).
    pub fn restore<E: From<StoreError>>(
        path: impl AsRef<Path>,
        options: StoreOptions,
        revision: Revision,
        objects: impl IntoIterator<Item = Result<Object, E>>,
    ) -> Result<Self, E> {
        let folder = path.as_ref();
        fs::create_dir_all(folder).map_err(|error| io_error("creating", folder, &error))?;
        {
            let _lock = folder::lock(folder)?;
            repair::check_finished(folder)?;
            if Manifest::read(folder)?.is_some() {
                return Err(StoreError::Unusable(format!(
                    "{} already holds a store: import into a new folder",
                    folder.display()
                ))
                .into());
            }
            check_creatable(folder)?;
            let id = new_store_id(&mut random(options.seed));
            write(folder, id, &options, revision, objects)?;
        }
        Ok(Self::open(folder, options)?)
    }
}

/// Writes a store; the caller holds the folder's lock.
pub(super) fn write<E: From<StoreError>>(
    folder: &Path,
    id: StoreId,
    options: &StoreOptions,
    revision: Revision,
    objects: impl IntoIterator<Item = Result<Object, E>>,
) -> Result<(), E> {
    folder::sync_name_of(folder)?;
    write_synced(&folder.join(RESTORING), b"")?;
    sync_folder(folder)?;
    let size = segment::page_segment_bytes(options.segment_bytes);
    // They come in any order, and segments hold distinct ranges of revisions: so one, which
    // later compactions cut.
    let open = Arc::default();
    let old = Segment::create(folder, 1, 1, size, &open)?;
    let mut restored = Restored::new(revision);
    let mut parts: Vec<Part> = Vec::new();
    for object in objects {
        let entry = restored.entry(Arc::new(object?))?;
        parts.extend(record::encode(&entry, old.part_bytes()));
        if parts.len() >= COPY_BATCH_RECORDS {
            old.copy_in(&parts)?;
            parts.clear();
        }
    }
    old.copy_in(&parts)?;
    old.finish()?;
    old.last
        .store(revision.get(), std::sync::atomic::Ordering::Release);
    let new = Segment::create(folder, 2, revision.next().get(), size, &open)?;
    Head::create(folder, id, revision)?;
    let bounds = Bounds {
        progress: restored.progress(),
        next_segment: 3,
    };
    manifest_of(id, bounds, &[Arc::new(old), Arc::new(new)])
        .write(folder)
        .map_err(StoreError::from)?;
    remove_file(&folder.join(RESTORING))?;
    Ok(())
}
