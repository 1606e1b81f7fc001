//! Tokens of an identity provider: each algorithm, each claim, keys that come and go, and the
//! attacks that are known.

use crate::client::{Reply, until};
use crate::server::{TestServer, engine_config};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use somersault_server::{Auth, Jwt, JwtError, JwtOptions, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// An RSA key of these tests alone, as PKCS #8: ring makes none.
const RSA: &[u8] = include_bytes!("keys/rsa.pk8");
const ISSUER: &str = "https://id.example";
const AUDIENCE: &str = "somersault";

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[allow(
    clippy::disallowed_methods,
    reason = "tokens expire by the clock on the wall"
)]
fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("a time after 1970").as_secs()
}

/// The private key of a provider.
enum Signer {
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    fn rsa() -> Signer {
        Signer::Rsa(Box::new(RsaKeyPair::from_pkcs8(RSA).expect("a key")))
    }

    fn ec() -> Signer {
        let (random, kind) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let made = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(kind, made.as_ref(), &random);
        Signer::Ec(pair.expect("a key"))
    }

    fn ed() -> Signer {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Signer::Ed(Ed25519KeyPair::from_pkcs8(made.as_ref()).expect("a key"))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Signer::Rsa(_) => "RS256",
            Signer::Ec(_) => "ES256",
            Signer::Ed(_) => "EdDSA",
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Signer::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .expect("it signs");
                signature
            }
            Signer::Ec(key) => key
                .sign(&random, message)
                .expect("it signs")
                .as_ref()
                .to_vec(),
            Signer::Ed(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// The public key as the provider publishes it.
    fn jwk(&self, id: &str) -> Value {
        match self {
            Signer::Rsa(key) => {
                let RsaPublicKeyComponents::<Vec<u8>> { n, e } = key.public().into();
                json!({ "kty": "RSA", "use": "sig", "kid": id, "n": encode(n), "e": encode(e) })
            }
            Signer::Ec(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "kid": id, "x": encode(x), "y": encode(y) })
            }
            Signer::Ed(key) => {
                let x = encode(key.public_key());
                json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": id, "x": x })
            }
        }
    }

    /// A token with this header and these claims.
    fn token_as(&self, header: &Value, claims: &Value) -> String {
        let message = format!(
            "{}.{}",
            encode(header.to_string()),
            encode(claims.to_string())
        );
        let signature = self.sign(message.as_bytes());
        format!("{message}.{}", encode(signature))
    }

    fn token(&self, id: &str, claims: &Value) -> String {
        let header = json!({ "alg": self.algorithm(), "typ": "JWT", "kid": id });
        self.token_as(&header, claims)
    }
}

/// Claims of a token with these rights, with changes: null removes one.
fn claims(rights: &[&str], changes: Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ann",
        "exp": now_s() + 600,
        "rights": rights,
    });
    for (name, value) in changes.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    let members = claims.as_object_mut().expect("an object");
    members.retain(|_, value| !value.is_null());
    claims
}

/// A server that takes the tokens of a provider.
struct Guarded {
    server: TestServer,
    jwks: PathBuf,
    _folder: TempDir,
}

impl Guarded {
    fn start(keys: &[Value]) -> Guarded {
        let folder = tempfile::tempdir().expect("a folder");
        let jwks = folder.path().join("jwks.json");
        publish(&jwks, keys);
        let jwt = Jwt::open(options(&jwks)).expect("good keys");
        let mut config = ServerConfig::default();
        config.auth = Auth::Jwt(Arc::new(jwt));
        config.heartbeat = std::time::Duration::from_millis(200);
        Guarded {
            server: TestServer::with(engine_config(), config),
            jwks,
            _folder: folder,
        }
    }

    fn get(&self, path: &str, token: &str) -> Reply {
        let credentials = format!("Bearer {token}");
        let headers = [("Authorization", credentials.as_str())];
        self.server.send("GET", path, &headers, None)
    }

