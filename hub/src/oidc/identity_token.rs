//! An identity token as it came: a signed JSON Web Token in its compact form (RFC 7515, 7519). What it says is somebody's
//! word until a key of its issuer's has verified it. Shown by no `Debug`.

use data_encoding::BASE64URL_NOPAD;
use parler_protocol::{limits, parse_json};
use serde_json::{Map, Value};

/// A token whose signature nobody has looked at yet.
pub(crate) struct IdentityToken<'a> {
    /// What is signed.
    signed: &'a [u8],
    signature: Vec<u8>,
    header: Map<String, Value>,
    claims: Map<String, Value>,
}

impl<'a> IdentityToken<'a> {
    /// Takes a token apart. The error says what is wrong with it, and nothing of what it holds.
    pub(crate) fn parse(token: &'a str) -> Result<Self, &'static str> {
        if token.len() > limits::MAX_IDENTITY_TOKEN_BYTES {
            return Err("it is over 16384 bytes");
        }
        let (signed, signature) = token.rsplit_once('.').ok_or("it is no JSON Web Token")?;
        let (header, claims) = signed.split_once('.').ok_or("it is no JSON Web Token")?;
        let signature = decoded(signature)?;
        let header = object(&decoded(header)?)?;
        let claims = object(&decoded(claims)?)?;
        // What has to be understood to understand it: nothing of that kind is.
        if header.contains_key("crit") {
            return Err("it has critical headers");
        }
        Ok(Self {
            signed: signed.as_bytes(),
            signature,
            header,
            claims,
        })
    }

    pub(super) fn signed(&self) -> &[u8] {
        self.signed
    }

    pub(super) fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// A string of the header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.header.get(name)?.as_str()
    }

    /// A claim that is a string.
    pub(super) fn claim(&self, name: &str) -> Option<&str> {
        self.claims.get(name)?.as_str()
    }

    /// A claim that is a time, milliseconds since 1970.
    pub(super) fn time(&self, name: &str) -> Option<i64> {
        let seconds = self.claims.get(name)?;
        let whole = seconds.as_i64().or_else(|| {
            let seconds = seconds.as_f64().filter(|seconds| seconds.abs() < 1e15)?;
            #[expect(clippy::cast_possible_truncation, reason = "it is within what fits")]
            Some(seconds.floor() as i64)
        });
        whole?.checked_mul(1000)
    }

    /// Whether the claim is there at all.
    pub(super) fn has(&self, name: &str) -> bool {
        self.claims.contains_key(name)
    }

    /// Whether it is for this audience, or for it among others.
    pub(super) fn is_for(&self, audience: &str) -> bool {
        match self.claims.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(several)) => several.iter().any(|one| one == audience),
            _ => false,
        }
    }
}

fn decoded(text: &str) -> Result<Vec<u8>, &'static str> {
    BASE64URL_NOPAD
        .decode(text.as_bytes())
        .map_err(|_| "it is no JSON Web Token")
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, &'static str> {
    match parse_json(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err("it is no JSON Web Token"),
    }
}
