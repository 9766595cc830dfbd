//! What a watch of the newest changes is told: one change for several.

use listwatch::v1::{self, EventType};

use super::{
    Check,
    model::{Expected, Name, matches, name_of, same_state},
};

impl Check<'_> {
    pub(super) fn coalesced(
        &mut self,
        given: &[v1::WatchEvent],
        expected: &[Expected],
        bookmark: &v1::Bookmark,
    ) {
        self.newest(given, expected, bookmark.revision);
        let left_out = expected.len() as i64 - given.len() as i64;
        if bookmark.coalesced_count != left_out {
            let said = bookmark.coalesced_count;
            self.say(
                8,
                format!("said to have left out {said}, left out {left_out}"),
            );
        }
    }

    /// Each is the newest change of its object up to a revision.
    pub(super) fn newest(&mut self, given: &[v1::WatchEvent], expected: &[Expected], upto: i64) {
        for event in given {
            let resource = event.resource.clone().unwrap_or_default();
            let name = name_of(&resource);
            if let Some(previous) = &event.previous {
                // Before the first of the changes that it stands for.
                let before = resource.revision - 1;
                let mut states = self.model.states(&name, self.promised, before);
                if !states.any(|state| state.uid == resource.uid && state == previous) {
                    let revision = resource.revision;
                    self.say(9, format!("{name:?}@{revision} was never {previous:?}"));
                }
            }
            let newest = expected
                .iter()
                .rfind(|e| e.name == name && e.resource.uid == resource.uid && e.revision <= upto);
            if newest.is_none_or(|n| n.revision > resource.revision) {
                self.say(
                    8,
                    format!("{name:?}@{} is not the newest change", resource.revision),
                );
            } else if event.r#type() == EventType::Deleted {
                self.last_state(event, &name);
            } else {
                let place = (resource.revision, &name);
                let wanted = expected.iter().find(|e| (e.revision, &e.name) == place);
                if wanted.is_none_or(|wanted| resource != wanted.resource) {
                    let wanted = wanted.map(|wanted| &wanted.resource);
                    self.say(8, format!("{place:?} shows {resource:?}, not {wanted:?}"));
                }
            }
        }
    }

    /// The deletion that several changes have become says why the last of them ended it, and
    /// shows the object as it last was; if it is still there, as the selector last covered it,
    /// or did at any time since the last bookmark.
    fn last_state(&mut self, event: &v1::WatchEvent, name: &Name) {
        let resource = event.resource.clone().unwrap_or_default();
        let revision = resource.revision;
        let shows = |state: &v1::Resource| same_state(&resource, state);
        let (is_right, cause) = match self.model.version(name, revision) {
            Some(_) => {
                let mut states = self.model.states(name, self.promised, revision);
                let is_right = states.any(|state| matches(&self.selector, state) && shows(state));
                (is_right, v1::DeleteCause::Unselected)
            }
            None => {
                let last = self.model.version(name, revision - 1);
                (last.is_some_and(shows), self.model.cause(name, revision))
            }
        };
        if !is_right {
            self.say(8, format!("{name:?}@{revision} was never {resource:?}"));
        }
        if event.delete_cause() != cause {
            let given = event.delete_cause();
            self.say(
                13,
                format!("{name:?}@{revision} ended by {given:?}, not {cause:?}"),
            );
        }
    }
}
