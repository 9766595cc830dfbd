//! Clients that watch, lose their streams, and go on from where they were.

use std::time::Duration;

use listwatch::v1::{self, CatchUp, DeliveryMode, watch_request::Start};

use super::{
    server::{BOOKMARKS, SILENCE, dial},
    world::{Streamed, World, line_of},
};
use crate::{
    harness::{dice::Dice, everything, labelled, millis},
    validator::{
        Copy, End, Recording,
        calls::{Call, Kind},
        travel::shown_by,
    },
};

/// How one watches.
#[derive(Clone)]
pub struct Spec {
    pub name: String,
    pub selector: v1::Selector,
    mode: DeliveryMode,
    catch_up: CatchUp,
}

/// The watches of a run: one of each kind, and a crowd of the first.
pub fn specs(crowd: u32) -> Vec<Spec> {
    let spec = |name: &str, selector, mode, catch_up| Spec {
        name: name.into(),
        selector,
        mode,
        catch_up,
    };
    let (every, latest) = (DeliveryMode::EveryChange, DeliveryMode::Latest);
    let mut specs = vec![
        spec("all", everything("pods"), every, CatchUp::Net),
        spec("web", labelled("pods", "app", "web"), every, CatchUp::Net),
        spec("latest", everything("pods"), latest, CatchUp::Net),
        spec(
            "latest web",
            labelled("pods", "app", "web"),
            latest,
            CatchUp::Net,
        ),
        spec("exact", everything("pods"), every, CatchUp::Exact),
    ];
    for n in 0..crowd {
        let name = format!("crowd-{n}");
        specs.push(spec(&name, everything("pods"), every, CatchUp::Net));
    }
    specs
}

/// Watches until all is written and this copy has it.
pub async fn follow(world: World, spec: Spec, mut dice: Dice) -> turmoil::Result {
    let mut copy = Copy::default();
    loop {
        let token = copy.token.clone();
        let request = v1::WatchRequest {
            selector: Some(spec.selector.clone()),
            start: (!token.is_empty()).then_some(Start::ResumeToken(token)),
            delivery_mode: spec.mode.into(),
            catch_up: spec.catch_up.into(),
            send_previous: true,
            bookmark_interval: millis(BOOKMARKS.as_millis() as u64),
            ..v1::WatchRequest::default()
        };
        let recording = Recording {
            request,
            held: copy.objects.clone(),
            since: copy.revision,
            settled: copy.settled,
            ..Recording::default()
        };
        let mut stream = Streamed {
            client: spec.name.clone(),
            first: world.epoch(),
            last: 0,
            recording,
            spoke: Vec::new(),
            ended: Duration::ZERO,
        };
        let done = listen(&world, &mut stream, &mut copy, &mut dice).await;
        copy.disconnect();
        let recording = &mut stream.recording;
        let start_over = matches!(
            &recording.end,
            End::Failed(tonic::Code::OutOfRange, reason)
                if reason == "STORE_CHANGED" || spec.catch_up == CatchUp::Exact
        );
        if start_over {
            copy = Copy::default();
        }
        {
            let mut outside = world.lock();
            let epochs = &outside.epochs[stream.first..];
            let compacted = epochs.iter().map(|epoch| epoch.log.compacted);
            recording.compacted = compacted.max().unwrap_or_default();
            let text = format!("{:?} after {}", recording.end, recording.responses.len());
            outside.say(&spec.name, &text);
            stream.last = outside.epochs.len() - 1;
            stream.ended = outside.moment();
            outside.streams.push(stream);
            if done {
                outside.ends.insert(spec.name.clone(), copy);
                return Ok(());
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// One stream, until its end, or until the client leaves. Whether everything is there.
async fn listen(world: &World, stream: &mut Streamed, copy: &mut Copy, dice: &mut Dice) -> bool {
    // Sometimes a client leaves in the middle of something, or does not read for a while.
    let mut patience = if dice.one_in(3) {
        3 + dice.below(12)
    } else {
        u32::MAX
    };
    let pauses = dice.one_in(4);
    let called_at = world.moment();
    let mut client = dial();
    let recording = &mut stream.recording;
    let opened = tokio::time::timeout(SILENCE, client.watch(recording.request.clone())).await;
    let mut responses = match opened {
        Err(_) => {
            recording.end = End::Cut;
            return false;
        }
        Ok(Err(status)) => {
            recording.end = End::of(&status);
            return false;
        }
        Ok(Ok(responses)) => responses.into_inner(),
    };
    let mut done = false;
    recording.end = loop {
        if patience == 0 || done {
            break End::Cut;
        }
        patience -= 1;
        if pauses && dice.one_in(6) {
            stream.spoke.clear();
            tokio::time::sleep(dice.millis(4000)).await;
        }
        match tokio::time::timeout(SILENCE, responses.message()).await {
            Err(_) => break End::Cut,
            Ok(Ok(None)) => break End::Ended,
            Ok(Err(status)) => break End::of(&status),
            Ok(Ok(Some(response))) => {
                copy.apply(&response);
                world.say(&stream.client, &line_of(&response));
                let bookmark = response.bookmark.as_ref();
                let point = bookmark.filter(|b| !b.resume_token.is_empty());
                // Events that no bookmark follows yet are of a state that is still to come.
                let is_point = point.is_some();
                if let Some(point) = point {
                    let (at, first) = (point.revision, stream.first);
                    let shown = shown_by(&response);
                    world.note_seen(&stream.client, first, called_at, at, shown);
                    let now = world.moment();
                    let heard = Call {
                        client: stream.client.clone(),
                        called_at: now,
                        returned_at: Some(now),
                        kind: Kind::Heard(at),
                    };
                    world.note_heard(first, heard);
                }
                recording.responses.push(response);
                let outside = world.lock();
                let is_live = copy.is_live();
                if is_live && !pauses {
                    stream
                        .spoke
                        .push(turmoil::sim_elapsed().unwrap_or_default());
                }
                done = outside.writing == 0
                    && is_point
                    // What a store that is gone has sent may still come.
                    && stream.first + 1 == outside.epochs.len()
                    && copy.settled
                    && copy.revision >= outside.newest().revision();
            }
        }
    };
    done
}
