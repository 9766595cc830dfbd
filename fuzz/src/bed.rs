//! A server in this process for one input after the other.

use std::{
    cell::{Cell, RefCell},
    panic,
    sync::{Arc, Once},
    time::{Duration, SystemTime},
};

use listwatch_server::{
    Server, ServerHandle, ServerOptions, ServiceOptions,
    backup::{self, ExportReader},
    clock::Clock,
    hub::HubOptions,
    store::{
        Content, DeleteCause, Key, MemoryStore, Operation, PutCondition, Revision, Store,
        StoreOptions, WriteBatch,
    },
};
use tokio::{
    io::DuplexStream,
    runtime::{Builder, Runtime},
    time::timeout,
};
use tonic::transport::{Channel, Endpoint};

/// No answer takes longer. Time passes when everything waits, so it costs nothing to wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Inputs that one server gets, if none changes its store. Not more: what one leaves behind must
/// not hide in thousands.
const MOST_INPUTS: u32 = 200;

/// How often the objects are put back before there is a new server, which takes ten times as
/// long. Revisions go on meanwhile, so that inputs which name one differ from fresh servers'.
const MOST_REPAIRS: u32 = 20;

/// A server over a store in memory with a few objects, one connection to it, and time that
/// passes only when there is nothing to do.
pub(crate) struct Bed {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) server: ServerHandle,
    pub(crate) channel: Channel,
    inputs: u32,
    repairs: u32,
    fresh: Vec<u8>,
    runtime: Option<Runtime>,
}

thread_local! {
    static BED: RefCell<Option<Bed>> = const { RefCell::new(None) };
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Counts the panics of this thread, on which the whole server runs: those of its tasks end with
/// them, and nobody hears of it.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let told = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            told(panic);
        }));
    });
}

/// Runs a check with a server whose store is as at the start.
pub(crate) fn with_bed(check: impl AsyncFnOnce(&Bed)) {
    count_panics();
    let panics = PANICS.get();
    BED.with_borrow_mut(|kept| {
        let mut bed = kept.take().unwrap_or_else(Bed::new);
        let runtime = bed.runtime.take().expect("a runtime");
        let is_as_before = runtime.block_on(async {
            check(&bed).await;
            let state = bed.state().await;
            state == bed.fresh || bed.repair(&state).await
        });
        assert_eq!(PANICS.get(), panics, "a task of the server panicked");
        bed.runtime = Some(runtime);
        bed.inputs += 1;
        if is_as_before && bed.inputs < MOST_INPUTS {
            *kept = Some(bed);
        }
    });
}

impl Bed {
    fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let mut bed = runtime.block_on(Self::start());
        bed.runtime = Some(runtime);
        bed
    }

    async fn start() -> Self {
        // The clock stands still, so that nothing expires by itself.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let clock = Clock::new(move || now);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreOptions {
            clock: clock.clone(),
            seed: Some(7),
            ..StoreOptions::default()
        }));
        fill(&*store).await;
        let options = ServerOptions {
            hub: HubOptions {
                revision_wait: Duration::from_millis(1),
                ..HubOptions::default()
            },
            service: ServiceOptions {
                clock,
                ..ServiceOptions::default()
            },
            compaction_interval: None,
            ..ServerOptions::default()
        };
        let server = Server::builder().store(store.clone()).options(options);
        let server = server.start().await.expect("a server");
        let channel = Endpoint::from_static("http://in-memory")
            .connect_with_connector(server.in_memory())
            .await
            .expect("a connection");
        let mut bed = Self {
            store,
            server,
            channel,
            inputs: 0,
            repairs: 0,
            fresh: Vec::new(),
            runtime: None,
        };
        bed.fresh = bed.state().await;
        bed
    }

    /// Puts the objects of the start back. `false`: it takes a new server.
    async fn repair(&mut self, state: &[u8]) -> bool {
        let compacted = self.store.progress().compacted;
        if compacted > Revision::ZERO || self.repairs == MOST_REPAIRS {
            return false;
        }
        self.repairs += 1;
        for object in ExportReader::new(state).expect("an export") {
            delete(&*self.store, object.expect("an object").key).await;
        }
        fill(&*self.store).await;
        self.fresh = self.state().await;
        true
    }

    /// Everything that the store holds, and its revision.
    pub(crate) async fn state(&self) -> Vec<u8> {
        exported(self.store.clone()).await
    }

    pub(crate) async fn connect(&self) -> DuplexStream {
        let stream = timeout(PATIENCE, self.server.in_memory().connect()).await;
        stream
            .expect("no connection")
            .expect("the server has ended")
    }
}

/// A store as an export, the same for the same objects.
pub(crate) async fn exported(store: Arc<dyn Store>) -> Vec<u8> {
    let mut file = Vec::new();
    let written = backup::write(store, SystemTime::UNIX_EPOCH, &mut file).await;
    written.expect("an export");
    file
}

/// Pods and a config map that requests can be about; one has been deleted.
async fn fill(store: &dyn Store) {
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"default","labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i"}],"nodeName":"n"}}"#;
    let deployment = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"default","generation":1},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}}}}}"#;
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":{"k":"v"}}"#;
    for (collection, name, value) in [
        ("pods", "a", pod),
        ("pods", "b", "\u{1}"),
        ("deployments.apps", "a", deployment),
        ("configmaps", "a", map),
        ("configmaps", "b", map),
    ] {
        let operation = Operation::Put {
            key: Key::new(collection, "default", name).expect("a key"),
            condition: PutCondition::Any,
            content: Content {
                labels: [("app".to_owned(), "x".to_owned())].into(),
                value: value.as_bytes().to_vec().into(),
                ..Content::default()
            },
        };
        let batch = WriteBatch {
            operations: vec![operation],
            ..WriteBatch::default()
        };
        store.commit(batch).await.expect("a write");
    }
    delete(
        store,
        Key::new("configmaps", "default", "b").expect("a key"),
    )
    .await;
}

async fn delete(store: &dyn Store, key: Key) {
    let operation = Operation::Delete {
        key,
        if_revision: None,
        if_uid: None,
        allow_missing: false,
        cause: DeleteCause::Request,
    };
    let batch = WriteBatch {
        operations: vec![operation],
        ..WriteBatch::default()
    };
    store.commit(batch).await.expect("a deletion");
}
