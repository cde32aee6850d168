//! An issuer's public keys (RFC 7517), and what each verifies. A key says itself by which algorithm: never the token.

use data_encoding::BASE64URL_NOPAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

/// What a key set has to be.
#[derive(Deserialize)]
struct Written {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct WrittenKey {
    kid: String,
    kty: String,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// Keys by their ids.
#[derive(Debug, Clone, Default)]
pub(super) struct KeySet(Vec<VerifyingKey>);

/// One key.
#[derive(Debug, Clone)]
pub(super) struct VerifyingKey {
    id: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// Reads a key set. Keys of other kinds, for other ends or without an id are passed over.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let written: Written =
            serde_json::from_slice(bytes).map_err(|error| format!("no JSON Web Key Set: {error}"))?;
        let keys: Vec<_> = written.keys.into_iter().filter_map(key).collect();
        if keys.is_empty() {
            return Err("no key in it for RS256, ES256 or EdDSA".to_owned());
        }
        Ok(Self(keys))
    }

    /// Keys of this id: usually one.
    pub(super) fn named<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a VerifyingKey> {
        self.0.iter().filter(move |key| key.id == id)
    }
}

impl VerifyingKey {
    /// The one algorithm that it is for.
    pub(super) fn algorithm(&self) -> &'static str {
        match self.kind {
            Kind::Rsa { .. } => "RS256",
            Kind::P256(_) => "ES256",
            Kind::Ed25519(_) => "EdDSA",
        }
    }

    pub(super) fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.kind {
            Kind::Rsa { modulus, exponent } => RsaPublicKeyComponents {
                n: modulus,
                e: exponent,
            }
            .verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature),
            Kind::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature),
            Kind::Ed25519(point) => UnparsedPublicKey::new(&ED25519, point).verify(signed, signature),
        };
        verified.is_ok()
    }
}

fn key(written: Value) -> Option<VerifyingKey> {
    let written = WrittenKey::deserialize(written).ok()?;
    if written.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let field = |field: &Option<String>| BASE64URL_NOPAD.decode(field.as_deref()?.as_bytes()).ok();
    let kind = match (written.kty.as_str(), written.crv.as_deref()) {
        ("RSA", _) => {
            let unpadded = |bytes: Vec<u8>| bytes.into_iter().skip_while(|byte| *byte == 0).collect();
            Kind::Rsa {
                modulus: unpadded(field(&written.n)?),
                exponent: unpadded(field(&written.e)?),
            }
        }
        ("EC", Some("P-256")) => {
            let (x, y) = (field(&written.x)?, field(&written.y)?);
            // An uncompressed point.
            (x.len() == 32 && y.len() == 32).then(|| Kind::P256([vec![4], x, y].concat()))?
        }
        ("OKP", Some("Ed25519")) => Kind::Ed25519(field(&written.x).filter(|point| point.len() == 32)?),
        _ => return None,
    };
    let key = VerifyingKey { id: written.kid, kind };
    let is_for_it = written.alg.is_none_or(|algorithm| algorithm == key.algorithm());
    is_for_it.then_some(key)
}
