//! What Kubernetes puts around a message: four bytes that say what it is, and the message
//! `k8s.io.apimachinery.pkg.runtime.Unknown`.

use bytes::Bytes;
use prost::Message as _;

use super::MessageError;

/// The media type of bodies in this form.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";

#[derive(Clone, PartialEq, prost::Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
    #[prost(string, tag = "3")]
    content_encoding: String,
    #[prost(string, tag = "4")]
    content_type: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

/// A message and what it says that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// Empty: not said.
    pub(crate) api_version: String,
    /// Empty: not said.
    pub(crate) kind: String,
    /// The message.
    pub(crate) raw: Bytes,
}

impl Envelope {
    /// Opens a body.
    pub(crate) fn open(mut body: Bytes) -> Result<Self, MessageError> {
        if !body.starts_with(MAGIC) {
            return Err(MessageError::NoMagic);
        }
        let unknown = Unknown::decode(body.split_off(MAGIC.len()))?;
        if !unknown.content_encoding.is_empty() {
            return Err(MessageError::Encoded(unknown.content_encoding));
        }
        if !matches!(unknown.content_type.as_str(), "" | MEDIA_TYPE) {
            return Err(MessageError::Encoded(unknown.content_type));
        }
        let told = unknown.type_meta.unwrap_or_default();
        Ok(Self {
            api_version: told.api_version,
            kind: told.kind,
            raw: unknown.raw,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(unknown: &Unknown) -> Bytes {
        [MAGIC, &unknown.encode_to_vec()].concat().into()
    }

    fn pod() -> Unknown {
        Unknown {
            type_meta: Some(TypeMeta {
                api_version: "v1".into(),
                kind: "Pod".into(),
            }),
            raw: Bytes::from_static(b"x"),
            ..Unknown::default()
        }
    }

    #[test]
    fn an_envelope_says_what_is_in_it() {
        let opened = Envelope::open(body(&pod())).unwrap();
        assert_eq!((&*opened.api_version, &*opened.kind), ("v1", "Pod"));
        assert_eq!(opened.raw, "x");
        // Nothing is something: an object without fields.
        assert_eq!(Envelope::open(body(&Unknown::default())).unwrap().raw, "");
    }

    #[test]
    fn what_is_no_envelope_is_refused() {
        for (bytes, why) in [
            (&b""[..], "expected prefix [107 56 115 0]"),
            (b"k8s", "expected prefix"),
            (b"{\"kind\":\"Pod\"}", "expected prefix"),
            (b"k8s\0\x0a\xff", "varint"),
            (b"k8s\0\x12\x05ab", "underflow"),
        ] {
            let error = Envelope::open(Bytes::from_static(bytes)).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        let packed = Unknown {
            content_encoding: "gzip".into(),
            ..pod()
        };
        assert!(Envelope::open(body(&packed)).is_err());
        let other = Unknown {
            content_type: "application/cbor".into(),
            ..pod()
        };
        assert!(Envelope::open(body(&other)).is_err());
    }
}
