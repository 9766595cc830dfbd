//! Tests of the stores, named after what they promise.

mod conformance;
mod damage;
mod figures;
mod full_disk;
mod kill;
mod model;
mod pages;
mod repair;
mod restart;
mod scripted;
mod unfinished;

use std::{
    fs,
    ops::Bound,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::*;
use crate::{clock::Clock, limits::LETTING_GO};

/// Everything that exists now, as (name, value).
pub(super) async fn contents(store: &dyn Store) -> Vec<(String, Vec<u8>)> {
    let at = store.progress().revision;
    let mut range = all_pods();
    let mut all = Vec::new();
    loop {
        let page = store.list(&range, at, PAGE).await.unwrap();
        let objects = page.objects.iter();
        all.extend(objects.map(|o| (o.key.name().to_owned(), o.content.value.to_vec())));
        match page.next {
            Some(next) => range.after = Bound::Excluded(next),
            None => return all,
        }
    }
}

/// Opens a store whose last user may still be letting go of it.
pub(super) fn reopen(folder: &Path, options: &StoreOptions) -> SledStore {
    SledStore::open(folder, options.clone()).unwrap()
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A segment of a store that is closed, as sled sees it.
fn segment(store: &Path, number: u64) -> sled::Db {
    let folder = store.join(format!("seg-{number}"));
    let conf = fs::read(folder.join("conf")).unwrap();
    let conf = String::from_utf8_lossy(&conf).into_owned();
    let size = conf.lines().find_map(|l| l.strip_prefix("segment_size: "));
    let config = sled::Config::new()
        .path(&folder)
        .segment_size(size.unwrap().trim().parse().unwrap());
    let begun = Instant::now();
    loop {
        match config.open() {
            // sled's threads hold what was just put away a little longer.
            Err(sled::Error::Io(error)) if begun.elapsed() < LETTING_GO => {
                assert!(error.to_string().contains("could not acquire lock"));
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.unwrap(),
        }
    }
}

/// A clock that stands still until it is moved.
#[derive(Clone)]
pub(super) struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_700_000_000_000)))
    }

    pub(super) fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    pub(super) fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap();
        self.0.fetch_add(by, Ordering::SeqCst);
    }

    pub(super) fn options(&self) -> StoreOptions {
        let clock = self.clone();
        StoreOptions {
            clock: Clock::new(move || clock.now()),
            seed: Some(7),
            min_free_bytes: 0,
            ballast_bytes: 0,
            ..StoreOptions::default()
        }
    }
}

pub(super) fn key(name: &str) -> Key {
    Key::new("pods", "default", name).unwrap()
}

pub(super) fn content(value: &str) -> Content {
    Content {
        value: bytes::Bytes::copy_from_slice(value.as_bytes()),
        ..Content::default()
    }
}

pub(super) fn put(name: &str, value: &str) -> Operation {
    put_if(name, value, PutCondition::Any)
}

fn put_if(name: &str, value: &str, condition: PutCondition) -> Operation {
    Operation::Put {
        key: key(name),
        condition,
        content: content(value),
    }
}

pub(super) fn delete(name: &str) -> Operation {
    Operation::Delete {
        key: key(name),
        if_revision: None,
        if_uid: None,
        allow_missing: false,
        cause: DeleteCause::Request,
    }
}

pub(super) fn batch(operations: impl IntoIterator<Item = Operation>) -> WriteBatch {
    WriteBatch {
        operations: operations.into_iter().collect(),
        request: None,
        ..WriteBatch::default()
    }
}

pub(super) fn request(id: &str, operation: Operation) -> WriteBatch {
    WriteBatch {
        operations: vec![operation],
        request: Some(RequestId {
            id: id.into(),
            fingerprint: 1,
        }),
        ..WriteBatch::default()
    }
}

pub(super) async fn write(store: &dyn Store, operation: Operation) -> Committed {
    store.commit(batch([operation])).await.unwrap()
}

const PAGE: PageLimit = PageLimit {
    items: 1000,
    bytes: 1 << 20,
};

pub(super) fn r(number: u64) -> Revision {
    Revision::new(number)
}

pub(super) fn pods() -> Collection {
    Collection::new("pods").unwrap()
}

pub(super) fn all_pods() -> KeyRange {
    KeyRange {
        collection: pods(),
        namespace: None,
        name_prefix: "".into(),
        after: Bound::Unbounded,
    }
}
