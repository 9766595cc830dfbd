//! Export files: `ExportResponse` messages, each behind its length as a varint.

use std::io::{self, Read, Write};

use listwatch::v1::{ExportFooter, ExportHeader, ExportResponse, export_response::Kind};
use prost::Message as _;
use xxhash_rust::xxh3::Xxh3Default;

/// The only version there is.
const FORMAT_VERSION: i32 = 1;

/// A frame larger than this was not written by an export: the length is damaged.
const MAX_FRAME_BYTES: u64 = 256 << 20;

/// Holds an export to its own promises while its frames go by: first a header of a known
/// version, then objects, last a footer whose count and checksum are those of the objects.
pub(super) struct Verifier {
    state: State,
    objects: i64,
    checksum: Xxh3Default,
    encoded: Vec<u8>,
}

enum State {
    Start,
    Objects,
    Complete,
}

impl Verifier {
    /// Before the first frame.
    pub(super) fn new() -> Self {
        Self {
            state: State::Start,
            objects: 0,
            checksum: Xxh3Default::new(),
            encoded: Vec::new(),
        }
    }

    /// Takes the next frame; the reason if it cannot stand here.
    pub(super) fn frame(&mut self, frame: &ExportResponse) -> Result<(), String> {
        match (&self.state, &frame.kind) {
            (State::Start, Some(Kind::Header(header))) => {
                self.state = State::Objects;
                check_version(header)
            }
            (State::Start, _) => Err("does not start with the header of an export".into()),
            (State::Objects, Some(Kind::Objects(objects))) => {
                for resource in &objects.resources {
                    self.encoded.clear();
                    resource
                        .encode(&mut self.encoded)
                        .map_err(|error| error.to_string())?;
                    let length = u32::try_from(self.encoded.len())
                        .map_err(|_| "holds an object of more than 4 GiB")?;
                    self.checksum.update(&length.to_le_bytes());
                    self.checksum.update(&self.encoded);
                    self.objects += 1;
                }
                Ok(())
            }
            (State::Objects, Some(Kind::Footer(footer))) => {
                self.state = State::Complete;
                self.check_footer(*footer)
            }
            (State::Objects, Some(Kind::Header(_))) => Err("holds two headers".into()),
            (State::Objects, None) => {
                Err("holds a frame that this version does not know: it is of a newer server".into())
            }
            (State::Complete, _) => Err("goes on after its end".into()),
        }
    }

    /// Whether the footer was there; the number of objects.
    pub(super) fn finish(&self) -> Result<u64, String> {
        match self.state {
            State::Start => Err("is empty".into()),
            State::Objects => Err(format!(
                "is cut off after {} objects: the footer is missing",
                self.objects
            )),
            State::Complete => Ok(self.objects.unsigned_abs()),
        }
    }

    fn check_footer(&self, footer: ExportFooter) -> Result<(), String> {
        if footer.object_count != self.objects {
            return Err(format!(
                "is damaged: it holds {} objects, and its footer says {}",
                self.objects, footer.object_count
            ));
        }
        if footer.checksum != self.checksum.digest() {
            return Err("is damaged: the checksum of its objects is not the footer's".into());
        }
        Ok(())
    }
}

fn check_version(header: &ExportHeader) -> Result<(), String> {
    match header.format_version {
        FORMAT_VERSION => Ok(()),
        other => Err(format!(
            "has format version {other}, and this program knows {FORMAT_VERSION}: use a newer one"
        )),
    }
}

/// Writes one frame.
pub(super) fn write_frame(out: &mut dyn Write, frame: &ExportResponse) -> io::Result<()> {
    out.write_all(&frame.encode_length_delimited_to_vec())
}

