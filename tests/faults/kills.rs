//! kill -9 at chosen moments of a load, over one folder that lives on. `scripts/kill-rounds
//! ROUNDS [SEED]` runs more rounds; a failure names the seed that makes its choices again.

use std::time::Duration;

use super::rounds::{FLAGS, Run, number};
use crate::harness::daemon::Daemon;

const ROUNDS: u32 = 6;
const SEED: u64 = 20_261_202;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_or_seen_is_lost_however_often_the_server_is_killed() {
    let rounds = number("KILL_ROUNDS", ROUNDS.into());
    let seed = number("KILL_SEED", SEED);
    println!("{rounds} rounds, KILL_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let mut run = Run::new(folder.path().join("data"), seed);
    for round in 0..rounds {
        run.what = format!("KILL_SEED={seed}, round {round}");
        // Sometimes it is killed while it opens, too.
        while run.dice.one_in(4) {
            let opening = Daemon::spawn(&run.data, &run.address, FLAGS);
            let moment = u64::from(run.dice.below(120));
            tokio::time::sleep(Duration::from_millis(moment)).await;
            opening.kill_9();
        }
        let daemon = run.start().await;
        let load = run.load();
        // Early, or when segments have been filled and copied.
        let most = if run.dice.one_in(4) { 30 } else { 600 };
        let acknowledgements = 1 + u64::from(run.dice.below(most));
        run.written(acknowledgements).await;
        daemon.kill_9();
        run.gather(load).await;
        if round % 10 == 9 {
            println!("{}: {}", run.what, run.report());
        }
    }
    let _daemon = run.start().await;
    run.converge().await;
    println!("{rounds} rounds: {}", run.report());
    let figures = &run.audit.figures;
    assert!(figures.acknowledged > 100 && figures.unknown > 0 && figures.lists > 10);
    let resumed = figures.starts.get("BOOKMARK_KIND_RESUMED");
    assert!(resumed.is_some_and(|n| *n > 0), "{:?}", figures.starts);
}
