//! The share consumer: implicit and explicit acknowledgement, delivery counts, close.

use std::collections::{BTreeMap, HashMap};

use krafka::Kafka;
use krafka::admin::ConfigResource;
use krafka::share_consumer::{AcknowledgementMode, ShareConsumer};

use crate::check::{self, Deadline, Outcome, POLL, equal, step};

const RECORDS: i32 = 30;

pub async fn run(kafka: &Kafka) -> Outcome<()> {
    step("share group: implicit acknowledgement");
    implicit(kafka).await?;
    step("share group: accept, release, reject");
    explicit(kafka).await?;
    step("share group: a closed member's records come again at once");
    closing(kafka).await
}

/// A topic with RECORDS records and a share group of the same name that starts at the earliest.
pub async fn prepare(kafka: &Kafka, name: &str, partitions: i32) -> Outcome<String> {
    let name = check::unique(&format!("krafka-share-{name}"));
    check::create_topic(kafka, &name, partitions).await?;
    check::produce(kafka, &name, partitions, 0, RECORDS).await?;
    check::alter(
        kafka,
        ConfigResource::group(&name),
        "share.auto.offset.reset",
        "earliest",
    )
    .await?;
    Ok(name)
}

pub async fn member(
    kafka: &Kafka,
    name: &str,
    mode: AcknowledgementMode,
) -> Outcome<ShareConsumer> {
    let consumer = kafka
        .share_consumer(name)
        .acknowledgement_mode(mode)
        .build()
        .await?;
    consumer.subscribe([name]).await?;
    Ok(consumer)
}

/// Commits what is acknowledged; every partition of the answer must have succeeded.
pub async fn commit(consumer: &ShareConsumer) -> Outcome<()> {
    for (tp, outcome) in consumer.commit().await? {
        outcome.map_err(|e| format!("acknowledgement of {tp:?}: {e}"))?;
    }
    Ok(())
}

/// Polls until all RECORDS records came, and returns the delivery count of each.
async fn all(consumer: &ShareConsumer) -> Outcome<HashMap<i32, Option<i16>>> {
    let deadline = Deadline::new("all records of the share group");
    let mut counts = HashMap::new();
    while counts.len() < RECORDS as usize {
        for r in consumer.poll(POLL).await? {
            counts.insert(r.value_str().ok_or("no value")?.parse()?, r.delivery_count);
        }
        deadline.check(counts.len())?;
    }
    Ok(counts)
}

async fn implicit(kafka: &Kafka) -> Outcome<()> {
    let name = prepare(kafka, "implicit", 2).await?;
    let c = member(kafka, &name, AcknowledgementMode::Implicit).await?;
    for (i, count) in all(&c).await? {
        equal(Some(1), count, &format!("delivery count of record {i}"))?;
    }
    commit(&c).await?;
    c.close().await?;

    let c = member(kafka, &name, AcknowledgementMode::Implicit).await?;
    check::produce(kafka, &name, 2, RECORDS, RECORDS + 2).await?;
    let deadline = Deadline::new("new records alone");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        for r in c.poll(POLL).await? {
            seen.push(r.value_str().ok_or("no value")?.parse::<i32>()?);
        }
        deadline.check(&seen)?;
    }
    seen.sort_unstable();
    c.close().await?;
    equal(
        vec![RECORDS, RECORDS + 1],
        seen,
        "records after all earlier ones are accepted",
    )
}

async fn explicit(kafka: &Kafka) -> Outcome<()> {
    let name = prepare(kafka, "explicit", 2).await?;
    let c = member(kafka, &name, AcknowledgementMode::Explicit).await?;
    let deadline = Deadline::new("a final acknowledgement for every record");
    let mut deliveries: BTreeMap<i32, i16> = BTreeMap::new();
    let mut settled = 0;
    while settled < RECORDS {
        let records = c.poll(POLL).await?;
        for r in &records {
            let i: i32 = r.value_str().ok_or("no value")?.parse()?;
            let count = deliveries.entry(i).or_default();
            *count += 1;
            equal(
                Some(*count),
                r.delivery_count,
                &format!("delivery count of record {i}"),
            )?;
            // Of each three, one is accepted, one released once and then accepted, one rejected.
            if i % 3 == 2 {
                c.reject(r)?;
            } else if i % 3 == 1 && *count == 1 {
                c.release(r)?;
                continue;
            } else {
                c.ack(r)?;
            }
            settled += 1;
        }
        if !records.is_empty() {
            commit(&c).await?;
        }
        deadline.check(settled)?;
    }
    c.close().await?;
    let want = (0..RECORDS)
        .map(|i| (i, if i % 3 == 1 { 2 } else { 1 }))
        .collect();
    equal(want, deliveries, "deliveries")
}

async fn closing(kafka: &Kafka) -> Outcome<()> {
    let name = prepare(kafka, "closing", 1).await?;
    let c = member(kafka, &name, AcknowledgementMode::Explicit).await?;
    let deadline = Deadline::new("records for the closing member");
    let mut held: Vec<i32> = Vec::new();
    while held.is_empty() {
        for r in c.poll(POLL).await? {
            held.push(r.value_str().ok_or("no value")?.parse()?);
        }
        deadline.check(held.len())?;
    }
    c.close().await?;

    let c = member(kafka, &name, AcknowledgementMode::Implicit).await?;
    let counts = all(&c).await?;
    commit(&c).await?;
    c.close().await?;
    for i in held {
        equal(
            Some(2),
            counts[&i],
            &format!("delivery count of record {i} after a close"),
        )?;
    }
    Ok(())
}
