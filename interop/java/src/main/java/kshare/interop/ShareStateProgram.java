package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.get;
import static kshare.interop.Check.step;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter;

/**
 * The records of __share_group_state, as Kafka's own formatter prints them: a snapshot when a share partition is initialised, an update for each
 * acknowledgement, another snapshot after so many updates, a tombstone at last; all in the partition where Kafka looks for them.
 */
public final class ShareStateProgram {
    private static final String STATE = "__share_group_state";

    private final String bootstrap;
    private final Clients clients;
    private final Admin admin;
    private final String id = Check.unique("java-state"); // of the topic and the group
    private final List<String> want = new ArrayList<>();
    private Uuid topicId;

    private ShareStateProgram(String bootstrap, Clients clients, Admin admin) {
        this.bootstrap = bootstrap;
        this.clients = clients;
        this.admin = admin;
    }

    public static void main(String[] args) {
        Check.main("java share state", () -> {
            Clients clients = new Clients(args[0]);
            try (Admin admin = clients.admin()) {
                ShareStateProgram p = new ShareStateProgram(args[0], clients, admin);
                p.write();
                p.read();
            }
        });
    }

    /** A record as the formatter prints it, without its timestamps. */
    private void expect(int type, String value) {
        want.add("{\"key\":{\"type\":" + type + ",\"data\":{\"groupId\":\"" + id + "\",\"topicId\":\"" + topicId + "\",\"partition\":0}},\"value\":" + value + "}");
    }

    private void expectSnapshot(int epoch, long start, String complete, String batches) {
        expect(0, "{\"version\":0,\"data\":{\"snapshotEpoch\":" + epoch + ",\"stateEpoch\":2,\"leaderEpoch\":0,\"startOffset\":" + start + complete
            + ",\"stateBatches\":[" + batches + "]}}");
    }

    private void expectUpdate(int epoch, long start, int complete, String batches) {
        expect(1, "{\"version\":0,\"data\":{\"snapshotEpoch\":" + epoch + ",\"leaderEpoch\":0,\"startOffset\":" + start + complete(complete)
            + ",\"stateBatches\":[" + batches + "]}}");
    }

    private static String complete(int count) {
        return ",\"deliveryCompleteCount\":" + count;
    }

    private static String batch(long first, long last, int state, int deliveries) {
        return "{\"firstOffset\":" + first + ",\"lastOffset\":" + last + ",\"deliveryState\":" + state + ",\"deliveryCount\":" + deliveries + "}";
    }

    private void write() throws Exception {
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER,
            Integer.toString(get(admin.describeCluster().nodes()).iterator().next().id()));
        int updates = Integer.parseInt(get(admin.describeConfigs(List.of(broker)).all()).get(broker)
            .get("share.coordinator.snapshot.update.records.per.snapshot").value());
        step(updates + " updates, a snapshot, and what follows");
        clients.createTopic(admin, id, 1);
        topicId = get(admin.describeTopics(List.of(id)).allTopicNames()).get(id).topicId();
        clients.alterGroup(admin, id, Map.of("share.auto.offset.reset", "earliest"));
        clients.produce(id, 1, 0, updates + 1);
        expectSnapshot(0, -1, "", "");
        try (ShareConsumer<String, String> c = clients.shareConsumer("group.id", id, "share.acknowledgement.mode", "explicit",
                "share.acquire.mode", "record_limit", "max.poll.records", "50")) { // no more than can be acknowledged one by one while their lock lasts
            c.subscribe(List.of(id));
            List<ConsumerRecord<String, String>> got = new ArrayList<>();
            for (int i = 0; i <= updates; i++) {
                if (got.isEmpty()) {
                    poll(c, got);
                }
                c.acknowledge(got.remove(0));
                commit(c);
                if (i < updates) {
                    expectUpdate(0, i, 1, batch(i, i, 2, 1));
                } else {
                    expectSnapshot(1, i, complete(1), batch(i, i, 2, 1));
                }
            }
            // Of nine more, five are accepted, one is released, one rejected, two are kept until the member has gone.
            int first = updates + 1;
            clients.produceBatch(id, first, first + 9);
            poll(c, got);
            equal(9, got.size(), "records of one batch");
            for (int i = 0; i < 5; i++) {
                c.acknowledge(got.get(i));
            }
            c.acknowledge(got.get(5), AcknowledgeType.RELEASE);
            c.acknowledge(got.get(6), AcknowledgeType.REJECT);
            commit(c);
            expectUpdate(1, first, 6, batch(first, first + 4, 2, 1) + "," + batch(first + 5, first + 5, 0, 1) + "," + batch(first + 6, first + 6, 4, 1));
            expectUpdate(1, first + 5, 1, batch(first + 7, first + 8, 0, 1));
        }
        Check.eventually("an empty group", () -> get(admin.describeShareGroups(List.of(id)).all()).get(id).groupState(), GroupState.EMPTY::equals);
        get(admin.deleteShareGroupOffsets(id, Set.of(id)).all());
        expect(0, "null");
    }

    private static void poll(ShareConsumer<String, String> c, List<ConsumerRecord<String, String>> got) throws Exception {
        Check.eventually("records", () -> {
            c.poll(Check.POLL).forEach(got::add);
            return got.size();
        }, n -> n > 0);
    }

    private static void commit(ShareConsumer<String, String> c) {
        Map<TopicIdPartition, Optional<KafkaException>> results = c.commitSync();
        equal(1, results.size(), "partitions in commitSync's answer");
        results.forEach((tp, e) -> equal(Optional.empty(), e, "acknowledgement of " + tp));
    }

    private void read() throws Exception {
        step("kafka-console-consumer with the formatter of share group state");
        int partitions = get(admin.describeTopics(List.of(STATE)).allTopicNames()).get(STATE).partitions().size();
        int partition = Utils.abs((id + ":" + topicId + ":0").hashCode()) % partitions; // ShareCoordinatorService.partitionFor
        TopicPartition tp = new TopicPartition(STATE, partition);
        List<String> got = new ArrayList<>();
        for (String record : Tools.records(bootstrap, admin, tp, ShareGroupStateMessageFormatter.class)) {
            if (record.contains("\"groupId\":\"" + id + "\"")) {
                got.add(record.replaceAll(",\"(create|write)Timestamp\":\\d{13}", ""));
            }
        }
        for (int i = 0; i < Math.min(want.size(), got.size()); i++) {
            equal(want.get(i), got.get(i), "record " + i + " of the group");
        }
        equal(want.size(), got.size(), "records of the group in " + tp);
    }
}
