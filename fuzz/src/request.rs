//! Requests over gRPC.

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use listwatch::v1::{self, ErrorReason};
use prost::Message as _;
use tokio::time::timeout;
use tonic::{Code, Status, body::Body};
use tonic_types::StatusExt as _;
use tower::{Service as _, ServiceExt as _};

use super::bed::{Bed, PATIENCE, with_bed};

/// Every method of the API.
const METHODS: [&str; 12] = [
    "ListWatchService/Get",
    "ListWatchService/List",
    "ListWatchService/Watch",
    "ListWatchService/WatchMany",
    "ListWatchService/Create",
    "ListWatchService/Update",
    "ListWatchService/Delete",
    "ListWatchService/Batch",
    "AdminService/Compact",
    "AdminService/GetStatus",
    "AdminService/ListWatches",
    "AdminService/Export",
];

/// Calls that one input may make.
const MOST_CALLS: usize = 8;

/// Calls, one after the other: `| method | length u16 BE | message |`. A length above what is
/// there means all of it.
///
/// Each is answered, or refused with a status as the API documents it and with the store as it
/// was; and what a write says that it wrote is there.
pub fn request(data: &[u8]) {
    if data.is_empty() {
        return;
    }
    with_bed(async |bed| {
        let mut data = data;
        for _ in 0..MOST_CALLS {
            let Some(([method, high, low], rest)) = data.split_first_chunk::<3>() else {
                break;
            };
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let (message, rest) = rest.split_at(rest.len().min(length));
            data = rest;
            let method = METHODS[usize::from(*method) % METHODS.len()];
            check(bed, method, message).await;
        }
    });
}

async fn check(bed: &Bed, method: &str, message: &[u8]) {
    let before = bed.state().await;
    let progress = bed.store.progress();
    let what = || format!("{method} {message:?}");
    // The first message of a watch may come when its life ends, which is an answer too.
    match timeout(PATIENCE, call(bed, method, message)).await {
        // A request id that was used before gets the answer of then.
        Ok(Ok(_)) if bed.store.progress() == progress => {}
        Ok(Ok(answer)) => written(bed, method, message, &answer).await,
        Ok(Err(status)) => {
            refused(&status, &what());
            assert_eq!(bed.state().await, before, "{}: {status:?}", what());
        }
        Err(_) => assert!(method.contains("Watch"), "no answer to {}", what()),
    }
}

/// The first message of the answer.
async fn call(bed: &Bed, method: &str, message: &[u8]) -> Result<Bytes, Status> {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(message.len() as u32);
    frame.put_slice(message);
    let request = http::Request::post(format!("http://in-memory/listwatch.v1.{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::new(frame.freeze())))
        .expect("a request");
    let mut channel = bed.channel.clone();
    let ready = channel.ready().await.expect("the connection is gone");
    let response = ready.call(request).await.expect("the call broke off");
    assert_eq!(response.status(), 200, "{response:?}");
    if let Some(status) = Status::from_header_map(response.headers()) {
        return match status.code() {
            Code::Ok => Ok(Bytes::new()),
            _ => Err(status),
        };
    }
    let mut body = response.into_body();
    let mut given = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame.expect("the answer broke off").into_data() {
            Ok(data) => given.extend_from_slice(&data),
            Err(trailers) => {
                let trailers = trailers.into_trailers().expect("trailers");
                let status = Status::from_header_map(&trailers).expect("a status");
                if status.code() != Code::Ok {
                    return Err(status);
                }
            }
        }
        if let Some((head, rest)) = given.split_first_chunk::<5>() {
            let [compressed, length @ ..] = *head;
            assert_eq!(compressed, 0);
            let length = u32::from_be_bytes(length) as usize;
            if rest.len() >= length {
                return Ok(Bytes::copy_from_slice(&rest[..length]));
            }
        }
    }
    Ok(Bytes::new())
}

/// As the API documents it: of bad input the field is named, in ErrorInfo and in BadRequest.
fn refused(status: &Status, what: &str) {
    let faults = [
        Code::Internal,
        Code::Unknown,
        Code::DataLoss,
        Code::Cancelled,
    ];
    assert!(!faults.contains(&status.code()), "{what}: {status:?}");
    assert!(!status.message().is_empty(), "{what}: {status:?}");
    let details = status.get_error_details();
    let Some(info) = details.error_info() else {
        panic!("{what} was refused without a reason: {status:?}");
    };
    assert_eq!(info.domain, "listwatch", "{what}");
    let name = format!("ERROR_REASON_{}", info.reason);
    assert!(
        ErrorReason::from_str_name(&name).is_some(),
        "{what}: {name}"
    );
    if status.code() == Code::InvalidArgument {
        let field = info.metadata.get("field").cloned().unwrap_or_default();
        assert!(!field.is_empty(), "{what}: {status:?}");
        let bad = details.bad_request().expect("a BadRequest");
        let fields: Vec<_> = bad.field_violations.iter().map(|v| &v.field).collect();
        assert_eq!(fields, [&field], "{what}: {status:?}");
        assert!(details.retry_info().is_none(), "{what}: no retry helps");
    }
}

/// What was written is read as the answer says, and as it was asked for.
async fn written(bed: &Bed, method: &str, message: &[u8], answer: &[u8]) {
    let (asked, answered) = match method {
        "ListWatchService/Create" => (
            v1::CreateRequest::decode(message).map(|request| request.resource),
            v1::CreateResponse::decode(answer).map(|response| response.resource),
        ),
        "ListWatchService/Update" => (
            v1::UpdateRequest::decode(message).map(|request| request.resource),
            v1::UpdateResponse::decode(answer).map(|response| response.resource),
        ),
        _ => return,
    };
    let asked = asked.expect("it was accepted").expect("a resource");
    let answered = answered.expect("a response").expect("a resource");
    assert_eq!(asked.key, answered.key);
    let get = v1::GetRequest {
        key: answered.key.clone(),
        ..v1::GetRequest::default()
    };
    let got = call(bed, METHODS[0], &get.encode_to_vec()).await;
    let got = v1::GetResponse::decode(got.expect("it is there")).expect("a response");
    let got = got.resource.expect("a resource");
    assert_eq!(got.revision, answered.revision);
    assert_eq!((&got.value, &got.labels), (&asked.value, &asked.labels));
    assert_eq!(got.content_type, asked.content_type);
    assert_eq!(got.uid, answered.uid);
}
