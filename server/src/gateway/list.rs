//! Get and list.
//!
//! A list is read page by page from one snapshot and sent as it is read, so that a list of a
//! million objects costs a page of memory. Its metadata stand at the end, where it is known
//! whether there is more.

use std::{ops::Bound, sync::Arc};

use http::{Response, StatusCode};
use tonic::body::Body;

use super::{
    Asked, Gateway,
    kinds::Kind,
    path::Target,
    query::{ListOptions, Match, Version, invalid_token},
    respond::{self, Piece},
    selector,
    status::{Failed, Failure},
    view::{ListEnd, View},
};
use crate::{
    hub::{HubError, StateReader},
    limits::{GATEWAY_PIECE_BYTES, MAX_RESPONSE_EVENTS},
    selector::Selector,
    service::token::{self, PageToken, TokenError},
    store::{Key, Object, ObjectName, PageLimit, Revision, StoreError},
};

impl Gateway {
    pub(super) async fn get(&self, asked: &Asked<'_>) -> Result<Response<Body>, Failed> {
        let object = self.read_object(asked).await?;
        let json = self.view(asked)?.json(&object);
        Ok(respond::whole(StatusCode::OK, json, asked.accepted.gzip))
    }

    /// The object that a get is about.
    pub(super) async fn read_object(&self, asked: &Asked<'_>) -> Result<Arc<Object>, Failed> {
        let (target, query, name) = (&asked.target, &asked.query, asked.name());
        match Version::parse(query.get("resourceVersion"))? {
            Version::Any => {}
            Version::Unset => self.hub().settle().await.map(drop)?,
            Version::At(revision) => self.hub().wait_applied(revision).await?,
        }
        let object = self.find(target, name).await?;
        object.ok_or_else(|| Failure::not_found(&target.kind, name))
    }

    /// The object as the hub has it. A name that cannot be has none.
    pub(super) async fn find(
        &self,
        target: &Target,
        name: &str,
    ) -> Result<Option<Arc<Object>>, Failed> {
        let Ok(object) = ObjectName::new(&target.namespace, name) else {
            return Ok(None);
        };
        let collection = target.kind.collection.clone();
        let (object, _) = self.hub().get(&Key { collection, object }).await?;
        Ok(object)
    }

    pub(super) async fn list(&self, asked: &Asked<'_>) -> Result<Response<Body>, Failed> {
        let target = &asked.target;
        let options = ListOptions::of_list(&asked.query)?;
        let selector = self.selector(target, &options)?;
        let (reader, given) = self.reader(&selector, &options).await?;
        // From whatever is here, Kubernetes gives all of it.
        let is_limited = options.version != Version::Any || !options.next.is_empty();
        let mut listing = Listing {
            gateway: self.clone(),
            view: self.view(asked)?,
            reader,
            fingerprint: selector.hash(),
            is_plain: selector.labels().is_empty() && selector.fields().is_empty(),
            given,
            left: options.limit.filter(|_| is_limited).unwrap_or(usize::MAX),
            state: Progress::Head,
        };
        let first = listing.next().await?;
        let rest = futures::stream::unfold(listing, async |mut listing| {
            if listing.state == Progress::Done {
                return None;
            }
            let piece = listing.next().await;
            if piece.is_err() {
                listing.state = Progress::Done;
            }
            Some((piece, listing))
        });
        Ok(respond::pieces(first, rest, asked.accepted.gzip))
    }

    /// How the client wants to see what it asks for.
    pub(super) fn view(&self, asked: &Asked<'_>) -> Result<View, Failed> {
        self.view_as(&asked.target.kind, asked)
    }

    /// The same for what is shown as an object of another kind.
    pub(super) fn view_as(&self, kind: &Arc<Kind>, asked: &Asked<'_>) -> Result<View, Failed> {
        let now = self.service.options().clock.now();
        View::new(kind, asked.accepted.form, &asked.query, now)
    }

    pub(super) fn selector(
        &self,
        target: &Target,
        options: &ListOptions,
    ) -> Result<Arc<Selector>, Failed> {
        let known = &self.service.options().fields;
        selector::selector(
            target,
            &options.label_selector,
            &options.field_selector,
            known,
        )
    }

    /// A reader where the list begins, and how many objects were given before.
    pub(super) async fn reader(
        &self,
        selector: &Arc<Selector>,
        options: &ListOptions,
    ) -> Result<(StateReader, u64), Failed> {
        let hub = self.hub();
        if !options.next.is_empty() {
            return self.next_page(selector, &options.next).await;
        }
        let exact = match (options.version, options.version_match) {
            (Version::At(revision), Some(Match::Exact)) => Some(revision),
            // As clients of old mean it, who page without saying how.
            (Version::At(revision), None) if options.limit.is_some() => Some(revision),
            (Version::At(revision), _) => {
                hub.wait_applied(revision).await?;
                None
            }
            (Version::Unset, _) => {
                hub.settle().await?;
                None
            }
            (Version::Any, _) => None,
        };
        let Some(revision) = exact else {
            return Ok((hub.read_state(selector.clone()), 0));
        };
        if revision < self.store().progress().compacted {
            return Err(too_old());
        }
        let reader = hub.read_state_at(selector.clone(), revision, Bound::Unbounded);
        Ok((reader.await.map_err(or_too_old)?, 0))
    }

