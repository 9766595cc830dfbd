//! `export` and `import`.

use std::fs;

use crate::{
    fake::Fake,
    run::{listwatch, listwatch_with},
};

async fn with_objects(count: usize) -> Fake {
    let fake = Fake::start().await;
    for index in 0..count {
        listwatch(&fake, &["put", "c", &format!("n{index}"), "--value", "v"]).ok();
    }
    fake
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_brings_every_object_into_another_server() {
    let fake = with_objects(5).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.export");
    let file = file.to_str().unwrap();
    let out = listwatch(&fake, &["export", file]).ok();
    assert!(out.starts_with("exported 5 objects"), "{out}");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing else is left behind"
    );

    let other = Fake::start().await;
    assert_eq!(
        listwatch(&other, &["import", file]).ok(),
        "imported 5 of 5 objects\n"
    );
    assert_eq!(other.names(), fake.names());
    assert_eq!(
        other.state().batches,
        [2, 2, 1],
        "held to the server's limit"
    );

    let third = Fake::start().await;
    listwatch_with(&third, &["import", "-"], &fs::read(file).unwrap()).ok();
    assert_eq!(third.names(), fake.names());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_damaged_or_cut_off_export_is_written() {
    let fake = with_objects(5).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.export");
    listwatch(&fake, &["export", file.to_str().unwrap()]).ok();
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let other = Fake::start().await;
    for damaged in [
        &whole[..whole.len() - 1],
        &whole[..whole.len() / 2],
        &flipped,
        b"",
        b"kind: Pod",
    ] {
        let ran = listwatch_with(&other, &["import", "-"], damaged);
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        assert!(other.names().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_the_server_cuts_off_leaves_no_file() {
    let fake = with_objects(2).await;
    fake.state().cuts_exports = true;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.export");
    let ran = listwatch(&fake, &["export", file.to_str().unwrap()]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("footer is missing"), "{}", ran.err);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_the_server_refuses_is_named_and_the_others_are_imported() {
    let fake = with_objects(3).await;
    {
        let mut state = fake.state();
        let mut bad = state.objects.values().next().unwrap().clone();
        let key = bad.key.as_mut().unwrap();
        key.name = "n1-refused".into();
        let id = (
            key.collection.clone(),
            key.namespace.clone(),
            key.name.clone(),
        );
        state.objects.insert(id, bad);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.export");
    let file = file.to_str().unwrap();
    listwatch(&fake, &["export", file]).ok();
    let other = Fake::start().await;
    let ran = listwatch(&other, &["import", file]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.out, "imported 3 of 4 objects, 1 failed\n");
    assert!(ran.err.contains("c/n1-refused"), "{}", ran.err);
    assert_eq!(other.names().len(), 3);
}
