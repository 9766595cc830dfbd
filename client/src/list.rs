//! A list that is longer than a page.

use futures::{Stream, stream};
use listwatch::v1::{ListRequest, ListResponse, Resource};

use crate::{client::Client, error::ClientError};

/// How often [`Pages::collect`] starts over. A list that expires again and again is slower
/// than the server's retention, and no number of attempts changes that.
const MAX_RESTARTS: usize = 3;

/// Page after page of one snapshot. Made by [`Client::list_all`].
#[derive(Debug, Clone)]
pub struct Pages {
    client: Client,
    request: ListRequest,
    finished: bool,
}

/// A whole list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// Ordered by (namespace, name).
    pub resources: Vec<Resource>,
    /// The one revision that all of them show.
    pub revision: i64,
    /// Starts a watch of the same selector right after this list.
    pub resume_token: String,
}

impl Pages {
    pub(crate) fn new(client: Client, request: ListRequest) -> Self {
        Self {
            client,
            request,
            finished: false,
        }
    }

    /// The next page; `None` after the last one.
    ///
    /// # Errors
    /// [`ClientError::Expired`] when the list's revision was compacted between two pages. What
    /// was given so far is of that revision; the rest of it cannot be had, and going on at
    /// another revision would mix two states. Start over, or use [`Pages::collect`]. After
    /// any other error the same page can be asked for again.
    pub async fn next_page(&mut self) -> Result<Option<ListResponse>, ClientError> {
        if self.finished {
            return Ok(None);
        }
        let page = self.client.list(self.request.clone()).await?;
        if !page.next_page_token.is_empty() && page.next_page_token == self.request.page_token {
            return Err(ClientError::Protocol(
                "a page's token leads to the same page",
            ));
        }
        self.request.page_token.clone_from(&page.next_page_token);
        self.finished = page.next_page_token.is_empty();
        Ok(Some(page))
    }

    /// All the objects, one by one. Ends after the first error.
    pub fn into_resources(self) -> impl Stream<Item = Result<Resource, ClientError>> + Send {
        let empty = Vec::new().into_iter();
        stream::unfold((Some(self), empty), |(pages, mut ready)| async move {
            let mut pages = pages;
            loop {
                if let Some(resource) = ready.next() {
                    return Some((Ok(resource), (pages, ready)));
                }
                match pages.as_mut()?.next_page().await {
                    Ok(Some(page)) => ready = page.resources.into_iter(),
                    Ok(None) => return None,
                    Err(error) => return Some((Err(error), (None, ready))),
                }
            }
        })
    }

    /// All the objects at once. Starts over, up to three times, when the list expires
    /// between two pages: nothing was given out yet.
    ///
    /// # Errors
    /// [`ClientError::Expired`] if it expires once more; else those of [`Client::list`].
    pub async fn collect(self) -> Result<Listing, ClientError> {
        let mut restarts = 0;
        loop {
            match self.clone().collect_once().await {
                Err(ClientError::Expired(failure)) if restarts == MAX_RESTARTS => {
                    return Err(ClientError::Expired(failure));
                }
                // A request for one exact revision stays expired.
                Err(ClientError::Expired(_)) if self.request.consistency.is_none() => restarts += 1,
                done => return done,
            }
        }
    }

    async fn collect_once(mut self) -> Result<Listing, ClientError> {
        let mut resources = Vec::new();
        loop {
            let Some(page) = self.next_page().await? else {
                return Err(ClientError::Protocol("a list without an answer"));
            };
            resources.extend(page.resources);
            if self.finished {
                return Ok(Listing {
                    resources,
                    revision: page.revision,
                    resume_token: page.resume_token,
                });
            }
        }
    }
}
