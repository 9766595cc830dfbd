//! Resume tokens and page tokens: opaque to clients, checked by the server.
//!
//! A resume token is base64url of
//! ```text
//! kind 1 | store id 16 | revision 8 | settles at 8 | selector hash 8 | checksum 4
//! ```
//! and a page token of
//! ```text
//! kind 1 | store id 16 | revision 8 | given 8 | request hash 8 | namespace length 1 |
//! namespace | name | checksum 4
//! ```
//! Numbers are big-endian. The checksum finds damage; it is no protection against
//! forgery, and needs to be none: a token names a position, it grants nothing.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    hub::Position,
    limits::MAX_TOKEN_BYTES,
    store::{ObjectName, Revision, StoreId},
};

const RESUME: u8 = 1;
const PAGE: u8 = 2;

/// Why a token was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    /// Cut, altered, or not a token of this server at all. No retry helps.
    #[error("is damaged or is no token of this kind")]
    Damaged,
    /// Made for another selector or request. No retry helps.
    #[error("was made for another selector or request")]
    OtherRequest,
    /// Made by another store, or by this one before it was restored: start over.
    #[error("was made by another store")]
    OtherStore,
}

/// Where a page of a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageToken {
    /// The revision that all pages show.
    pub(crate) revision: Revision,
    /// Objects given so far.
    pub(crate) given: u64,
    /// The last name that was looked at.
    pub(crate) after: ObjectName,
}

fn seal(mut body: Vec<u8>) -> String {
    let checksum = (xxh3_64(&body) as u32).to_be_bytes();
    body.extend(checksum);
    URL_SAFE_NO_PAD.encode(body)
}

fn open(token: &str) -> Result<Vec<u8>, TokenError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(TokenError::Damaged);
    }
    let mut bytes = URL_SAFE_NO_PAD
        .decode(token)
        .map_err(|_| TokenError::Damaged)?;
    let (body, checksum) = bytes.split_last_chunk::<4>().ok_or(TokenError::Damaged)?;
    if (xxh3_64(body) as u32).to_be_bytes() != *checksum {
        return Err(TokenError::Damaged);
    }
    bytes.truncate(bytes.len() - 4);
    Ok(bytes)
}

/// Reads fixed-width numbers off the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], TokenError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(TokenError::Damaged)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u64(&mut self) -> Result<u64, TokenError> {
        self.take().map(u64::from_be_bytes)
    }

    fn revision(&mut self) -> Result<Revision, TokenError> {
        let number = self.u64()?;
        i64::try_from(number).map_err(|_| TokenError::Damaged)?;
        Ok(Revision::new(number))
    }

    fn expect_kind(&mut self, kind: u8) -> Result<(), TokenError> {
        if self.take::<1>()? == [kind] {
            Ok(())
        } else {
            Err(TokenError::Damaged)
        }
    }

    /// The store first: to a client that meets another store all else is secondary.
    fn expect(&self, found: (StoreId, u64), wanted: (StoreId, u64)) -> Result<(), TokenError> {
        if found.0 != wanted.0 {
            Err(TokenError::OtherStore)
        } else if found.1 != wanted.1 {
            Err(TokenError::OtherRequest)
        } else {
            Ok(())
        }
    }
}

/// A resume token for a position of a selector in a store.
pub(crate) fn resume_token(store: StoreId, position: Position, selector: u64) -> String {
    let mut body = Vec::with_capacity(45);
    body.push(RESUME);
    body.extend(store.0.to_be_bytes());
    body.extend(position.revision.get().to_be_bytes());
    body.extend(position.settles_at.get().to_be_bytes());
    body.extend(selector.to_be_bytes());
    seal(body)
}

/// The position that a resume token names.
///
/// # Errors
/// [`TokenError`] unless it was made for this store and selector.
pub(crate) fn read_resume_token(
    token: &str,
    store: StoreId,
    selector: u64,
) -> Result<Position, TokenError> {
    let body = open(token)?;
    let mut fields = Fields(&body);
    fields.expect_kind(RESUME)?;
    let made_by = StoreId(u128::from_be_bytes(fields.take()?));
    let position = Position {
        revision: fields.revision()?,
        settles_at: fields.revision()?,
    };
    let made_for = fields.u64()?;
    if !fields.0.is_empty() {
        return Err(TokenError::Damaged);
    }
    fields.expect((made_by, made_for), (store, selector))?;
    Ok(position)
}

/// A token for the page after `token.after`. `request` is the hash of all that must stay
/// as it is from page to page.
pub(crate) fn page_token(store: StoreId, token: &PageToken, request: u64) -> String {
    let (namespace, name) = (token.after.namespace(), token.after.name());
    let mut body = Vec::with_capacity(48 + namespace.len() + name.len());
    body.push(PAGE);
    body.extend(store.0.to_be_bytes());
    body.extend(token.revision.get().to_be_bytes());
    body.extend(token.given.to_be_bytes());
    body.extend(request.to_be_bytes());
    // At most 63: a namespace is a DNS label.
    body.push(namespace.len() as u8);
    body.extend(namespace.as_bytes());
    body.extend(name.as_bytes());
    seal(body)
}

