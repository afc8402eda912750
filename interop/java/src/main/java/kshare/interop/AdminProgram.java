package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.fails;
import static kshare.interop.Check.get;
import static kshare.interop.Check.step;
import static kshare.interop.Check.that;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Admin on the cluster, topics, configs and logs; {@link AdminGroupsProgram} has the groups. */
public final class AdminProgram {
    private static final int PARTITIONS = 3;
    private static final int RECORDS = 30;

    private final Clients clients;
    private final Admin admin;
    private final String topic = Check.unique("java-admin");

    private AdminProgram(Clients clients, Admin admin) {
        this.clients = clients;
        this.admin = admin;
    }

    public static void main(String[] args) {
        Check.main("java admin", () -> {
            Clients clients = new Clients(args[0]);
            try (Admin admin = clients.admin()) {
                AdminProgram p = new AdminProgram(clients, admin);
                p.cluster();
                p.createTopics();
                p.topicConfigs();
                p.otherConfigs();
                p.logs();
                p.partitionsAndDeletion();
            }
        });
    }

    private void cluster() throws Exception {
        step("describeCluster, describeFeatures");
        DescribeClusterResult d = admin.describeCluster();
        Collection<Node> nodes = get(d.nodes());
        that(!nodes.isEmpty(), "no nodes");
        that(get(d.clusterId()) != null && !get(d.clusterId()).isEmpty(), "no cluster id");
        that(nodes.contains(get(d.controller())), "the controller is no node");
        nodes.forEach(n -> that(n.port() > 0 && !n.isFenced(), "node without port or fenced: " + n));

        FeatureMetadata f = get(admin.describeFeatures().featureMetadata());
        for (String name : List.of("metadata.version", "group.version", "share.version", "transaction.version")) {
            that(f.finalizedFeatures().containsKey(name), name + " is not finalized: " + f.finalizedFeatures());
            that(f.supportedFeatures().containsKey(name), name + " is not supported: " + f.supportedFeatures());
        }
        that(f.finalizedFeatures().get("share.version").maxVersionLevel() >= 1, "share.version is off");
        that(f.finalizedFeaturesEpoch().isPresent(), "no finalized features epoch");
    }

    private void createTopics() throws Exception {
        step("createTopics, listTopics, describeTopics");
        NewTopic wanted = new NewTopic(topic, PARTITIONS, (short) 1).configs(Map.of("retention.ms", "3600000"));
        get(admin.createTopics(List.of(wanted), new CreateTopicsOptions().validateOnly(true)).all());
        that(!get(admin.listTopics().names()).contains(topic), "validateOnly created " + topic);

        CreateTopicsResult created = admin.createTopics(List.of(wanted));
        Uuid id = get(created.topicId(topic));
        equal(PARTITIONS, get(created.numPartitions(topic)), "numPartitions in the answer");
        equal(1, get(created.replicationFactor(topic)), "replicationFactor in the answer");
        ConfigEntry retention = get(created.config(topic)).get("retention.ms");
        equal("3600000", retention.value(), "retention.ms in the answer");
        equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, retention.source(), "its source");
        that(get(created.config(topic)).entries().size() > 30, "the answer must have every topic config");

        fails(TopicExistsException.class, admin.createTopics(List.of(wanted)).all(), "the same topic again");
        fails(InvalidTopicException.class, admin.createTopics(List.of(new NewTopic("a b", 1, (short) 1))).all(),
            "an illegal name");
        fails(InvalidPartitionsException.class,
            admin.createTopics(List.of(new NewTopic(topic + "-x", 0, (short) 1))).all(), "no partitions");
        fails(InvalidReplicationFactorException.class,
            admin.createTopics(List.of(new NewTopic(topic + "-x", 1, (short) 9))).all(), "more replicas than brokers");
        fails(InvalidConfigurationException.class,
            admin.createTopics(List.of(new NewTopic(topic + "-x", 1, (short) 1).configs(Map.of("no.such", "1")))).all(),
            "an unknown config");

