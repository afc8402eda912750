//! The consumer with each group protocol: two members, rebalance, commit, seek, offsets for times.

use std::collections::HashSet;
use std::time::Duration;

use krafka::Kafka;
use krafka::admin::GroupType;
use krafka::consumer::{
    AutoOffsetReset, Consumer, GroupProtocol, OffsetAndMetadata, TopicPartition,
};

use crate::check::{self, Deadline, Outcome, POLL, equal, step};

const PARTITIONS: i32 = 4;
const RECORDS: i32 = 100;

pub async fn run(kafka: &Kafka, bootstrap: &str) -> Outcome<()> {
    for (name, protocol) in [
        ("classic", GroupProtocol::Classic),
        ("consumer", GroupProtocol::Consumer),
    ] {
        let topic = check::unique(&format!("krafka-consumer-{name}"));
        let group = format!("{topic}-group");
        check::create_topic(kafka, &topic, PARTITIONS).await?;
        check::produce(kafka, &topic, PARTITIONS, 0, RECORDS).await?;
        step(&format!("{name} group: two members, rebalance, commit"));
        group_life(kafka, bootstrap, protocol, &topic, &group).await?;
        step(&format!("{name} group: committed, seek, offsets_for_times"));
        positions(kafka, &topic, &group).await?;
    }
    Ok(())
}

/// A member with connections of its own: over a shared one, a JoinGroup that waits for the other member would hold up
/// that member's JoinGroup.
async fn member(
    bootstrap: &str,
    protocol: GroupProtocol,
    topic: &str,
    group: &str,
) -> Outcome<Consumer> {
    let mut builder = Kafka::builder(bootstrap)
        .connect()
        .await?
        .consumer(group)
        .group_protocol(protocol)
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .enable_auto_commit(false);
    if matches!(protocol, GroupProtocol::Classic) {
        // A native group takes both from the broker.
        builder = builder
            .heartbeat_interval(Duration::from_millis(300))
            .session_timeout(Duration::from_secs(10));
    }
    let consumer = builder.build().await?;
    consumer.subscribe([topic]).await?;
    Ok(consumer)
}

async fn poll(consumer: &Consumer, values: &mut Vec<String>) -> Outcome<()> {
    for r in consumer.poll(POLL).await? {
        values.push(r.value_str().ok_or("a record without a value")?.to_string());
    }
    Ok(())
}

async fn owned(consumer: &Consumer) -> usize {
    consumer.assignment().await.values().map(Vec::len).sum()
}

async fn group_life(
    kafka: &Kafka,
    bootstrap: &str,
    protocol: GroupProtocol,
    topic: &str,
    group: &str,
) -> Outcome<()> {
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    let a = member(bootstrap, protocol, topic, group).await?;
    let deadline = Deadline::new("records of the first member");
    while of_a.len() < RECORDS as usize {
        poll(&a, &mut of_a).await?;
        deadline.check(of_a.len())?;
    }
    equal(
        PARTITIONS as usize,
        owned(&a).await,
        "partitions of the only member",
    )?;
    a.commit().await?;

    let b = member(bootstrap, protocol, topic, group).await?;
    let deadline = Deadline::new("two members with two partitions each");
    while (owned(&a).await, owned(&b).await) != (2, 2) {
        let (ra, rb) = tokio::join!(poll(&a, &mut of_a), poll(&b, &mut of_b));
        ra.and(rb)?;
        deadline.check((owned(&a).await, owned(&b).await))?;
    }
    let described = kafka
        .admin()
        .describe_consumer_groups([group], Default::default())
        .await?;
    let described = check::item(described, &group.to_string())?;
    equal(2, described.members.len(), "members")?;
    let want = if matches!(protocol, GroupProtocol::Classic) {
        GroupType::Classic
    } else {
        GroupType::Consumer
    };
    equal(want, described.group_type, "group type")?;

    check::produce(kafka, topic, PARTITIONS, RECORDS, 2 * RECORDS).await?;
    let deadline = Deadline::new("the second hundred, over both members");
    while of_a.len() + of_b.len() < 2 * RECORDS as usize {
        let (ra, rb) = tokio::join!(poll(&a, &mut of_a), poll(&b, &mut of_b));
        ra.and(rb)?;
        deadline.check((of_a.len(), of_b.len()))?;
    }
    let distinct: HashSet<&String> = of_a.iter().chain(&of_b).collect();
    equal(
        2 * RECORDS as usize,
        distinct.len(),
        "distinct records over both members",
    )?;
    equal(
        RECORDS as usize / 2,
        of_b.len(),
        "records of the second member",
    )?;
    a.commit().await?;
    b.commit().await?;
    b.close().await?;
    let deadline = Deadline::new("every partition back at the first member");
    while owned(&a).await != PARTITIONS as usize {
        poll(&a, &mut of_a).await?;
        deadline.check(owned(&a).await)?;
    }

    let tp = TopicPartition::new(topic, 0);
    a.commit_offsets([(tp, OffsetAndMetadata::with_metadata(5, "five"))])
        .await?;
    let committed = a.committed(&[(topic, 0)]).await?;
    equal(
        Some(5),
        committed.get(&(topic.to_string(), 0)).map(|o| o.offset),
        "offset after commit_offsets",
    )?;
    a.commit().await?;
    a.close().await?;
    Ok(())
}

async fn positions(kafka: &Kafka, topic: &str, group: &str) -> Outcome<()> {
    let end = i64::from(2 * RECORDS / PARTITIONS);
    let c = kafka
        .consumer(group)
        .enable_auto_commit(false)
        .build()
        .await?;
    let committed = c.committed(&[(topic, 0), (topic, 1)]).await?;
    for p in 0..2 {
        equal(
            Some(end),
            committed.get(&(topic.to_string(), p)).map(|o| o.offset),
            "committed offset",
        )?;
    }
    // Record i has timestamp 1000+i and lies in partition i mod 4 at offset i / 4.
    let times = c.offsets_for_times(&[(topic, 0)], 1042).await;
    equal(
        11,
        check::item(times, &(topic.to_string(), 0))?,
        "offset for timestamp 1042: record 44",
    )?;
    c.close().await?;

    let alone = kafka.consumer_without_group().build().await?;
    alone.assign(topic, vec![0]).await?;
    alone.seek(topic, 0, 7).await?;
    let deadline = Deadline::new("a record after seek");
    let first = loop {
        if let Some(r) = alone.poll(POLL).await?.into_iter().next() {
            break r;
        }
        deadline.check(())?;
    };
    equal(
        (7, Some("28")),
        (first.offset, first.value_str()),
        "record after seek",
    )?;
    alone.close().await?;
    Ok(())
}