/// Where a page token goes on.
///
/// # Errors
/// [`TokenError`] unless it was made for this store and request.
pub(crate) fn read_page_token(
    token: &str,
    store: StoreId,
    request: u64,
) -> Result<PageToken, TokenError> {
    let body = open(token)?;
    let mut fields = Fields(&body);
    fields.expect_kind(PAGE)?;
    let made_by = StoreId(u128::from_be_bytes(fields.take()?));
    let revision = fields.revision()?;
    let given = fields.u64()?;
    let made_for = fields.u64()?;
    let [length] = fields.take::<1>()?;
    let text = std::str::from_utf8(fields.0).map_err(|_| TokenError::Damaged)?;
    let (namespace, name) = text
        .split_at_checked(usize::from(length))
        .ok_or(TokenError::Damaged)?;
    let after = ObjectName::new(namespace, name).map_err(|_| TokenError::Damaged)?;
    fields.expect((made_by, made_for), (store, request))?;
    Ok(PageToken {
        revision,
        given,
        after,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId(7);

    fn position() -> Position {
        Position {
            revision: Revision::new(41),
            settles_at: Revision::new(44),
        }
    }

    #[test]
    fn a_token_comes_back_as_it_was() {
        let token = resume_token(STORE, position(), 5);
        assert_eq!(read_resume_token(&token, STORE, 5), Ok(position()));
        let page = PageToken {
            revision: Revision::new(9),
            given: 500,
            after: ObjectName::new("default", "a.b").unwrap(),
        };
        let token = page_token(STORE, &page, 6);
        assert_eq!(read_page_token(&token, STORE, 6), Ok(page));
    }

    #[test]
    fn foreign_and_mistaken_tokens_are_told_apart() {
        let token = resume_token(STORE, position(), 5);
        assert_eq!(
            read_resume_token(&token, StoreId(8), 5),
            Err(TokenError::OtherStore)
        );
        assert_eq!(
            read_resume_token(&token, StoreId(8), 6),
            Err(TokenError::OtherStore)
        );
        assert_eq!(
            read_resume_token(&token, STORE, 6),
            Err(TokenError::OtherRequest)
        );
        assert_eq!(read_page_token(&token, STORE, 5), Err(TokenError::Damaged));
    }

    #[test]
    fn every_single_character_change_is_noticed() {
        let token = resume_token(STORE, position(), 5);
        for place in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
            let damaged = String::from_utf8(bytes).unwrap();
            assert_eq!(
                read_resume_token(&damaged, STORE, 5),
                Err(TokenError::Damaged)
            );
            assert_eq!(
                read_resume_token(&token[..place], STORE, 5),
                Err(TokenError::Damaged)
            );
        }
    }

    #[test]
    fn a_token_is_looked_at_up_to_the_longest_only() {
        let longest = seal(vec![PAGE; MAX_TOKEN_BYTES / 4 * 3 - 4]);
        assert_eq!(longest.len(), MAX_TOKEN_BYTES);
        assert!(open(&longest).is_ok());
        let longer = seal(vec![PAGE; MAX_TOKEN_BYTES / 4 * 3 - 3]);
        assert_eq!(open(&longer), Err(TokenError::Damaged));
    }

    proptest::proptest! {
        /// Whatever the text, and whatever stands in a token that is sealed as ours are.
        #[test]
        fn no_text_is_too_odd_to_be_read(text: String, body: Vec<u8>, kind in 0u8..4) {
            let _ = read_resume_token(&text, STORE, 5);
            let _ = read_page_token(&text, STORE, 5);
            let kinds = [vec![], vec![RESUME], vec![PAGE], vec![PAGE, 0, 0, 0, 0]];
            let body = [kinds[usize::from(kind)].clone(), body].concat();
            let sealed = seal(body);
            let _ = read_resume_token(&sealed, STORE, 5);
            let _ = read_page_token(&sealed, STORE, 5);
        }

        #[test]
        fn any_position_and_page_come_back(
            revision in 0..=i64::MAX as u64,
            settles_at in 0..=i64::MAX as u64,
            given: u64,
            namespace in "([a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?)?",
            name in "[A-Za-z0-9]([A-Za-z0-9:._-]{0,40}[a-z0-9])?",
        ) {
            let position = Position {
                revision: Revision::new(revision),
                settles_at: Revision::new(settles_at),
            };
            let token = resume_token(STORE, position, given);
            proptest::prop_assert_eq!(read_resume_token(&token, STORE, given), Ok(position));
            let page = PageToken {
                revision: position.revision,
                given,
                after: ObjectName::new(&namespace, &name).unwrap(),
            };
            let token = page_token(STORE, &page, 6);
            proptest::prop_assert_eq!(read_page_token(&token, STORE, 6), Ok(page));
        }
    }
}
