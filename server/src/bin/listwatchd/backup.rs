//! `listwatchd export`, `import` and `repair`: work on a data folder that no server uses.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use listwatch_server::{
    backup::{self, ExportReader},
    store::{SledStore, Store},
};

use crate::flags::{Export, Import, Serve};

pub(crate) async fn export(task: Export, flags: Serve) -> Result<(), String> {
    let folder = &flags.data_dir;
    if !folder.exists() {
        return Err(format!("{} does not exist", folder.display()));
    }
    let store: Arc<dyn Store> =
        Arc::new(SledStore::open(folder, flags.store_options()).map_err(|e| e.to_string())?);
    let count = if task.file == Path::new("-") {
        backup::write(
            store.clone(),
            SystemTime::now(),
            BufWriter::new(io::stdout()),
        )
        .await
    } else {
        whole_file(store.clone(), &task.file).await
    };
    store.close().await;
    let count = count.map_err(|e| format!("{}: {e}", task.file.display()))?;
    tracing::info!(objects = count, "exported");
    Ok(())
}

/// Under its name only once it is whole and on disk.
async fn whole_file(store: Arc<dyn Store>, path: &Path) -> Result<u64, backup::BackupError> {
    // A device would be replaced, not written.
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let why = "it is there and is no file: name another, or - for standard output";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why).into());
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let file = File::create(&partial)?;
    let count = backup::write(store, SystemTime::now(), BufWriter::new(&file)).await?;
    file.sync_all()?;
    std::fs::rename(&partial, path)?;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(count)
}

pub(crate) fn import(task: Import, flags: Serve) -> Result<(), String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", task.file.display());
    let source: Box<dyn Read> = if task.file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(&task.file).map_err(|e| named(&e))?)
    };
    let export = ExportReader::new(BufReader::new(source)).map_err(|e| named(&e))?;
    let revision = export.restored_revision();
    SledStore::restore(&flags.data_dir, flags.store_options(), revision, export)
        .map_err(|e| e.to_string())?;
    tracing::info!(%revision, folder = %flags.data_dir.display(), "imported into a new store");
    Ok(())
}

pub(crate) fn repair(flags: Serve) -> Result<(), String> {
    let report = SledStore::repair(&flags.data_dir, &flags.store_options());
    let report = report.map_err(|e| e.to_string())?;
    // What was lost is the task's result, not a log line.
    let mut out = io::stdout().lock();
    let mut say = |line: &str| writeln!(out, "{line}").map_err(|e| e.to_string());
    say(&format!(
        "{} objects at revision {} are in the new store; the damaged files are kept in {}",
        report.objects,
        report.revision,
        report.kept.display(),
    ))?;
    report.losses.iter().try_for_each(|loss| say(loss))
}