    #[track_caller]
    fn refuse(&self, token: &str, words: &[&str]) {
        let reply = self.get("/streams", token);
        let ask = reply.header("www-authenticate").map(str::to_owned);
        reply.expect_error(401, "unauthorized", words);
        assert!(ask.is_some_and(|ask| ask.contains("invalid_token")));
    }
}

fn publish(path: &Path, keys: &[Value]) {
    std::fs::write(path, json!({ "keys": keys }).to_string()).expect("written");
}

fn options(jwks: &Path) -> JwtOptions {
    JwtOptions {
        jwks: jwks.to_owned(),
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        rights_claim: "rights".to_owned(),
    }
}

#[test]
fn tokens_of_each_algorithm_have_the_rights_that_they_claim() {
    let signers = [Signer::rsa(), Signer::ec(), Signer::ed()];
    let ids = ["one", "two", "three"];
    let keys: Vec<Value> = signers.iter().zip(ids).map(|(it, id)| it.jwk(id)).collect();
    let guarded = Guarded::start(&keys);
    for (signer, id) in signers.iter().zip(ids) {
        let reader = signer.token(id, &claims(&["subscribe:mine"], json!({})));
        // Twice: the second time it is remembered.
        for _ in 0..2 {
            guarded.get("/streams", &reader).expect(200);
            guarded.get("/queries/mine", &reader).expect(404);
            let refused = guarded.get("/queries/other", &reader);
            refused.expect_error(403, "forbidden", &["other"]);
            guarded.get("/metrics", &reader).expect(403);
        }
        let boss = signer.token(
            id,
            &claims(&["admin"], json!({ "aud": ["else", AUDIENCE] })),
        );
        guarded.get("/metrics", &boss).expect(200);
    }
    guarded
        .server
        .get("/streams")
        .expect_error(401, "unauthorized", &["asks for a token"]);
    guarded.server.get("/ready").expect(200);
    let boss = signers[0].token("one", &claims(&["admin"], json!({})));
    guarded
        .get("/tokens", &boss)
        .expect_error(409, "no_tokens", &["--auth tokens"]);
}

#[test]
fn rights_are_a_list_or_words_of_a_scope() {
    let signer = Signer::ed();
    let guarded = Guarded::start(&[signer.jwk("a")]);
    let status = |rights: Value| {
        let token = signer.token("a", &claims(&[], json!({ "rights": rights })));
        guarded.get("/metrics", &token).status
    };
    assert_eq!(status(json!(["monitor"])), 200);
    assert_eq!(status(json!("openid profile monitor")), 200);
    assert_eq!(status(json!("read:default")), 403);
    assert_eq!(status(json!([])), 403);
    for (rights, word) in [
        (json!(["monitor", "fly"]), "fly"),
        (json!(["monitor", 7]), "no text"),
        (json!("openid profile"), "none of its words"),
        (json!({ "a": 1 }), "neither a list"),
        (json!(null), "no such claim"),
    ] {
        let token = signer.token("a", &claims(&[], json!({ "rights": rights })));
        guarded.refuse(&token, &["\"rights\"", word]);
    }
}

