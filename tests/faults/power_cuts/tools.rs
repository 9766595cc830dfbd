//! `listwatchd export`, `import` and `repair`: what they say they have done is on the disk.

use std::{fs, path::Path, process::Command};

use listwatch::v1;

use super::{
    Machine,
    trace::{Call, Step},
    words,
};
use crate::{
    faults::{
        load::{COLLECTION, list},
        record::raw,
        rounds::FLAGS,
    },
    harness::{
        daemon::{Daemon, binary, free_address},
        dice::Dice,
        resource,
    },
};

const CUTS: usize = 4;

/// Names, revisions and values.
type Objects = Vec<(String, i64, Vec<u8>)>;

async fn objects(address: &str) -> Objects {
    let listed = list(&mut raw(address), 1000, 0).await.expect("a list");
    let resources = listed.pages.into_iter().flat_map(|page| page.resources);
    let objects = resources.map(|r| (r.key.unwrap_or_default().name, r.revision, r.value.to_vec()));
    objects.collect()
}

/// What a server over a folder has.
async fn served(data: &Path) -> Objects {
    let daemon = Daemon::start(data, &free_address(), FLAGS).await;
    objects(&daemon.address).await
}

/// A machine whose disk has a store of several segments.
async fn machine(folder: &Path) -> (Machine, Objects) {
    let root = folder.join("disk-0");
    fs::create_dir(&root).unwrap();
    let mut daemon = Daemon::start(&root.join("data"), &free_address(), FLAGS).await;
    let mut client = raw(&daemon.address);
    for n in 0..300 {
        let (name, value) = (format!("o{}", n % 60), format!("{n} ").repeat(800));
        let request = v1::UpdateRequest {
            resource: Some(resource(COLLECTION, &name, &value, &[])),
            allow_missing: true,
            ..v1::UpdateRequest::default()
        };
        client.update(request).await.unwrap();
    }
    let all = objects(&daemon.address).await;
    assert_eq!(all.len(), 60);
    assert!(daemon.terminate().await.success());
    let segments = fs::read_dir(root.join("data")).unwrap().flatten();
    let segments = segments.filter(|entry| entry.path().is_dir()).count();
    assert!(segments > 2, "{segments} segments");
    (Machine::over(folder), all)
}

fn tool(around: &[&str], arguments: &[&Path]) -> bool {
    let mut command = match around {
        [] => Command::new(binary("listwatchd")),
        [program, more @ ..] => {
            let mut command = Command::new(program);
            command.args(more).arg(binary("listwatchd"));
            command
        }
    };
    command.args(arguments).output().unwrap().status.success()
}

/// Runs the tool, and follows what it did.
async fn done(machine: &mut Machine, arguments: &[&Path]) {
    let within = machine.within(&[]);
    assert!(tool(&words(&within), arguments), "{arguments:?}");
    let steps = machine.traced().await;
    machine.disk.follow(&steps);
    let differences = machine.disk.differences();
    assert!(differences.is_empty(), "{differences:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_and_what_is_imported_of_it_are_there_after_a_power_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (mut machine, all) = machine(folder.path()).await;
    let mut dice = Dice::new(1);
    let aside = folder.path().join("aside");
    let (data, backup) = (machine.data(), machine.root().join("backup"));
    let flag = Path::new("--data-dir");
    let export = ["export".as_ref(), backup.as_path(), flag, data.as_path()];
    done(&mut machine, &export).await;
    let exported = fs::read(&backup).unwrap();
    for _ in 0..CUTS {
        let left = machine.disk.cut(&mut dice, &aside);
        let there = fs::read(aside.join("backup")).ok();
        assert!(there.as_ref() == Some(&exported), "{left}: {there:?}");
        fs::remove_dir_all(&aside).unwrap();
    }
    let new = machine.root().join("new");
    let import = ["import".as_ref(), backup.as_path(), flag, new.as_path()];
    done(&mut machine, &import).await;
    for _ in 0..CUTS {
        let left = machine.disk.cut(&mut dice, &aside);
        assert!(served(&aside.join("new")).await == all, "{left}");
        fs::remove_dir_all(&aside).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_that_the_power_is_cut_in_is_made_again_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (machine, all) = machine(folder.path()).await;
    let data = machine.data();
    // Nothing is lost with it.
    fs::remove_file(data.join("MANIFEST")).unwrap();
    let mut machine = Machine::over(folder.path());
    let mut dice = Dice::new(3);
    let aside = folder.path().join("aside");
    let flag = Path::new("--data-dir");
    let within = machine.within(&[]);
    assert!(tool(&words(&within), &["repair".as_ref(), flag, &data]));
    let steps = machine.traced().await;
    let mut renaming = false;
    for (n, step) in steps.iter().enumerate() {
        machine.disk.follow(std::slice::from_ref(step));
        // So the new store takes the old one's place.
        let cuts = match step {
            Step::Succeeded(..) if renaming => CUTS,
            _ => usize::from(n % 100 == 0),
        };
        renaming = matches!(step, Step::Begun(_, Call::Rename(..)));
        for _ in 0..cuts {
            let left = machine.disk.cut(&mut dice, &aside);
            let data = aside.join("data");
            let again = tool(&[], &["repair".as_ref(), flag, &data]);
            assert!(again, "{n}, {left}: it cannot be made again");
            assert!(served(&data).await == all, "{n}, {left}");
            fs::remove_dir_all(&aside).unwrap();
        }
    }
    for _ in 0..CUTS {
        let left = machine.disk.cut(&mut dice, &aside);
        assert!(served(&aside.join("data")).await == all, "{left}");
        fs::remove_dir_all(&aside).unwrap();
    }
}
