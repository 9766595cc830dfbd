//! Compact, GetStatus, ListWatches and Export.

use std::{ops::Bound, sync::Arc};

use futures::{Stream, stream};
use listwatch::v1::{self, admin_service_server::AdminService, export_response::Kind};
use prost::Message as _;
use tonic::{Request, Response, Status};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{Responses, Service, request, status, wire};
use crate::{
    limits::{self, EXPORT_PAGE},
    store::{Collection, KeyRange, ObjectName, Pin, Revision, Store},
};

#[tonic::async_trait]
impl AdminService for Service {
    type ExportStream = Responses<v1::ExportResponse>;

    async fn compact(
        &self,
        request: Request<v1::CompactRequest>,
    ) -> Result<Response<v1::CompactResponse>, Status> {
        let request = request.into_inner();
        let revision = request::positive_revision("revision", request.revision);
        let revision = revision.map_err(status::invalid)?;
        let compacted = self.store().compact(revision, request.wait).await;
        let compact_revision = compacted.map_err(status::store)?.to_wire();
        Ok(Response::new(v1::CompactResponse { compact_revision }))
    }

    async fn get_status(
        &self,
        _: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        Ok(Response::new(self.report()))
    }

    async fn list_watches(
        &self,
        request: Request<v1::ListWatchesRequest>,
    ) -> Result<Response<v1::ListWatchesResponse>, Status> {
        let watches = self.list_open_watches(request.get_ref())?;
        Ok(Response::new(watches))
    }

    async fn export(
        &self,
        _: Request<v1::ExportRequest>,
    ) -> Result<Response<Self::ExportStream>, Status> {
        let revision = self.hub.settle().await.map_err(status::hub)?;
        let export = Export::new(self.store().clone(), revision).map_err(status::store)?;
        Ok(Response::new(Box::pin(
            export.into_stream(self.options.clock.now()),
        )))
    }
}

impl Service {
    fn report(&self) -> v1::GetStatusResponse {
        let known = self.store().progress();
        let sizes = self.store().status();
        let counts = self.hub.counts();
        let objects = |name: &Collection| {
            let found = sizes.collections.iter().find(|(known, _)| known == name);
            found.map_or(0, |(_, count)| *count as i64)
        };
        let mut collections: Vec<_> = counts
            .iter()
            .map(|count| v1::CollectionStatus {
                collection: count.collection.to_string(),
                object_count: objects(&count.collection),
                watch_count: count.watches as i64,
                cache_bytes: count.cache_bytes as i64,
                cache_events: count.cache_events as i64,
                cache_capacity: count.cache_capacity as i64,
                cache_oldest_revision: count.cache_oldest.to_wire(),
                cache_hits: count.hits as i64,
                cache_misses: count.misses as i64,
            })
            .collect();
        // A status is one message: what does not fit is left to the metrics.
        collections.sort_by_key(|c| std::cmp::Reverse((c.watch_count, c.object_count)));
        collections.truncate(limits::MAX_STATUS_COLLECTIONS);
        collections.sort_by(|a, b| a.collection.cmp(&b.collection));
        v1::GetStatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            store_id: self.store().id().to_string(),
            revision: known.revision.to_wire(),
            compact_revision: known.compacted.to_wire(),
            object_count: sizes.object_count as i64,
            watch_count: counts.iter().map(|c| c.watches as i64).sum(),
            database_bytes: sizes.database_bytes as i64,
            collections,
            features: [
                "list",
                "watch",
                "watch-many",
                "catch-up",
                "batch",
                "ttl",
                "export",
                "list-watches",
            ]
            .map(str::to_owned)
            .to_vec(),
            tombstone_revision: known.forgotten.to_wire(),
            database_quota_bytes: sizes.quota_bytes as i64,
            storage_full: sizes.full,
            limits: Some(v1::Limits {
                max_object_bytes: self.options.max_object_bytes as i64,
                max_batch_operations: self.options.max_batch_operations as i32,
                max_page_size: limits::MAX_PAGE_OBJECTS as i32,
                max_labels: limits::MAX_LABELS as i32,
                max_selector_requirements: limits::MAX_SELECTOR_REQUIREMENTS as i32,
            }),
        }
    }
}

/// Walks the state at one revision, collection by collection. History is pinned meanwhile.
pub(crate) struct Export {
    store: Arc<dyn Store>,
    revision: Revision,
    _pin: Pin,
    collections: Vec<Collection>,
    after: Bound<ObjectName>,
    stage: Stage,
    header_checksum: u64,
    checksum: Xxh3,
    count: i64,
}

enum Stage {
    Header,
    Objects,
    Done,
}

impl Export {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        revision: Revision,
    ) -> Result<Self, crate::store::StoreError> {
        let pin = store.pin(revision)?;
        let mut collections: Vec<_> = store
            .status()
            .collections
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        collections.sort_by(|a, b| b.cmp(a));
        Ok(Self {
            store,
            revision,
            _pin: pin,
            collections,
            after: Bound::Unbounded,
            stage: Stage::Header,
            header_checksum: 0,
            checksum: Xxh3::new(),
            count: 0,
        })
    }

    pub(crate) fn into_stream(
        self,
        now: std::time::SystemTime,
    ) -> impl Stream<Item = Result<v1::ExportResponse, Status>> + Send {
        stream::try_unfold(self, move |mut export| async move {
            let kind = match export.stage {
                Stage::Header => {
                    export.stage = Stage::Objects;
                    let header = v1::ExportHeader {
                        format_version: 1,
                        store_id: export.store.id().to_string(),
                        revision: export.revision.to_wire(),
                        export_time: Some(wire::timestamp(now)),
                        version: env!("CARGO_PKG_VERSION").to_owned(),
                    };
                    export.header_checksum = xxh3_64(&header.encode_to_vec());
                    Some(Kind::Header(header))
                }
                Stage::Objects => Some(export.objects().await?),
                Stage::Done => None,
            };
            Ok(kind.map(|kind| (v1::ExportResponse { kind: Some(kind) }, export)))
        })
    }

    /// The next objects; after the last, the footer.
    async fn objects(&mut self) -> Result<Kind, Status> {
        while let Some(collection) = self.collections.last() {
            let range = KeyRange {
                collection: collection.clone(),
                namespace: None,
                name_prefix: "".into(),
                after: self.after.clone(),
            };
            let page = self.store.list(&range, self.revision, EXPORT_PAGE).await;
            let page = page.map_err(status::store)?;
            match page.next {
                Some(next) => self.after = Bound::Excluded(next),
                None => {
                    self.collections.pop();
                    self.after = Bound::Unbounded;
                }
            }
            if page.objects.is_empty() {
                continue;
            }
            let resources: Vec<_> = page
                .objects
                .iter()
                .map(|o| wire::resource(o, v1::View::Full))
                .collect();
            for resource in &resources {
                let bytes = resource.encode_to_vec();
                self.checksum.update(&(bytes.len() as u32).to_le_bytes());
                self.checksum.update(&bytes);
            }
            self.count += resources.len() as i64;
            return Ok(Kind::Objects(v1::ExportObjects { resources }));
        }
        self.stage = Stage::Done;
        let checksum = self.checksum.digest();
        Ok(Kind::Footer(v1::ExportFooter {
            object_count: self.count,
            checksum,
            header_checksum: self.header_checksum,
        }))
    }
}
