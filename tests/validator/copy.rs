//! A client's copy, kept by the rules of the API and by nothing else.

use std::collections::BTreeSet;

use listwatch::v1::{self, BookmarkKind, EventType};

use super::model::{Name, State, name_of};

/// What a stream is in the middle of.
#[derive(Clone, Debug, Default)]
enum Stage {
    /// No stream, or its first bookmark is outstanding.
    #[default]
    Opened,
    /// An initial state comes: a second copy, which replaces the first at the end.
    Initial(State),
    /// A net difference comes: applied as it comes, since each position is a valid one.
    Net,
    /// A manifest comes: applied at the end.
    Manifest {
        named: BTreeSet<Name>,
        changed: State,
    },
    /// The copy is right at each bookmark.
    Live,
}

/// A copy of what a selector covers.
#[derive(Clone, Debug, Default)]
pub struct Copy {
    pub objects: State,
    /// Where to go on; empty: nowhere yet.
    pub token: String,
    /// The revision of the token.
    pub revision: i64,
    /// The copy equals the server's state at `revision`.
    pub settled: bool,
    stage: Stage,
}

impl Copy {
    /// A copy that holds something already.
    pub fn holding(objects: State) -> Self {
        Self {
            objects,
            ..Self::default()
        }
    }

    /// The stream is gone: what was not complete is dropped.
    pub fn disconnect(&mut self) {
        self.stage = Stage::Opened;
    }

    /// Events and bookmarks are followed as they come.
    pub fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Live)
    }

    /// Follows one response.
    pub fn apply(&mut self, response: &v1::WatchResponse) {
        for event in &response.events {
            self.event(event);
        }
        if let Some(bookmark) = &response.bookmark {
            self.bookmark(bookmark);
        }
    }

    fn event(&mut self, event: &v1::WatchEvent) {
        let resource = event.resource.clone().unwrap_or_default();
        let name = name_of(&resource);
        match (&mut self.stage, event.r#type()) {
            (Stage::Initial(state), _) => {
                state.insert(name, resource);
            }
            (Stage::Manifest { named, .. }, EventType::Unchanged) => {
                named.insert(name);
            }
            (Stage::Manifest { named, changed }, _) => {
                named.insert(name.clone());
                changed.insert(name, resource);
            }
            (_, EventType::Deleted) => {
                self.objects.remove(&name);
            }
            _ => {
                self.objects.insert(name, resource);
            }
        }
    }

    fn bookmark(&mut self, bookmark: &v1::Bookmark) {
        match bookmark.kind() {
            BookmarkKind::InitialStateBegin => self.stage = Stage::Initial(State::new()),
            BookmarkKind::NetBegin => self.stage = Stage::Net,
            BookmarkKind::ManifestBegin => {
                self.stage = Stage::Manifest {
                    named: BTreeSet::new(),
                    changed: State::new(),
                };
            }
            BookmarkKind::Resumed => self.stage = Stage::Live,
            BookmarkKind::InitialStateEnd => {
                match std::mem::replace(&mut self.stage, Stage::Live) {
                    Stage::Initial(state) => self.objects = state,
                    Stage::Manifest { named, changed } => {
                        self.objects.retain(|name, _| named.contains(name));
                        self.objects.extend(changed);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        if matches!(self.stage, Stage::Live | Stage::Net) && !bookmark.resume_token.is_empty() {
            self.settled = self.is_live();
            self.token.clone_from(&bookmark.resume_token);
            self.revision = bookmark.revision;
        }
    }
}