#[test]
fn each_claim_is_checked() {
    let signer = Signer::ec();
    let guarded = Guarded::start(&[signer.jwk("a")]);
    let now = now_s();
    for (changes, word) in [
        (json!({ "exp": now - 120 }), "expired"),
        (json!({ "exp": null }), "\"exp\""),
        (json!({ "exp": "tomorrow" }), "\"exp\""),
        (json!({ "exp": -1 }), "\"exp\""),
        (json!({ "nbf": now + 120 }), "not valid yet"),
        (json!({ "nbf": "yesterday" }), "\"nbf\""),
        (json!({ "iss": "https://evil.example" }), "another issuer"),
        (json!({ "iss": null }), "\"iss\""),
        (json!({ "iss": 7 }), "\"iss\""),
        (json!({ "aud": "another" }), "another audience"),
        (json!({ "aud": ["another"] }), "another audience"),
        (json!({ "aud": null }), "\"aud\""),
        (json!({ "sub": null }), "\"sub\""),
        (json!({ "sub": "" }), "\"sub\""),
        (json!({ "sub": "a\nb" }), "\"sub\""),
    ] {
        let token = signer.token("a", &claims(&["admin"], changes));
        guarded.refuse(&token, &[word]);
    }
    // Clocks may differ by a minute.
    for changes in [
        json!({ "exp": now - 20, "nbf": now + 20 }),
        json!({ "exp": (now + 60) as f64 + 0.5, "nbf": now - 5, "iat": now }),
        json!({ "exp": 1e18 }),
    ] {
        let token = signer.token("a", &claims(&["admin"], changes));
        guarded.get("/streams", &token).expect(200);
    }
}

#[test]
fn a_token_that_names_no_known_key_is_refused_with_its_name() {
    let (one, two) = (Signer::ec(), Signer::ed());
    let guarded = Guarded::start(&[one.jwk("one"), two.jwk("two")]);
    let good = claims(&["admin"], json!({}));
    guarded.refuse(&one.token("gone", &good), &["\"gone\"", "does not know"]);
    guarded.refuse(
        &one.token("two", &good),
        &["ES256", "not for that algorithm"],
    );
    let nameless = json!({ "alg": "ES256" });
    guarded.refuse(&one.token_as(&nameless, &good), &["\"kid\""]);
    guarded
        .get("/streams", &one.token("one", &good))
        .expect(200);
    // Where there is one key, no name is needed.
    let single = Guarded::start(&[one.jwk("one")]);
    single
        .get("/streams", &one.token_as(&nameless, &good))
        .expect(200);
    // The key of another signer under the same name.
    guarded.refuse(&Signer::ec().token("one", &good), &["signature"]);
}

#[test]
fn a_token_without_a_signature_is_none() {
    let signer = Signer::ed();
    let guarded = Guarded::start(&[signer.jwk("a")]);
    let good = claims(&["admin"], json!({}));
    for alg in ["none", "None", "NONE", "nOnE", ""] {
        let header = json!({ "alg": alg, "kid": "a" });
        let message = format!(
            "{}.{}",
            encode(header.to_string()),
            encode(good.to_string())
        );
        for token in [
            format!("{message}."),
            message.clone(),
            signer.token_as(&header, &good),
        ] {
            guarded.refuse(&token, &["not a signed JWT"]);
        }
    }
    let token = signer.token("a", &good);
    let (message, signature) = token.rsplit_once('.').expect("three parts");
    guarded.refuse(&format!("{message}."), &["signature"]);
    guarded.refuse(&format!("{message}.AAAA"), &["signature"]);
    let (header, _) = message.split_once('.').expect("three parts");
    let other = encode(claims(&["admin"], json!({ "sub": "eve" })).to_string());
    guarded.refuse(&format!("{header}.{other}.{signature}"), &["signature"]);
    for bad in ["x", "..", "a.b.c", "a.b.c.d", &"x".repeat(20_000)] {
        guarded.refuse(bad, &["not a signed JWT"]);
    }
}

