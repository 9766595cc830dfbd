//! Tests of the stores, named after what they promise.

mod conformance;
mod damage;
mod figures;
mod full_disk;
mod kill;
mod model;
mod pages;
mod restart;
mod scripted;
mod unfinished;

use std::{
    ops::Bound,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::*;
use crate::clock::Clock;

/// Everything that exists now, as (name, value).
async fn contents(store: &dyn Store) -> Vec<(String, Vec<u8>)> {
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
fn reopen(folder: &Path, options: &StoreOptions) -> SledStore {
    SledStore::open(folder, options.clone()).unwrap()
}

/// A clock that stands still until it is moved.
#[derive(Clone)]
struct TestClock(Arc<AtomicU64>);

impl TestClock {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_700_000_000_000)))
    }

    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap();
        self.0.fetch_add(by, Ordering::SeqCst);
    }

    fn options(&self) -> StoreOptions {
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

fn key(name: &str) -> Key {
    Key::new("pods", "default", name).unwrap()
}

fn content(value: &str) -> Content {
    Content {
        value: bytes::Bytes::copy_from_slice(value.as_bytes()),
        ..Content::default()
    }
}

fn put(name: &str, value: &str) -> Operation {
    put_if(name, value, PutCondition::Any)
}

fn put_if(name: &str, value: &str, condition: PutCondition) -> Operation {
    Operation::Put {
        key: key(name),
        condition,
        content: content(value),
    }
}

fn delete(name: &str) -> Operation {
    Operation::Delete {
        key: key(name),
        if_revision: None,
        if_uid: None,
        allow_missing: false,
        cause: DeleteCause::Request,
    }
}

fn batch(operations: impl IntoIterator<Item = Operation>) -> WriteBatch {
    WriteBatch {
        operations: operations.into_iter().collect(),
        request: None,
        ..WriteBatch::default()
    }
}

async fn write(store: &dyn Store, operation: Operation) -> Committed {
    store.commit(batch([operation])).await.unwrap()
}

const PAGE: PageLimit = PageLimit {
    items: 1000,
    bytes: 1 << 20,
};

fn r(number: u64) -> Revision {
    Revision::new(number)
}

fn pods() -> Collection {
    Collection::new("pods").unwrap()
}

fn all_pods() -> KeyRange {
    KeyRange {
        collection: pods(),
        namespace: None,
        name_prefix: "".into(),
        after: Bound::Unbounded,
    }
}
