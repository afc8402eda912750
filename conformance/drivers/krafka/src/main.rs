//! The judge's driver of krafka: docs/drivers.md says what it is told and what it says.

mod login;

use std::env::var;
use std::io::{BufRead, Write};
use std::time::Duration;

use krafka::{CloseOptions, Kafka};
use krafka::consumer::ConsumerRecord;
use krafka::error::KrafkaError;
use krafka::share_consumer::{AcknowledgementMode, AcquireMode, ShareConsumer};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

fn say(event: Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{event}");
    let _ = out.flush();
}

fn code(e: &KrafkaError) -> Value {
    match e {
        KrafkaError::Broker { code, .. } => json!(i16::from(*code)),
        _ => json!(e.to_string()),
    }
}

fn error(place: &str, e: &KrafkaError) {
    say(json!({"ev": "error", "where": place, "code": code(e), "text": e.to_string()}));
}

/// CRC-32C of parts, one behind the other.
fn crc32c<'a>(parts: impl Iterator<Item = &'a [u8]>) -> String {
    let mut crc = u32::MAX;
    for b in parts.flatten() {
        crc ^= *b as u32;
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 };
        }
    }
    format!("{:08x}", !crc)
}

struct Member {
    consumer: ShareConsumer,
    number: usize,
    explicit: bool,
    polls: usize,
    held: Vec<ConsumerRecord>,
    /// By op run: nothing is kept then.
    running: bool,
}

impl Member {
    async fn open(kafka: &Kafka, settings: &Value, number: usize) -> Result<Member, KrafkaError> {
        let explicit = var("KSJ_ACK").unwrap_or_default() == "explicit";
        let mut b = kafka
            .share_consumer(var("KSJ_GROUP").unwrap_or_default())
            .acknowledgement_mode(if explicit { AcknowledgementMode::Explicit } else { AcknowledgementMode::Implicit })
            .acknowledgement_commit_callback(move |c| {
                let offsets: Vec<i64> = c.offsets.iter().flat_map(|r| (*r.start()..=*r.end()).take(1000)).collect();
                let mut event = json!({"ev": "result", "what": "ack", "t": c.topic, "p": c.partition, "offs": offsets, "ok": c.result.is_ok(), "consumer": number});
                if let Err(e) = &c.result {
                    event["code"] = code(e);
                    event["text"] = json!(e.to_string());
                }
                say(event);
            });
        let number_of = |name: &str| settings[name].as_i64();
        if let Some(n) = number_of("max_poll_records") {
            b = b.max_poll_records(n as i32);
        }
        if settings["acquire_mode"] == "record_limit" {
            b = b.acquire_mode(AcquireMode::RecordLimit);
        }
        if let Some(ms) = number_of("max_wait_ms") {
            b = b.fetch_max_wait(Duration::from_millis(ms as u64));
        }
        if let Some(n) = number_of("min_bytes") {
            b = b.fetch_min_bytes(n as i32);
        }
        if let Some(n) = number_of("max_bytes") {
            b = b.fetch_max_bytes(n as i32);
        }
        if let Some(rack) = settings["rack"].as_str() {
            b = b.client_rack(rack);
        }
        let consumer = b.build().await?;
        let topics = var("KSJ_TOPICS").unwrap_or_default();
        consumer.subscribe(topics.split(',')).await?;
        Ok(Member { consumer, number, explicit, polls: 0, held: vec![], running: false })
    }