    async fn next_page(
        &self,
        selector: &Arc<Selector>,
        text: &str,
    ) -> Result<(StateReader, u64), Failed> {
        let hub = self.hub();
        let store = self.store().id();
        let page = token::read_page_token(text, store, selector.hash());
        let page = page.map_err(|error| match error {
            TokenError::OtherStore => too_old(),
            TokenError::Damaged | TokenError::OtherRequest => invalid_token(),
        })?;
        let after = Bound::Excluded(page.after.clone());
        if page.revision == Revision::ZERO {
            // The rest of a list that expired, as it is now.
            let now = hub.settle().await?;
            let reader = hub.read_state_at(selector.clone(), now, after);
            return Ok((reader.await?, page.given));
        }
        let expired = || {
            let inconsistent = PageToken {
                revision: Revision::ZERO,
                ..page.clone()
            };
            let next = token::page_token(store, &inconsistent, selector.hash());
            Failure::expired(
                "The provided continue parameter is too old to display a consistent list \
                 result. You can start a new list without the continue parameter, or use the \
                 continue token in this response to retrieve the remainder of the results. \
                 Continuing with the provided token results in an inconsistent list - objects \
                 that were created, modified, or deleted between the time the first chunk was \
                 returned and now may show up in the list.",
            )
            .going_on_from(next)
        };
        if page.revision < self.store().progress().compacted {
            return Err(expired());
        }
        let reader = hub.read_state_at(selector.clone(), page.revision, after);
        match reader.await {
            Ok(reader) => Ok((reader, page.given)),
            Err(HubError::Store(StoreError::Compacted { .. })) => Err(expired()),
            Err(error) => Err(error.into()),
        }
    }
}

fn too_old() -> Failed {
    Failure::expired("The resourceVersion for the provided list is too old.")
}

fn or_too_old(error: HubError) -> Failed {
    match error {
        HubError::Store(StoreError::Compacted { .. }) => too_old(),
        error => error.into(),
    }
}

#[derive(PartialEq)]
enum Progress {
    /// Nothing has been read.
    Head,
    Items,
    Done,
}

/// A list that is being read and sent.
struct Listing {
    gateway: Gateway,
    view: View,
    reader: StateReader,
    fingerprint: u64,
    /// It has no selector: what remains can be told.
    is_plain: bool,
    /// Objects of this and earlier pages.
    given: u64,
    /// How many more may be given.
    left: usize,
    state: Progress,
}

impl Listing {
    async fn next(&mut self) -> Result<Piece, Failed> {
        let mut bytes = match self.state {
            Progress::Head => self.view.begin_list(),
            _ => Vec::new(),
        };
        self.state = Progress::Items;
        loop {
            let limit = PageLimit {
                items: self.left.min(MAX_RESPONSE_EVENTS),
                bytes: GATEWAY_PIECE_BYTES,
            };
            let page = self.reader.next(self.gateway.hub(), limit).await?;
            self.view.items(&page.objects, &mut bytes);
            self.given += page.objects.len() as u64;
            self.left = self.left.saturating_sub(page.objects.len());
            match page.next {
                None => {
                    self.end(None, &mut bytes).await?;
                    break;
                }
                Some(after) if self.left == 0 => {
                    self.end(Some(after), &mut bytes).await?;
                    break;
                }
                // There is a piece to send, and others get their turn meanwhile.
                Some(_) if bytes.len() >= GATEWAY_PIECE_BYTES => break,
                Some(_) => tokio::task::yield_now().await,
            }
        }
        let is_last = self.state == Progress::Done;
        Ok(Piece { bytes, is_last })
    }

    /// Writes the end of the list; `after`: the last name that was looked at.
    async fn end(&mut self, after: Option<ObjectName>, bytes: &mut Vec<u8>) -> Result<(), Failed> {
        self.state = Progress::Done;
        let hub = self.gateway.hub().clone();
        let revision = self.reader.revision();
        let mut end = ListEnd {
            revision,
            ..ListEnd::default()
        };
        if let Some(after) = after
            && self.has_more().await?
        {
            hub.shelve(&self.reader);
            let page = PageToken {
                revision,
                given: self.given,
                after,
            };
            let given = usize::try_from(self.given).unwrap_or(usize::MAX);
            let remaining = self.reader.remaining(given);
            end.remaining = remaining.filter(|_| self.is_plain);
            end.next = token::page_token(self.gateway.store().id(), &page, self.fingerprint);
        }
        self.view.end_list(&end, bytes);
        Ok(())
    }

    /// Whether anything that matches follows: a page that says that there is more has more.
    async fn has_more(&mut self) -> Result<bool, Failed> {
        const ONE: PageLimit = PageLimit { items: 1, bytes: 1 };
        loop {
            let page = self.reader.next(self.gateway.hub(), ONE).await?;
            if !page.objects.is_empty() {
                return Ok(true);
            }
            if page.next.is_none() {
                return Ok(false);
            }
            tokio::task::yield_now().await;
        }
    }
}