#[test]
fn a_public_key_is_no_shared_secret() {
    let (rsa, ec) = (Signer::rsa(), Signer::ec());
    let secret = json!({ "kty": "oct", "kid": "shared", "alg": "HS256", "k": encode("secret") });
    let guarded = Guarded::start(&[rsa.jwk("rsa"), ec.jwk("ec"), secret]);
    let good = claims(&["admin"], json!({}));
    let jwk = rsa.jwk("rsa");
    let Signer::Ec(pair) = &ec else {
        panic!("an EC key")
    };
    // All that a forger may have taken for the secret.
    let secrets = [
        (
            "rsa",
            jwk["n"].as_str().expect("a text").as_bytes().to_vec(),
        ),
        ("rsa", jwk.to_string().into_bytes()),
        ("ec", pair.public_key().as_ref().to_vec()),
        ("shared", b"secret".to_vec()),
    ];
    for (id, secret) in secrets {
        let header = json!({ "alg": "HS256", "kid": id });
        let message = format!(
            "{}.{}",
            encode(header.to_string()),
            encode(good.to_string())
        );
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let tag = ring::hmac::sign(&key, message.as_bytes());
        let word = if id == "shared" {
            "\"shared\""
        } else {
            "HS256"
        };
        guarded.refuse(&format!("{message}.{}", encode(tag)), &[word]);
    }
    // An RSA key of another scheme, too.
    let header = json!({ "alg": "PS256", "kid": "rsa" });
    guarded.refuse(&rsa.token_as(&header, &good), &["PS256"]);
}

#[test]
fn a_key_in_the_token_and_unknown_extensions_do_not_count() {
    let (known, own) = (Signer::ed(), Signer::ed());
    let guarded = Guarded::start(&[known.jwk("a")]);
    let good = claims(&["admin"], json!({}));
    let carried = json!({ "alg": "EdDSA", "kid": "a", "jwk": own.jwk("a") });
    guarded.refuse(&own.token_as(&carried, &good), &["signature"]);
    let critical = json!({ "alg": "EdDSA", "kid": "a", "crit": ["b64"], "b64": false });
    guarded.refuse(&known.token_as(&critical, &good), &["\"crit\""]);
}

#[test]
fn keys_come_and_go_while_the_server_runs() {
    let (one, two) = (Signer::ed(), Signer::ec());
    let guarded = Guarded::start(&[one.jwk("one")]);
    let engine = &guarded.server.engine;
    let stream = "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER";
    engine.create_stream(None, stream).expect("a stream");
    let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 1s STEP 1s] WHERE { ?x ?p ?o }";
    engine.register(Some("q"), text).expect("a query");
    let good = claims(&["admin"], json!({}));
    let (first, second) = (one.token("one", &good), two.token("two", &good));
    guarded.refuse(&second, &["\"two\""]);
    let credentials = format!("Bearer {first}");
    let mut events = guarded
        .server
        .events("/queries/q/results", &[("Authorization", &credentials)]);
    assert_eq!(events.status, 200);
    // Both keys, then the second alone.
    publish(&guarded.jwks, &[one.jwk("one"), two.jwk("two")]);
    until("the second key is known", || {
        guarded.get("/streams", &second).status == 200
    });
    guarded.get("/streams", &first).expect(200);
    publish(&guarded.jwks, &[two.jwk("two")]);
    until("the first key is gone", || {
        guarded.get("/streams", &first).status == 401
    });
    let end = events.next().expect("the last event");
    assert_eq!(end.json()["reason"], "revoked");
    // A file that cannot be read leaves the keys as they are, and is reported.
    std::fs::write(&guarded.jwks, "{").expect("written");
    until("the trouble is seen", || {
        guarded.get("/health", &second).json()["status"] == "degraded"
    });
    let health = guarded.get("/health", &second).expect(200).json();
    let said = health["auth"]["trouble"].as_str().expect("a sentence");
    assert!(
        said.contains("jwks.json") && said.contains("read before"),
        "{said}"
    );
}

#[test]
fn a_server_does_not_start_without_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let jwks = folder.path().join("jwks.json");
    let gone = Jwt::open(options(&jwks)).expect_err("no file");
    assert!(matches!(gone, JwtError::Unreadable { .. }), "{gone}");
    publish(&jwks, &[json!({ "kty": "oct", "k": "c2VjcmV0" })]);
    let unusable = Jwt::open(options(&jwks)).expect_err("no key");
    assert!(
        unusable.to_string().contains("no key for RS256"),
        "{unusable}"
    );
}
