//! Requests in Kubernetes' wire format in numbers, by what they ask for and how they are
//! answered.
//!
//! A watch and a list are timed until their response begins; a client that hangs up before
//! has no answer to count.

use std::{fmt, sync::Arc, time::Instant};

use http::StatusCode;
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::sheet::Sheet;
use crate::measure::{Counter, Histogram, Level, TIMES};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpVerb {
    Get = 0,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// `/version`, `/api`, `/apis`, `/openapi` and what is below them without being objects.
    Discovery,
    /// What was refused before it was known what it asks for.
    Other,
}

/// In the order of the verbs.
const VERBS: [&str; 10] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "discovery",
    "_other",
];

/// The codes that the gateway answers with, and one for any other.
const CODES: [(u16, &str); 17] = [
    (200, "200"),
    (201, "201"),
    (400, "400"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (409, "409"),
    (410, "410"),
    (413, "413"),
    (415, "415"),
    (422, "422"),
    (429, "429"),
    (500, "500"),
    (503, "503"),
    (504, "504"),
    (507, "507"),
    (0, "_other"),
];

/// Counted by the gateway.
#[derive(Debug)]
pub(crate) struct HttpFigures {
    verbs: [Figures; VERBS.len()],
    watches: Level,
}

#[derive(Debug)]
struct Figures {
    inflight: Level,
    answers: [Counter; CODES.len()],
    times: Histogram,
}

impl Default for HttpFigures {
    fn default() -> Self {
        Self {
            verbs: std::array::from_fn(|_| Figures {
                inflight: Level::default(),
                answers: Default::default(),
                times: Histogram::of_times(TIMES),
            }),
            watches: Level::default(),
        }
    }
}

impl HttpFigures {
    fn of(&self, verb: HttpVerb) -> &Figures {
        &self.verbs[verb as usize]
    }

    /// A request that is being answered, until it is told what it asks for and then how it was
    /// answered.
    pub(crate) fn begin(self: &Arc<Self>) -> HttpRequest {
        self.of(HttpVerb::Other).inflight.rise();
        HttpRequest {
            figures: self.clone(),
            verb: HttpVerb::Other,
            begun: Instant::now(),
        }
    }

    /// A watch that is open for as long as the guard lives.
    pub(crate) fn open_watch(self: &Arc<Self>) -> OpenHttpWatch {
        self.watches.rise();
        OpenHttpWatch(self.clone())
    }
}

/// A request being answered; counted as in flight also when its client hangs up.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    figures: Arc<HttpFigures>,
    verb: HttpVerb,
    begun: Instant,
}

impl HttpRequest {
    /// It is known what it asks for.
    pub(crate) fn is(&mut self, verb: HttpVerb) {
        self.figures.of(self.verb).inflight.fall();
        self.verb = verb;
        self.figures.of(verb).inflight.rise();
    }

    /// It is answered.
    pub(crate) fn answered(self, code: StatusCode) {
        let figures = self.figures.of(self.verb);
        let place = CODES.iter().position(|(known, _)| *known == code.as_u16());
        let answers = &figures.answers;
        let counter = place
            .and_then(|place| answers.get(place))
            .or(answers.last());
        if let Some(counter) = counter {
            counter.inc();
        }
        figures.times.observe_time(self.begun.elapsed());
    }
}

impl Drop for HttpRequest {
    fn drop(&mut self) {
        self.figures.of(self.verb).inflight.fall();
    }
}

/// An open watch.
#[derive(Debug)]
pub(crate) struct OpenHttpWatch(Arc<HttpFigures>);

impl Drop for OpenHttpWatch {
    fn drop(&mut self) {
        self.0.watches.fall();
    }
}

impl Collector for HttpFigures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        let verbs = || VERBS.into_iter().zip(&self.verbs);
        let answers = verbs().flat_map(|(verb, figures)| {
            let answers = CODES.into_iter().zip(&figures.answers);
            // Most verbs are never answered with most codes.
            let met = answers.filter(|(_, count)| count.get() > 0);
            met.map(move |((_, code), count)| (vec![("verb", verb), ("code", code)], count.get()))
        });
        sheet.counters(
            "lw_http_requests",
            "Requests in Kubernetes' wire format, by what they ask for and the code of the answer",
            answers,
        )?;
        let met = verbs().map(|(verb, figures)| (vec![("verb", verb)], figures.times.read()));
        sheet.histograms(
            "lw_http_request_duration_seconds",
            "Time of requests in Kubernetes' wire format; of lists and watches, until they begin",
            met.filter(|(_, times)| times.count > 0),
        )?;
        sheet.gauges(
            "lw_http_requests_inflight",
            "Requests in Kubernetes' wire format being answered, watches only until they open",
            verbs().map(|(verb, figures)| (vec![("verb", verb)], figures.inflight.get() as i64)),
        )?;
        sheet.gauge(
            "lw_http_watches",
            "Open watches in Kubernetes' wire format, which lw_watches counts too",
            self.watches.get() as i64,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_is_not_expected_is_counted_as_another() {
        let figures = Arc::new(HttpFigures::default());
        let mut request = figures.begin();
        request.is(HttpVerb::Patch);
        assert_eq!(figures.of(HttpVerb::Patch).inflight.get(), 1);
        request.answered(StatusCode::IM_A_TEAPOT);
        figures.begin().answered(StatusCode::NOT_FOUND);
        drop(figures.begin());
        let count = |verb, code: usize| figures.of(verb).answers[code].get();
        assert_eq!(count(HttpVerb::Patch, CODES.len() - 1), 1);
        assert_eq!(count(HttpVerb::Other, 3), 1);
        for verb in [HttpVerb::Patch, HttpVerb::Other] {
            assert_eq!(figures.of(verb).inflight.get(), 0);
            assert_eq!(figures.of(verb).times.read().count, 1);
        }
    }
}