        Check.eventually("a described topic", () -> get(admin.listTopics().names()), names -> names.contains(topic));
        TopicDescription byName = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
        TopicDescription byId = get(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds()).get(id);
        for (TopicDescription d : List.of(byName, byId)) {
            equal(topic, d.name(), "name");
            equal(id, d.topicId(), "topic id");
            equal(PARTITIONS, d.partitions().size(), "partitions");
            d.partitions().forEach(p -> {
                that(p.leader() != null && p.leader().port() > 0, "no leader for " + p);
                equal(List.of(p.leader()), p.isr(), "isr of " + p);
            });
        }
        that(byName.partitions().get(0).elr() != null, "the eligible leader replicas are null");
        fails(UnknownTopicOrPartitionException.class,
            admin.describeTopics(List.of(topic + "-none")).allTopicNames(), "an unknown topic");
    }

    private Config describe(ConfigResource r) throws Exception {
        return get(admin.describeConfigs(List.of(r), new DescribeConfigsOptions().includeSynonyms(true)
            .includeDocumentation(true)).all()).get(r);
    }

    private void alter(ConfigResource r, String name, String value, AlterConfigOp.OpType op) throws Exception {
        get(admin.incrementalAlterConfigs(Map.of(r, List.of(new AlterConfigOp(new ConfigEntry(name, value), op)))).all());
    }

    /** Waits for a value: what the controller has accepted, a broker may describe a moment later. */
    private ConfigEntry becomes(ConfigResource r, String name, String value) throws Exception {
        return Check.eventually(name + " of " + r + " as " + value, () -> describe(r).get(name), e -> e.value().equals(value));
    }

    private void topicConfigs() throws Exception {
        step("incrementalAlterConfigs and describeConfigs of a topic");
        ConfigResource r = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        alter(r, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
        becomes(r, "cleanup.policy", "delete,compact");
        alter(r, "cleanup.policy", "compact", AlterConfigOp.OpType.SUBTRACT);
        becomes(r, "cleanup.policy", "delete");
        alter(r, "retention.ms", "7200000", AlterConfigOp.OpType.SET);
        ConfigEntry set = becomes(r, "retention.ms", "7200000");
        equal(ConfigEntry.ConfigType.LONG, set.type(), "type of retention.ms");
        that(set.documentation() != null && !set.documentation().isEmpty(), "no documentation");
        that(!set.synonyms().isEmpty(), "no synonyms");
        alter(r, "retention.ms", null, AlterConfigOp.OpType.DELETE);
        becomes(r, "retention.ms", "604800000");
        fails(InvalidConfigurationException.class, admin.incrementalAlterConfigs(Map.of(r, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET)))).all(),
            "a value that is no number");
    }

    private void otherConfigs() throws Exception {
        step("configs of a broker and of a group");
        String broker = Integer.toString(get(admin.describeCluster().nodes()).iterator().next().id());
        Config b = describe(new ConfigResource(ConfigResource.Type.BROKER, broker));
        that(b.get("log.retention.ms") != null && b.get("group.share.record.lock.duration.ms") != null,
            "a broker's configs lack well-known keys");
        equal(true, b.get("node.id").isReadOnly(), "node.id is read only");

        ConfigResource g = new ConfigResource(ConfigResource.Type.GROUP, topic);
        equal("latest", describe(g).get("share.auto.offset.reset").value(), "default of share.auto.offset.reset");
        alter(g, "share.auto.offset.reset", "earliest", AlterConfigOp.OpType.SET);
        ConfigEntry e = becomes(g, "share.auto.offset.reset", "earliest");
        equal(ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG, e.source(), "its source");
        that(get(admin.listConfigResources(Set.of(ConfigResource.Type.GROUP),
            new ListConfigResourcesOptions()).all()).contains(g), "listConfigResources lacks the group");
        alter(g, "share.auto.offset.reset", null, AlterConfigOp.OpType.DELETE);
        becomes(g, "share.auto.offset.reset", "latest");
        fails(InvalidConfigurationException.class, admin.incrementalAlterConfigs(Map.of(g, List.of(
            new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "sometime"), AlterConfigOp.OpType.SET)))).all(),
            "an illegal share.auto.offset.reset");
    }

    private void logs() throws Exception {
        step("listOffsets, deleteRecords");
        String log = topic + "-log";
        clients.createTopic(admin, log, PARTITIONS);
        clients.produce(log, PARTITIONS, 0, RECORDS);
        TopicPartition p0 = new TopicPartition(log, 0);
        long end = RECORDS / PARTITIONS;
        equal(0L, offset(p0, OffsetSpec.earliest()), "earliest");
        equal(end, offset(p0, OffsetSpec.latest()), "latest");
        equal(end - 1, offset(p0, OffsetSpec.maxTimestamp()), "max timestamp");
        // Record i of partition 0 is value 3i with timestamp 1000+3i.
        equal(4L, offset(p0, OffsetSpec.forTimestamp(1010)), "first record from timestamp 1010 on (value 12)");
        equal(-1L, offset(p0, OffsetSpec.forTimestamp(5000)), "no record from timestamp 5000 on");

        equal(6L, get(admin.deleteRecords(Map.of(p0, RecordsToDelete.beforeOffset(6))).lowWatermarks().get(p0)).lowWatermark(),
            "low watermark after deleteRecords");
        equal(6L, offset(p0, OffsetSpec.earliest()), "earliest after deleteRecords");
        fails(OffsetOutOfRangeException.class, admin.deleteRecords(Map.of(p0, RecordsToDelete.beforeOffset(end + 1))).all(),
            "deleteRecords past the end");
    }

    private long offset(TopicPartition tp, OffsetSpec spec) throws Exception {
        return get(admin.listOffsets(Map.of(tp, spec)).partitionResult(tp)).offset();
    }

    private void partitionsAndDeletion() throws Exception {
        step("createPartitions, deleteTopics");
        get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(PARTITIONS + 2))).all());
        Check.eventually("the new partitions",
            () -> get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size(),
            n -> n == PARTITIONS + 2);
        fails(InvalidPartitionsException.class, admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all(),
            "fewer partitions");

        String second = topic + "-by-id";
        clients.createTopic(admin, second, 1);
        Uuid id = get(admin.describeTopics(List.of(second)).allTopicNames()).get(second).topicId();
        get(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
        get(admin.deleteTopics(List.of(topic, topic + "-log")).all());
        Check.eventually("all topics gone", () -> {
            Set<String> names = new TreeSet<>(get(admin.listTopics().names()));
            return names.stream().filter(n -> n.startsWith(topic)).collect(Collectors.toSet());
        }, Set::isEmpty);
        fails(UnknownTopicOrPartitionException.class, admin.deleteTopics(List.of(topic)).all(), "an unknown topic");
    }
}