    /// The number of records that came, and whether the application is to pause.
    async fn poll(&mut self, poll_ms: u64, hold_ms: u64) -> (usize, bool) {
        self.polls += 1;
        let records = match self.consumer.poll(Duration::from_millis(poll_ms)).await {
            Ok(records) => records,
            Err(e) => {
                error("poll", &e);
                sleep(Duration::from_millis(1)).await; // a poll that fails at once
                return (0, false);
            }
        };
        if !records.is_empty() {
            self.held.clear();
            if let Some(d) = self.consumer.acquisition_lock_timeout() {
                say(json!({"ev": "lock", "ms": d.as_millis() as u64}));
            }
        }
        let (n, mut stop) = (records.len(), false);
        for r in records {
            let empty: &[u8] = &[];
            let mut parts: Vec<&[u8]> = vec![r.key.as_deref().unwrap_or(empty), r.value.as_deref().unwrap_or(empty)];
            for (k, v) in &r.headers {
                parts.push(k.as_bytes());
                parts.push(v.as_deref().unwrap_or(empty));
            }
            let count = r.delivery_count.unwrap_or(0);
            say(json!({"ev": "rec", "t": &*r.topic, "p": r.partition, "o": r.offset, "dc": count, "h": crc32c(parts.into_iter()), "poll": self.polls, "consumer": self.number}));
            if self.explicit {
                stop |= self.obey(r, count).await;
            }
        }
        if hold_ms > 0 && n > 0 {
            sleep(Duration::from_millis(hold_ms)).await;
        }
        (n, stop)
    }

    async fn obey(&mut self, r: ConsumerRecord, count: i16) -> bool {
        let header = |name: &str| r.headers.iter().find(|(k, _)| k == name).and_then(|(_, v)| v.clone()).map(|v| String::from_utf8_lossy(&v).into_owned());
        let again = if count > 1 { header("ksj2") } else { None };
        let word = again.or_else(|| header("ksj")).unwrap_or_else(|| "accept".into());
        if word == "hold" && !self.running {
            self.held.push(r);
            return false;
        }
        if let Some(ms) = word.strip_prefix("slow:") {
            sleep(Duration::from_millis(ms.parse().unwrap_or(0))).await;
        }
        self.settle(&r, &word);
        if word == "renew" {
            self.held.push(r);
        }
        if word == "commit" {
            self.commit().await;
        }
        word == "stop"
    }

    fn settle(&self, r: &ConsumerRecord, word: &str) {
        let done = match word {
            "release" => self.consumer.release(r),
            "reject" => self.consumer.reject(r),
            "renew" => self.consumer.renew(r),
            _ => self.consumer.ack(r),
        };
        if let Err(e) = done {
            error("api", &e);
        }
    }

    fn ack(&self, o: &Value) {
        let mut n = 0;
        for (i, r) in self.held.iter().enumerate() {
            let chosen = match &o["sel"] {
                Value::String(s) if s == "all" => true,
                Value::String(s) => {
                    let parts: Vec<usize> = s.split(':').skip(1).filter_map(|p| p.parse().ok()).collect();
                    parts.len() == 2 && i % parts[0] == parts[1]
                }
                Value::Array(list) => list.contains(&json!([&*r.topic, r.partition, r.offset])),
                _ => false,
            };
            if chosen {
                self.settle(r, o["do"].as_str().unwrap_or(""));
                n += 1;
            }
        }
        say(json!({"ev": "acked", "n": n}));
    }

    async fn commit(&self) {
        match self.consumer.commit().await {
            Ok(results) => {
                for (tp, outcome) in results {
                    let mut event = json!({"ev": "result", "what": "commit", "t": tp.topic, "p": tp.partition, "ok": outcome.is_ok(), "consumer": self.number});
                    if let Err(e) = outcome {
                        event["code"] = code(&e);
                        event["text"] = json!(e.to_string());
                    }
                    say(event);
                }
            }
            Err(e) => error("api", &e),
        }
    }
}

const KNOWN: [&str; 8] = ["client_id", "rack", "max_poll_records", "acquire_mode", "max_wait_ms", "min_bytes", "max_bytes", "close_timeout_ms"];

