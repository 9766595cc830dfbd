//! Exports, as `listwatchd import` reads them.

use std::sync::{Arc, OnceLock};

use listwatch::v1::{ExportResponse, export_response::Kind};
use listwatch_server::{
    backup::{BackupError, ExportReader},
    store::{Object, SledStore, Store, StoreOptions},
};
use prost::Message as _;
use tokio::runtime::{Builder, Runtime};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::bed::exported;

/// An export. After an odd byte its checksums and count are made right first, so that what is
/// behind them is reached.
///
/// What is taken is the same objects when it is exported again; what is refused leaves no store.
pub fn import(data: &[u8]) {
    let Some((form, file)) = data.split_first() else {
        return;
    };
    let file = match form & 1 {
        0 => file.to_vec(),
        _ => sealed(file),
    };
    let Ok(reader) = ExportReader::new(&file[..]) else {
        return;
    };
    let revision = reader.revision();
    let objects: Vec<Result<Object, BackupError>> = reader.collect();
    let refused = objects.iter().any(Result::is_err);
    // Most inputs are refused here, and a store on disk takes a while.
    if refused && form & 2 == 0 {
        return;
    }
    let folder = tempfile::tempdir_in(memory()).expect("a folder");
    let path = folder.path().join("store");
    let options = StoreOptions {
        // Nothing expires by itself here.
        clock: listwatch_server::clock::Clock::new(|| std::time::SystemTime::UNIX_EPOCH),
        ..StoreOptions::default()
    };
    let again = ExportReader::new(&file[..]).expect("the same file");
    let runtime = runtime();
    let _entered = runtime.enter();
    let restored = SledStore::restore(&path, options.clone(), revision, again);
    let store = match restored {
        Ok(store) => Arc::new(store),
        Err(_) => {
            assert!(SledStore::open(&path, options).is_err(), "half a store");
            return;
        }
    };
    assert!(!refused, "a file was taken that its reader refuses");
    let first = runtime.block_on(exported(store.clone()));
    let reader = ExportReader::new(&first[..]).expect("an export");
    assert_eq!(reader.revision(), revision);
    let mut given: Vec<Object> = reader.map(|o| o.expect("an object")).collect();
    let mut taken: Vec<Object> = objects.into_iter().flatten().collect();
    given.sort_by(|a, b| a.key.cmp(&b.key));
    taken.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(given, taken);
    runtime.block_on(store.close());
    drop(store);
    // What is on disk is what was in memory.
    let store = Arc::new(SledStore::open(&path, options).expect("the store"));
    assert_eq!(runtime.block_on(exported(store.clone())), first);
    runtime.block_on(store.close());
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        runtime.expect("a runtime")
    })
}

/// Where a file costs no disk, if there is such a place.
fn memory() -> std::path::PathBuf {
    let shared = std::path::PathBuf::from("/dev/shm");
    if shared.is_dir() {
        shared
    } else {
        std::env::temp_dir()
    }
}

/// The frames with the footer that belongs to them. What is no frame stays as it is.
fn sealed(mut file: &[u8]) -> Vec<u8> {
    let (mut out, mut objects, mut count, mut header_checksum) = (Vec::new(), Xxh3::new(), 0, 0);
    while !file.is_empty() {
        let mut rest = file;
        let Ok(mut frame) = ExportResponse::decode_length_delimited(&mut rest) else {
            out.extend_from_slice(file);
            break;
        };
        file = rest;
        match &mut frame.kind {
            Some(Kind::Header(header)) => {
                header.format_version = 1;
                header_checksum = xxh3_64(&header.encode_to_vec());
            }
            Some(Kind::Objects(page)) => {
                for resource in &page.resources {
                    let bytes = resource.encode_to_vec();
                    objects.update(&(bytes.len() as u32).to_le_bytes());
                    objects.update(&bytes);
                    count += 1;
                }
            }
            Some(Kind::Footer(footer)) => {
                footer.object_count = count;
                footer.checksum = objects.digest();
                footer.header_checksum = header_checksum;
            }
            None => {}
        }
        out.extend(frame.encode_length_delimited_to_vec());
    }
    out
}
