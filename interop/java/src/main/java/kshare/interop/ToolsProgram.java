package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.step;
import static kshare.interop.Check.that;
import static kshare.interop.Tools.line;
import static kshare.interop.Tools.noLine;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.tools.ConfigCommand;
import org.apache.kafka.tools.ConsoleProducer;
import org.apache.kafka.tools.GroupsCommand;
import org.apache.kafka.tools.TopicCommand;
import org.apache.kafka.tools.consumer.ConsoleConsumer;
import org.apache.kafka.tools.consumer.ConsoleShareConsumer;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;
import org.apache.kafka.tools.consumer.group.ShareGroupCommand;

/**
 * Kafka's command line tools, each run with the arguments of a shell, and held to what it prints.
 */
public final class ToolsProgram {
    private static final int RECORDS = 6;

    private final String bootstrap;
    private final String topic = Check.unique("java-tools");
    private final String group = topic + "-group";
    private final String share = topic + "-share";

    private ToolsProgram(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) {
        Check.main("java tools", () -> {
            ToolsProgram p = new ToolsProgram(args[0]);
            p.topics();
            p.configs();
            p.consoles();
            p.groups();
            p.consumerGroups();
            p.shareGroups();
            p.deletion();
        });
    }

    private String run(int status, String input, Tools.Tool tool, String... args) throws Exception {
        return Tools.run(bootstrap, status, input, tool, args);
    }

    private String run(Tools.Tool tool, String... args) throws Exception {
        return run(0, "", tool, args);
    }

    private void topics() throws Exception {
        step("kafka-topics");
        line("Created topic " + topic + "\\.", run(TopicCommand::main, "--create", "--topic", topic, "--partitions", "2",
            "--replication-factor", "1", "--config", "retention.ms=1000000"));
        String again = run(1, "", TopicCommand::main, "--create", "--topic", topic, "--partitions", "2");
        that(again.contains("already exists"), "the reason of the refusal is missing:\n" + again);
        run(TopicCommand::main, "--create", "--topic", topic, "--partitions", "2", "--if-not-exists");
        line(topic, run(TopicCommand::main, "--list"));

        run(TopicCommand::main, "--alter", "--topic", topic, "--partitions", "3");
        String described = run(TopicCommand::main, "--describe", "--topic", topic);
        line("Topic: " + topic + " TopicId: \\S{22} PartitionCount: 3 ReplicationFactor: 1 Configs: .*retention.ms=1000000.*",
            described);
        for (int p = 0; p < 3; p++) {
            line("Topic: " + topic + " Partition: " + p + " Leader: (\\d+) Replicas: \\1 Isr: \\1 Elr: LastKnownElr:", described);
        }
        String unknown = run(1, "", TopicCommand::main, "--describe", "--topic", topic + "-none");
        that(unknown.contains("does not exist as expected"), "the reason of the refusal is missing:\n" + unknown);
    }

    private void configs() throws Exception {
        step("kafka-configs");
        line("Completed updating config for topic " + topic + "\\.", run(ConfigCommand::main, "--alter", "--entity-type",
            "topics", "--entity-name", topic, "--add-config", "retention.ms=2000000,segment.ms=[60000]"));
        String set = run(ConfigCommand::main, "--describe", "--topic", topic);
        line("retention.ms=2000000 sensitive=false synonyms=\\{DYNAMIC_TOPIC_CONFIG:retention.ms=2000000.*\\}", set);
        line("segment.ms=60000 .*", set);
        run(ConfigCommand::main, "--alter", "--topic", topic, "--delete-config", "segment.ms");
        noLine("segment.ms=60000 .*", run(ConfigCommand::main, "--describe", "--topic", topic));
        line("cleanup.policy=delete .*DEFAULT_CONFIG:log.cleanup.policy=delete.*",
            run(ConfigCommand::main, "--describe", "--all", "--topic", topic));

        line("Completed updating config for group " + share + "\\.", run(ConfigCommand::main, "--alter", "--entity-type",
            "groups", "--entity-name", share, "--add-config", "share.auto.offset.reset=earliest"));
        line("share.auto.offset.reset=earliest sensitive=false synonyms=\\{DYNAMIC_GROUP_CONFIG:share.auto.offset.reset="
            + "earliest, DEFAULT_CONFIG:share.auto.offset.reset=latest\\}", run(ConfigCommand::main, "--describe", "--group", share));
        String bad = run(1, "", ConfigCommand::main, "--alter", "--group", share, "--add-config", "share.auto.offset.reset=never");
        that(bad.contains("share.auto.offset.reset"), "the reason of the refusal is missing:\n" + bad);
    }

