//! What the programs share: errors, waits, and set-up steps.

use std::collections::HashMap;
use std::fmt::Debug;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use krafka::admin::{ConfigOp, ConfigResource, NewTopic};
use krafka::{Kafka, Record};

pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The longest that any single wait on the broker may take.
pub const LIMIT: Duration = Duration::from_secs(40);

/// How long one poll waits: short, so that members of one group can be polled in turn.
pub const POLL: Duration = Duration::from_millis(100);

pub fn step(what: &str) {
    println!("- {what}");
}

pub fn equal<T: PartialEq + Debug>(want: T, got: T, what: &str) -> Outcome<()> {
    if want == got {
        Ok(())
    } else {
        Err(format!("{what}: want {want:?}, got {got:?}").into())
    }
}

/// A limit for loops that wait on the broker.
pub struct Deadline {
    what: &'static str,
    end: Instant,
}

impl Deadline {
    pub fn new(what: &'static str) -> Self {
        Self {
            what,
            end: Instant::now() + LIMIT,
        }
    }

    /// Fails once the limit has passed; `seen` says how far the loop came.
    pub fn check(&self, seen: impl Debug) -> Outcome<()> {
        if Instant::now() < self.end {
            Ok(())
        } else {
            Err(format!("{}: not within {LIMIT:?}; last seen {seen:?}", self.what).into())
        }
    }
}

/// A name that no earlier run on the same broker has used.
pub fn unique(prefix: &str) -> String {
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos());
    format!("{prefix}-{nanos:x}-{}", std::process::id())
}

/// The value of `key` in a map of per-item results, or that item's error.
pub fn item<K, V>(mut results: HashMap<K, krafka::Result<V>>, key: &K) -> Outcome<V>
where
    K: std::hash::Hash + Eq + Debug,
{
    let result = results
        .remove(key)
        .ok_or_else(|| format!("no result for {key:?}"))?;
    Ok(result.map_err(|e| format!("{key:?}: {e}"))?)
}

/// Creates a topic that keeps records of any age: the programs' timestamps are old.
pub async fn create_topic(kafka: &Kafka, topic: &str, partitions: i32) -> Outcome<()> {
    let new = NewTopic::new(topic, partitions, 1)?.with_config("retention.ms", "-1");
    let results = kafka
        .admin()
        .create_topics([new], Default::default())
        .await?;
    item(results, &topic.to_string())
}

/// Sets one config of a resource.
pub async fn alter(
    kafka: &Kafka,
    resource: ConfigResource,
    name: &str,
    value: &str,
) -> Outcome<()> {
    let changes = [(resource.clone(), vec![ConfigOp::set(name, value)])];
    let results = kafka
        .admin()
        .incremental_alter_configs(changes, Default::default())
        .await?;
    item(results, &resource)
}

/// Produces values `from..to`, value i to partition i mod `partitions` with timestamp 1000+i.
pub async fn produce(
    kafka: &Kafka,
    topic: &str,
    partitions: i32,
    from: i32,
    to: i32,
) -> Outcome<()> {
    let producer = kafka
        .producer()
        .linger(Duration::from_millis(5))
        .build()
        .await?;
    let mut handles = Vec::new();
    for i in from..to {
        let record = Record::new(topic, i.to_string())
            .key(format!("k{i}"))
            .partition(i % partitions)
            .timestamp(1000 + i64::from(i));
        handles.push(producer.enqueue(record).await?);
    }
    for handle in handles {
        let _ = handle.await?;
    }
    producer.close().await?;
    Ok(())
}
