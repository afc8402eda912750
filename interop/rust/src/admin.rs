//! The admin client: cluster, topics, configs, logs, consumer and share groups.

use krafka::Kafka;
use krafka::admin::{
    ConfigResource, DescribeConfigsOptions, ListConsumerGroupsOptions, OffsetSpec, TopicPartition,
};
use krafka::share_consumer::AcknowledgementMode;

use crate::check::{self, Deadline, Outcome, equal, step};
use crate::share;

pub async fn run(kafka: &Kafka) -> Outcome<()> {
    step("admin: cluster, features, topics, configs, logs");
    let topic = check::unique("krafka-admin");
    topics(kafka, &topic).await?;
    step("admin: consumer group offsets and deletion");
    consumer_group(kafka, &topic).await?;
    step("admin: share group offsets and deletion");
    share_group(kafka).await?;
    let deleted = kafka
        .admin()
        .delete_topics([&topic], Default::default())
        .await?;
    check::item(deleted, &topic)
}

async fn offset(kafka: &Kafka, tp: &TopicPartition, spec: OffsetSpec) -> Outcome<i64> {
    let listed = kafka
        .admin()
        .list_offsets([(tp.clone(), spec)], Default::default())
        .await?;
    Ok(check::item(listed, tp)?.offset)
}

async fn topics(kafka: &Kafka, topic: &str) -> Outcome<()> {
    let admin = kafka.admin();
    let cluster = admin.describe_cluster(Default::default()).await?;
    equal(
        false,
        cluster.brokers.is_empty(),
        "a cluster without brokers",
    )?;
    let features = admin.describe_features(Default::default()).await?;
    equal(
        true,
        features.finalized.iter().any(|f| f.name == "share.version"),
        "share.version finalized",
    )?;

    check::create_topic(kafka, topic, 3).await?;
    equal(
        true,
        check::create_topic(kafka, topic, 3).await.is_err(),
        "the same topic again is refused",
    )?;
    let name = topic.to_string();
    equal(
        true,
        admin.list_topics(Default::default()).await?.contains(&name),
        "list_topics has the topic",
    )?;
    check::item(
        admin
            .create_partitions([(topic, 4)], Default::default())
            .await?,
        &name,
    )?;
    let deadline = Deadline::new("the new partition");
    loop {
        let described = check::item(
            admin.describe_topics([topic], Default::default()).await?,
            &name,
        )?;
        if described.partitions.len() == 4 {
            equal(
                true,
                described.partitions.iter().all(|p| p.leader.is_some()),
                "every partition has a leader",
            )?;
            break;
        }
        deadline.check(described.partitions.len())?;
    }

    let resource = ConfigResource::topic(topic);
    check::alter(kafka, resource.clone(), "segment.ms", "60000").await?;
    let deadline = Deadline::new("segment.ms as it was set");
    loop {
        let options = DescribeConfigsOptions::default().include_synonyms(true);
        let described = admin.describe_configs([resource.clone()], options).await?;
        let entries = check::item(described, &resource)?;
        let segment = entries.iter().find(|e| e.name == "segment.ms").ok_or("no segment.ms")?;
        if segment.value.as_deref() == Some("60000") {
            break;
        }
        deadline.check(&segment.value)?;
    }

    // A producer's metadata may not have the fourth partition yet.
    check::produce(kafka, topic, 3, 0, 30).await?;
    let tp = TopicPartition::new(topic, 0);
    equal(
        10,
        offset(kafka, &tp, OffsetSpec::Latest).await?,
        "latest offset",
    )?;
    equal(
        4,
        offset(kafka, &tp, OffsetSpec::Timestamp(1010)).await?,
        "offset for timestamp 1010: record 12",
    )?;
    let deleted = admin
        .delete_records([(tp.clone(), 4)], Default::default())
        .await?;
    equal(4, check::item(deleted, &tp)?, "low watermark")?;
    equal(
        4,
        offset(kafka, &tp, OffsetSpec::Earliest).await?,
        "earliest offset",
    )
}

async fn consumer_group(kafka: &Kafka, topic: &str) -> Outcome<()> {
    let admin = kafka.admin();
    let group = format!("{topic}-group");
    let tp = TopicPartition::new(topic, 0);
    let altered = admin
        .alter_consumer_group_offsets(&group, [(tp.clone(), 6)], Default::default())
        .await?;
    check::item(altered, &tp)?;
    let offsets = admin
        .list_consumer_group_offsets(&group, Default::default())
        .await?;
    equal(
        Some(6),
        check::item(offsets, &tp)?.offset,
        "offset after alter",
    )?;
    let lag = check::item(
        admin.consumer_group_lag(&group, Default::default()).await?,
        &tp,
    )?;
    equal(Some(4), lag.lag, "lag")?;
    check::item(
        admin
            .delete_consumer_group_offsets(&group, [tp.clone()], Default::default())
            .await?,
        &tp,
    )?;
    equal(
        false,
        listed(kafka, &group, "share").await?,
        "a classic group among share groups",
    )?;
    // Without offsets and members the group may be gone already; then deletion has nothing to find.
    if listed(kafka, &group, "classic").await? {
        check::item(
            admin
                .delete_consumer_groups([&group], Default::default())
                .await?,
            &group,
        )?;
    }
    equal(
        false,
        listed(kafka, &group, "classic").await?,
        "a deleted group in the list",
    )
}

async fn listed(kafka: &Kafka, group: &str, kind: &str) -> Outcome<bool> {
    let options = ListConsumerGroupsOptions::default().types(vec![kind.to_string()]);
    for (_, groups) in kafka.admin().list_consumer_groups(options).await? {
        if groups?.iter().any(|g| g.group_id == group) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn share_group(kafka: &Kafka) -> Outcome<()> {
    let admin = kafka.admin();
    let name = share::prepare(kafka, "admin", 1).await?;
    let c = share::member(kafka, &name, AcknowledgementMode::Implicit).await?;
    let deadline = Deadline::new("a record of the share group");
    while c.poll(check::POLL).await?.is_empty() {
        deadline.check(())?;
    }
    share::commit(&c).await?;
    equal(
        true,
        listed(kafka, &name, "share").await?,
        "the share group in the list",
    )?;
    c.close().await?;

    let tp = TopicPartition::new(&name, 0);
    let altered = admin
        .alter_share_group_offsets(&name, [(tp.clone(), 7)], Default::default())
        .await?;
    check::item(altered, &tp)?;
    let described = admin
        .describe_share_group_offsets(&name, Default::default())
        .await?;
    equal(
        7,
        check::item(described, &tp)?.start_offset,
        "start offset after alter",
    )?;
    let deleted = admin
        .delete_share_group_offsets(&name, [&name], Default::default())
        .await?;
    check::item(deleted, &name)?;
    check::item(
        admin
            .delete_consumer_groups([&name], Default::default())
            .await?,
        &name,
    )?;
    equal(
        false,
        listed(kafka, &name, "share").await?,
        "a deleted share group in the list",
    )
}