    private void consoles() throws Exception {
        step("kafka-console-producer, -consumer, -share-consumer");
        StringBuilder input = new StringBuilder();
        for (int i = 0; i < RECORDS; i++) {
            input.append("h:").append(i).append("\tk").append(i).append("\tv").append(i).append('\n');
        }
        run(0, input.toString(), ConsoleProducer::main, "--topic", topic, "--reader-property", "parse.key=true",
            "--reader-property", "parse.headers=true", "--compression-codec", "zstd");

        for (String protocol : List.of("classic", "consumer")) {
            String read = run(ConsoleConsumer::main, "--topic", topic, "--from-beginning", "--group", group + "-" + protocol,
                "--max-messages", Integer.toString(RECORDS), "--timeout-ms", "30000",
                "--command-property", "group.protocol=" + protocol, "--formatter-property", "print.key=true",
                "--formatter-property", "print.headers=true", "--formatter-property", "print.partition=true");
            for (int i = 0; i < RECORDS; i++) {
                line("Partition:[012] h:" + i + " k" + i + " v" + i, read);
            }
            line("Processed a total of " + RECORDS + " messages", read);
        }
        String one = run(ConsoleConsumer::main, "--topic", topic, "--partition", "0", "--offset", "earliest",
            "--timeout-ms", "1500");
        that(one.lines().filter(l -> l.startsWith("v")).count() < RECORDS, "more than one partition:\n" + one);

        String released = run(ConsoleShareConsumer::main, "--topic", topic, "--group", share, "--release",
            "--max-messages", Integer.toString(RECORDS), "--timeout-ms", "30000",
            "--formatter-property", "print.delivery=true");
        line("Delivery:1 v0", released);
        String read = run(ConsoleShareConsumer::main, "--topic", topic, "--group", share,
            "--max-messages", Integer.toString(RECORDS), "--timeout-ms", "30000",
            "--formatter-property", "print.delivery=true", "--formatter-property", "print.key=true");
        Set<String> values = new TreeSet<>();
        read.lines().filter(l -> l.startsWith("Delivery:")).forEach(l -> {
            String[] columns = l.split("\t");
            that(!columns[0].equals("Delivery:1"), "a released record with delivery count 1: " + l);
            values.add(columns[2]);
        });
        equal(RECORDS, values.size(), "distinct values of the share group, in:\n" + read);
        line("Processed a total of " + RECORDS + " messages", read);
    }

    private void groups() throws Exception {
        step("kafka-groups");
        String all = run(GroupsCommand::main, "--list");
        line("GROUP TYPE PROTOCOL", all);
        line(group + "-classic Classic consumer", all);
        line(group + "-consumer Consumer consumer", all);
        line(share + " Share share", all);
        String shares = run(GroupsCommand::main, "--list", "--share");
        line(share + " Share share", shares);
        noLine(group + ".*", shares);
        String consumers = run(GroupsCommand::main, "--list", "--group-type", "consumer");
        line(group + "-consumer Consumer consumer", consumers);
        noLine(group + "-classic.*", consumers);
    }

    private void consumerGroups() throws Exception {
        step("kafka-consumer-groups");
        String list = run(ConsumerGroupCommand::main, "--list");
        noLine(share, list);
        for (String g : List.of(group + "-classic", group + "-consumer")) {
            line(g, list);
            String described = run(ConsumerGroupCommand::main, "--describe", "--group", g);
            line("Consumer group '" + g + "' has no active members\\.", described);
            line("GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID", described);
            for (int p = 0; p < 3; p++) {
                line(g + " " + topic + " " + p + " (\\d+) \\1 0 - - -", described);
            }
            line(g + " \\S+:\\d+ \\(\\d+\\) .* Empty 0", run(ConsumerGroupCommand::main, "--describe", "--group", g, "--state"));
            String reset = run(ConsumerGroupCommand::main, "--reset-offsets", "--group", g, "--topic", topic, "--to-earliest",
                "--execute");
            line(g + " " + topic + " 0 0", reset);
            line(g + " " + topic + " 0 0 (\\d+) \\1 - - -", run(ConsumerGroupCommand::main, "--describe", "--group", g));
            line(topic + " 0 Successful", run(ConsumerGroupCommand::main, "--delete-offsets", "--group", g, "--topic", topic));
        }
    }

    private void shareGroups() throws Exception {
        step("kafka-share-groups");
        line(share, run(ShareGroupCommand::main, "--list"));
        line(share + " Empty", run(ShareGroupCommand::main, "--list", "--state"));
        String offsets = run(ShareGroupCommand::main, "--describe", "--group", share);
        line("GROUP TOPIC PARTITION START-OFFSET LAG", offsets);
        for (int p = 0; p < 3; p++) {
            line(share + " " + topic + " " + p + " (\\d+ 0|- -)", offsets);
        }
        line(share + " \\S+:\\d+ \\(\\d+\\) Empty 0", run(ShareGroupCommand::main, "--describe", "--group", share, "--state"));
        line("Share group '" + share + "' has no active members\\.",
            run(ShareGroupCommand::main, "--describe", "--group", share, "--members"));
        String reset = run(ShareGroupCommand::main, "--reset-offsets", "--group", share, "--topic", topic, "--to-earliest",
            "--execute");
        String after = run(ShareGroupCommand::main, "--describe", "--group", share, "--offsets");
        for (int p = 0; p < 3; p++) {
            line(share + " " + topic + " " + p + " 0", reset);
            line(share + " " + topic + " " + p + " 0 \\d+", after);
        }
        line(topic + " Successful", run(ShareGroupCommand::main, "--delete-offsets", "--group", share, "--topic", topic));
    }

    private void deletion() throws Exception {
        step("deletion by kafka-share-groups, -consumer-groups, -topics");
        line("Deletion of requested share groups \\('" + share + "'\\) was successful\\.",
            run(ShareGroupCommand::main, "--delete", "--group", share));
        for (String g : List.of(group + "-classic", group + "-consumer")) {
            line("Deletion of requested consumer groups \\('" + g + "'\\) was successful\\.",
                run(ConsumerGroupCommand::main, "--delete", "--group", g));
        }
        noLine(topic + ".*", run(GroupsCommand::main, "--list"));
        run(TopicCommand::main, "--delete", "--topic", topic);
        Check.eventually("the topic gone", () -> run(TopicCommand::main, "--list"), l -> !l.contains(topic));
    }
}