/// Reads the next frame; nothing at the end of the file.
pub(super) fn read_frame(input: &mut dyn Read) -> Result<Option<ExportResponse>, String> {
    let Some(length) = read_length(input)? else {
        return Ok(None);
    };
    if length > MAX_FRAME_BYTES {
        return Err("is damaged, or no export: a frame's length makes no sense".into());
    }
    // Grows with what is really there: a damaged length must not take the memory.
    let mut bytes = Vec::new();
    let read = input
        .take(length)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if (read as u64) < length {
        return Err("is cut off in the middle of a frame".into());
    }
    match ExportResponse::decode(bytes.as_slice()) {
        Ok(frame) => Ok(Some(frame)),
        Err(error) => Err(format!("is damaged, or no export: {error}")),
    }
}

fn read_length(input: &mut dyn Read) -> Result<Option<u64>, String> {
    let mut length = 0;
    for index in 0..10 {
        let mut byte = [0];
        loop {
            match input.read(&mut byte) {
                Ok(0) if index == 0 => return Ok(None),
                Ok(0) => return Err("is cut off in the middle of a frame".into()),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        length |= u64::from(byte[0] & 0x7f)
            .checked_shl(7 * index)
            .unwrap_or_default();
        if byte[0] & 0x80 == 0 {
            return Ok(Some(length));
        }
    }
    Err("is damaged, or no export: a frame's length never ends".into())
}

#[cfg(test)]
pub(super) mod tests {
    use bytes::Bytes;
    use listwatch::v1::{ExportObjects, Key, Resource};

    use super::*;

    /// A whole export of `count` objects.
    pub(in super::super) fn export(count: usize) -> Vec<u8> {
        let mut checksum = Xxh3Default::new();
        let resources: Vec<_> = (0..count)
            .map(|index| Resource {
                key: Some(Key {
                    collection: "c".into(),
                    namespace: "".into(),
                    name: format!("n{index}"),
                }),
                value: Bytes::from(vec![7; 100]),
                ..Resource::default()
            })
            .collect();
        for resource in &resources {
            let bytes = resource.encode_to_vec();
            checksum.update(&(bytes.len() as u32).to_le_bytes());
            checksum.update(&bytes);
        }
        let header = ExportHeader {
            format_version: 1,
            ..ExportHeader::default()
        };
        let footer = ExportFooter {
            object_count: count as i64,
            checksum: checksum.digest(),
            ..ExportFooter::default()
        };
        let mut file = Vec::new();
        for kind in [
            Kind::Header(header),
            Kind::Objects(ExportObjects { resources }),
            Kind::Footer(footer),
        ] {
            write_frame(&mut file, &ExportResponse { kind: Some(kind) }).unwrap();
        }
        file
    }

    fn verify(mut file: &[u8]) -> Result<u64, String> {
        let mut verifier = Verifier::new();
        while let Some(frame) = read_frame(&mut file)? {
            verifier.frame(&frame)?;
        }
        verifier.finish()
    }

    #[test]
    fn a_whole_export_is_accepted() {
        assert_eq!(verify(&export(0)), Ok(0));
        assert_eq!(verify(&export(10)), Ok(10));
    }

    #[test]
    fn an_export_that_was_cut_off_anywhere_is_refused() {
        let file = export(3);
        for length in 0..file.len() {
            assert!(
                verify(&file[..length]).is_err(),
                "{length} of {}",
                file.len()
            );
        }
    }

    #[test]
    fn a_flipped_byte_never_gets_through_as_an_object() {
        let file = export(3);
        let header = 3;
        for at in header..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 0x20;
            assert!(verify(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn other_files_and_other_versions_are_refused_with_the_reason() {
        assert!(verify(b"").unwrap_err().contains("empty"));
        assert!(verify(b"apiVersion: v1\nkind: Pod\n").is_err());
        assert!(verify(&[0xff; 30]).unwrap_err().contains("never ends"));
        let mut twice = export(1);
        twice.extend(export(1));
        assert!(verify(&twice).unwrap_err().contains("after its end"));
        let mut other = Vec::new();
        let header = ExportHeader {
            format_version: 2,
            ..ExportHeader::default()
        };
        write_frame(
            &mut other,
            &ExportResponse {
                kind: Some(Kind::Header(header)),
            },
        )
        .unwrap();
        assert!(verify(&other).unwrap_err().contains("version 2"));
    }
}
