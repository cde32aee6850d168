//! A key that signs JSON Web Tokens, and lies about itself where a test wants it to. Its seeds are a test's alone.

use data_encoding::BASE64URL_NOPAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use serde_json::{Value, json};

/// An RSA key takes seconds to find: this one was made for tests and is of no other use.
const RSA: &[u8] = include_bytes!("rsa_of_tests.der");

/// A key with an id.
pub struct SigningKey {
    id: String,
    pair: Pair,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    /// The RSA key.
    pub fn rsa(id: &str) -> Self {
        let pair = RsaKeyPair::from_pkcs8(RSA).expect("a key of 2048 bits");
        Self::with(id, Pair::Rsa(Box::new(pair)))
    }

    /// A new key on the curve P-256.
    pub fn p256(id: &str) -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("random bytes");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).expect("it was just made");
        Self::with(id, Pair::P256(pair))
    }

    /// A new Ed25519 key.
    pub fn ed25519(id: &str) -> Self {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("random bytes");
        let pair = Ed25519KeyPair::from_pkcs8(made.as_ref()).expect("it was just made");
        Self::with(id, Pair::Ed25519(pair))
    }

    fn with(id: &str, pair: Pair) -> Self {
        Self {
            id: id.to_owned(),
            pair,
        }
    }

    /// The public half as a JSON Web Key.
    pub fn public(&self) -> Value {
        match &self.pair {
            Pair::Rsa(pair) => {
                let RsaPublicKeyComponents::<Vec<u8>> { n, e } = pair.public().into();
                json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.id, "n": base64url(n), "e": base64url(e) })
            }
            Pair::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "x": base64url(x), "y": base64url(y) })
            }
            Pair::Ed25519(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": base64url(pair.public_key().as_ref()) })
            }
        }
    }

    /// A token with these claims.
    pub fn sign(&self, claims: &Value) -> String {
        let algorithm = match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
        };
        self.sign_as(&json!({ "alg": algorithm, "kid": self.id, "typ": "JWT" }), claims)
    }

    /// A token whose header says this.
    pub fn sign_as(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", base64url(header.to_string()), base64url(claims.to_string()));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature)
                    .expect("random bytes");
                signature
            }
            Pair::P256(pair) => pair
                .sign(&random, signed.as_bytes())
                .expect("random bytes")
                .as_ref()
                .to_vec(),
            Pair::Ed25519(pair) => pair.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", base64url(signature))
    }
}

/// In the form that JSON Web Tokens have.
pub fn base64url(bytes: impl AsRef<[u8]>) -> String {
    BASE64URL_NOPAD.encode(bytes.as_ref())
}
