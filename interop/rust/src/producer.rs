//! The producer: idempotent with every codec, headers, tombstones, acks 1 and 0.

use std::collections::BTreeSet;
use std::time::Duration;

use krafka::consumer::AutoOffsetReset;
use krafka::producer::Acks;
use krafka::{Compression, Kafka, Record};

use crate::check::{self, Deadline, Outcome, POLL, equal, step};

const PARTITIONS: i32 = 3;
const RECORDS: i32 = 60;
const BASE_TIME: i64 = 1_700_000_000_000;

pub async fn run(kafka: &Kafka) -> Outcome<()> {
    let codecs = [
        ("none", Compression::None),
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ];
    for (name, codec) in codecs {
        step(&format!("idempotent producer, compression {name}"));
        round_trip(kafka, &format!("krafka-producer-{name}"), codec, Acks::All).await?;
    }
    step("acks 1");
    round_trip(
        kafka,
        "krafka-producer-acks-1",
        Compression::None,
        Acks::Leader,
    )
    .await?;
    Ok(())
}

fn record(topic: &str, i: i32) -> Record {
    let record = if i % 7 == 0 {
        Record::tombstone(topic, format!("key-{i}"))
    } else {
        Record::new(topic, format!("value-{i}{}", "-".repeat(i as usize * 40)))
            .key(format!("key-{i}"))
    };
    record
        .partition(i % PARTITIONS)
        .timestamp(BASE_TIME + i64::from(i))
        .header("index", i.to_string())
        .header("index", vec![0, 0xff])
}

async fn round_trip(kafka: &Kafka, prefix: &str, codec: Compression, acks: Acks) -> Outcome<()> {
    let topic = check::unique(prefix);
    check::create_topic(kafka, &topic, PARTITIONS).await?;
    let producer = kafka
        .producer()
        .idempotent(acks == Acks::All)
        .acks(acks)
        .compression(codec)
        .linger(Duration::from_millis(20))
        .build()
        .await?;
    equal(
        PARTITIONS as usize,
        producer.partitions_for(&topic).await?.len(),
        "partitions",
    )?;
    let mut handles = Vec::new();
    for i in 0..RECORDS {
        handles.push(producer.enqueue(record(&topic, i)).await?);
    }
    let mut offsets = BTreeSet::new();
    for handle in handles {
        let answer = handle.await?;
        offsets.insert((answer.partition, answer.offset));
    }
    producer.close().await?;
    let want = (0..RECORDS)
        .map(|i| (i % PARTITIONS, i64::from(i / PARTITIONS)))
        .collect();
    equal(want, offsets, "offsets in the answers")?;
    read_back(kafka, &topic).await
}

async fn read_back(kafka: &Kafka, topic: &str) -> Outcome<()> {
    let consumer = kafka
        .consumer_without_group()
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .build()
        .await?;
    consumer.assign(topic, (0..PARTITIONS).collect()).await?;
    let deadline = Deadline::new("records read back");
    let mut seen = 0;
    while seen < RECORDS {
        for r in consumer.poll(POLL).await? {
            let i = r.offset as i32 * PARTITIONS + r.partition;
            let want = record(topic, i);
            equal(want.key, r.key, "key")?;
            equal(want.value, r.value, "value")?;
            equal(want.headers, r.headers, "headers")?;
            equal(BASE_TIME + i64::from(i), r.timestamp, "timestamp")?;
            seen += 1;
        }
        deadline.check(seen)?;
    }
    consumer.close().await?;
    equal(RECORDS, seen, "records read back")
}
