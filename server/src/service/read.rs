//! Get and List.

use std::{ops::Bound, sync::Arc};

use listwatch::v1;
use prost::Message as _;
use tonic::Status;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Service,
    request::{self, Consistency},
    status,
    token::{self, PageToken},
    wire,
};
use crate::{
    hub::{Position, StateReader},
    limits::MAX_PAGE_BYTES,
    selector::Selector,
    store::{PageLimit, Revision, StoreError},
};

impl Service {
    pub(super) async fn read_one(
        &self,
        request: v1::GetRequest,
    ) -> Result<v1::GetResponse, Status> {
        let key = request::key(request.key).map_err(status::invalid)?;
        let view = request::view(request.view).map_err(status::invalid)?;
        let wanted = request::consistency(request.consistency).map_err(status::invalid)?;
        let (object, revision) = match wanted {
            Consistency::Exactly(revision) => {
                self.hub.wait_known(revision).await.map_err(status::hub)?;
                let object = self
                    .store()
                    .get(&key, revision)
                    .await
                    .map_err(status::store)?;
                (object, revision)
            }
            _ => {
                self.reach(wanted).await?;
                self.hub.get(&key).await.map_err(status::hub)?
            }
        };
        let object = object.ok_or_else(|| status::not_found(&key, revision))?;
        Ok(v1::GetResponse {
            resource: Some(wire::resource(&object, view)),
            revision: revision.to_wire(),
        })
    }

    pub(super) async fn read_page(
        &self,
        request: v1::ListRequest,
    ) -> Result<v1::ListResponse, Status> {
        let page_size = request::page_size(request.page_size).map_err(status::invalid)?;
        let view = request::view(request.view).map_err(status::invalid)?;
        let wanted = request::consistency(request.consistency).map_err(status::invalid)?;
        let fingerprint = list_fingerprint(&request);
        let selector = request::selector(request.selector, &self.options.fields);
        let selector = Arc::new(selector.map_err(status::invalid)?);

        let (mut reader, given) = self
            .list_reader(&selector, wanted, &request.page_token, fingerprint)
            .await?;
        let limit = PageLimit {
            items: page_size,
            bytes: MAX_PAGE_BYTES,
        };
        let mut objects = Vec::new();
        let mut next = None;
        let mut bytes = 0;
        // A reader's page ends early when much was looked at; a client's page should not.
        while objects.len() < page_size && bytes < limit.bytes {
            let rest = PageLimit {
                items: page_size - objects.len(),
                bytes: limit.bytes - bytes,
            };
            let page = reader.next(&self.hub, rest).await.map_err(status::hub)?;
            bytes += page
                .objects
                .iter()
                .map(|o| o.content.value.len())
                .sum::<usize>();
            objects.extend(page.objects);
            next = page.next;
            if next.is_none() {
                break;
            }
            tokio::task::yield_now().await;
        }

        let revision = reader.revision();
        let given = given + objects.len() as u64;
        let remaining = reader.remaining(given as usize);
        // The last object of the state may have filled the page.
        let next = next.filter(|_| remaining != Some(0));
        if next.is_some() {
            self.hub.shelve(&reader);
        }
        let store = self.store().id();
        let position = Position::settled(revision);
        Ok(v1::ListResponse {
            resources: objects.iter().map(|o| wire::resource(o, view)).collect(),
            next_page_token: next
                .map(|after| {
                    token::page_token(
                        store,
                        &PageToken {
                            revision,
                            given,
                            after,
                        },
                        fingerprint,
                    )
                })
                .unwrap_or_default(),
            revision: revision.to_wire(),
            resume_token: token::resume_token(store, position, selector.hash()),
            remaining_count: remaining.map(|count| count as i64),
        })
    }

    async fn list_reader(
        &self,
        selector: &Arc<Selector>,
        wanted: Consistency,
        page_token: &str,
        fingerprint: u64,
    ) -> Result<(StateReader, u64), Status> {
        let exactly = |revision, after| self.hub.read_state_at(selector.clone(), revision, after);
        if !page_token.is_empty() {
            let store = self.store().id();
            let page = token::read_page_token(page_token, store, fingerprint)
                .map_err(|error| status::token(&error, "page_token", store))?;
            let compacted = self.store().progress().compacted;
            if page.revision < compacted {
                // Also where a snapshot could still serve: how long a list may take must
                // not depend on luck.
                return Err(status::store(self.compacted(page.revision)));
            }
            let reader = exactly(page.revision, Bound::Excluded(page.after)).await;
            return Ok((reader.map_err(status::hub)?, page.given));
        }
        if let Consistency::Exactly(revision) = wanted {
            if revision < self.store().progress().compacted {
                return Err(status::store(self.compacted(revision)));
            }
            let reader = exactly(revision, Bound::Unbounded).await;
            return Ok((reader.map_err(status::hub)?, 0));
        }
        self.reach(wanted).await?;
        Ok((self.hub.read_state(selector.clone()), 0))
    }

    fn compacted(&self, requested: Revision) -> StoreError {
        let known = self.store().progress();
        StoreError::Compacted {
            requested,
            compacted: known.compacted,
            revision: known.revision,
        }
    }

    /// Waits until the hub is as far as a read wants it.
    pub(super) async fn reach(&self, wanted: Consistency) -> Result<(), Status> {
        match wanted {
            Consistency::Any => Ok(()),
            Consistency::Linearizable => self.hub.settle().await.map(drop).map_err(status::hub),
            Consistency::AtLeast(revision) | Consistency::Exactly(revision) => {
                self.hub.wait_applied(revision).await.map_err(status::hub)
            }
        }
    }
}

/// All that must stay as it is from page to page; the page's size may change.
fn list_fingerprint(request: &v1::ListRequest) -> u64 {
    let fixed = v1::ListRequest {
        selector: request.selector.clone(),
        consistency: request.consistency,
        view: request.view,
        ..v1::ListRequest::default()
    };
    xxh3_64(&fixed.encode_to_vec())
}
