//! How a client says who it is, and whom it trusts.

use std::time::{SystemTime, UNIX_EPOCH};

use krafka::auth::{AuthConfig, OAuthBearerToken, TlsConfig};
use serde_json::{Value, json};

pub const KNOWN: [&str; 5] = ["sasl_mechanism", "sasl_username", "sasl_password", "sasl_token_s", "tls_ca"];

pub fn auth(settings: &Value) -> AuthConfig {
    let text = |name: &str| settings[name].as_str().unwrap_or_default().to_owned();
    let (user, password) = (text("sasl_username"), text("sasl_password"));
    match settings["sasl_mechanism"].as_str() {
        Some("PLAIN") => AuthConfig::sasl_plain(user, password),
        Some("SCRAM-SHA-256") => AuthConfig::sasl_scram_sha256(user, password),
        Some("SCRAM-SHA-512") => AuthConfig::sasl_scram_sha512(user, password),
        Some("OAUTHBEARER") => {
            let seconds = settings["sasl_token_s"].as_u64().unwrap_or(60);
            AuthConfig::sasl_oauthbearer_provider(move || {
                let t = token(&user, seconds);
                async move { Ok(t) }
            })
        }
        _ if settings["tls_ca"].is_string() => AuthConfig::ssl(TlsConfig::new().with_ca_cert(text("tls_ca"))),
        _ => AuthConfig::plaintext(),
    }
}

/// An unsecured token that lasts from now on.
fn token(user: &str, seconds: u64) -> OAuthBearerToken {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let claims = json!({"sub": user, "iat": now, "exp": now + seconds});
    OAuthBearerToken::new(format!("{}.{}.", base64(br#"{"alg":"none"}"#), base64(claims.to_string().as_bytes()))).with_lifetime_ms(((now + seconds) * 1000) as i64)
}

fn base64(b: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    b.chunks(3)
        .flat_map(|c| {
            let n = (0..3).fold(0, |n, i| n << 8 | u32::from(*c.get(i).unwrap_or(&0)));
            (0..=c.len()).map(move |i| DIGITS[(n >> (18 - 6 * i) & 63) as usize] as char)
        })
        .collect()
}