#[tokio::main]
async fn main() {
    say(json!({"ev": "hello", "client": "krafka", "version": "0.28.1", "caps": ["exp", "rnw", "lim", "sasl", "tls"]}));
    let settings: Value = serde_json::from_str(&var("KSJ_PROPS").unwrap_or_default()).expect("KSJ_PROPS");
    for name in settings.as_object().expect("KSJ_PROPS").keys() {
        if !KNOWN.contains(&name.as_str()) && !login::KNOWN.contains(&name.as_str()) {
            return say(json!({"ev": "unsupported", "what": name}));
        }
    }
    if var("KSJ_KIND").unwrap_or_default() != "share" {
        return say(json!({"ev": "unsupported", "what": "kind"}));
    }
    let (send, mut ops) = mpsc::unbounded_channel::<Value>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if let Ok(o) = serde_json::from_str(&line) {
                let _ = send.send(o);
            }
        }
        std::process::exit(0); // nobody is left to obey
    });
    let id = settings["client_id"].as_str().unwrap_or("driver");
    // An application that cannot connect tries again: connect fails where nobody listens.
    let kafka = loop {
        match Kafka::builder(var("KSJ_BOOTSTRAP").unwrap_or_default()).client_id(id).security(login::auth(&settings)).connect().await {
            Ok(kafka) => break kafka,
            Err(e) => error("api", &e),
        }
        sleep(Duration::from_millis(500)).await;
    };
    let mut members = loop {
        match Member::open(&kafka, &settings, 0).await {
            Ok(m) => break vec![m],
            Err(e) => error("api", &e),
        }
        sleep(Duration::from_millis(500)).await;
    };
    let mut running: Option<Value> = None;
    loop {
        let o = match &running {
            None => match ops.recv().await {
                Some(o) => o,
                None => std::process::exit(0),
            },
            Some(run) => match ops.try_recv() {
                Ok(o) => o,
                Err(mpsc::error::TryRecvError::Disconnected) => std::process::exit(0),
                Err(_) => {
                    let (poll_ms, hold_ms) = (run["poll_ms"].as_u64().unwrap_or(200), run["hold_ms"].as_u64().unwrap_or(0));
                    let mut stopped = false;
                    for m in &mut members {
                        m.running = true;
                        stopped |= m.poll(poll_ms, hold_ms).await.1;
                    }
                    if stopped {
                        running = None;
                    }
                    continue;
                }
            },
        };
        let op = o["op"].as_str().unwrap_or("").to_string();
        match op.as_str() {
            "run" => running = Some(o.clone()),
            "pause" => running = None,
            "poll" => {
                running = None;
                members[0].running = false;
                let mut n = 0;
                for _ in 0..o["n"].as_u64().unwrap_or(1) {
                    n += members[0].poll(1000, 0).await.0;
                }
                say(json!({"ev": "polled", "n": n}));
            }
            "ack" => members[0].ack(&o),
            "commit" => {
                if o["how"] != "none" {
                    members[0].commit().await;
                }
            }
            "subscribe" => {
                let topics: Vec<String> = o["topics"].as_array().into_iter().flatten().filter_map(|t| t.as_str().map(String::from)).collect();
                if let Err(e) = members[0].consumer.subscribe(topics).await {
                    error("api", &e);
                }
            }
            "unsubscribe" => members[0].consumer.unsubscribe().await,
            "second" => match Member::open(&kafka, &settings, members.len()).await {
                Ok(m) => members.push(m),
                Err(e) => error("api", &e),
            },
            "close" => {
                for m in &members {
                    let options = CloseOptions::new().timeout(Duration::from_millis(o["ms"].as_u64().unwrap_or(30_000)));
                    if let Err(e) = m.consumer.close_with(options).await {
                        error("api", &e);
                    }
                }
                say(json!({"ev": "closed"}));
                std::process::exit(0);
            }
            _ => {
                say(json!({"ev": "unsupported", "what": op}));
                continue;
            }
        }
        if ["pause", "commit", "subscribe", "unsubscribe", "second"].contains(&op.as_str()) {
            say(json!({"ev": "done", "op": op}));
        }
    }
}
