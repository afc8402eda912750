package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.fails;
import static kshare.interop.Check.get;
import static kshare.interop.Check.step;
import static kshare.interop.Check.that;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * TLS, SASL and rules of the authorizer. The arguments are the addresses of the listeners PLAINTEXT, SASL_SSL and SSL, and the directory of the certificates.
 */
public final class SecurityProgram {
    private static final String ALICE = "User:alice";
    private static final String BOB = "User:CN=bob";

    private final Clients plain;
    private final String saslSsl;
    private final String ssl;
    private final Path certificates;
    private final String topic = Check.unique("java-security");
    private final String ours = Check.unique("readers");

    private SecurityProgram(String[] args) {
        plain = new Clients(args[0]);
        saslSsl = args[1];
        ssl = args[2];
        certificates = Path.of(args[3]);
    }

    public static void main(String[] args) {
        Check.main("java security", () -> {
            SecurityProgram p = new SecurityProgram(args);
            try (Admin root = p.plain.admin()) {
                p.plain.createTopic(root, p.topic, 1);
                p.whoGetsIn();
                p.userWhoIsMade(root);
                p.whoMayWrite(root);
                p.whoMayRead(root);
                p.whoMayShare(root);
                p.denialWins(root);
            }
        });
    }

    private Properties trusting(String bootstrap, String protocol) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("security.protocol", protocol);
        p.put("ssl.truststore.type", "PEM");
        p.put("ssl.truststore.location", certificates.resolve("ca.pem").toString());
        return p;
    }

    private Properties login(String mechanism, String user, String password) {
        Properties p = trusting(saslSsl, "SASL_SSL");
        String module = mechanism.equals("PLAIN")
            ? "org.apache.kafka.common.security.plain.PlainLoginModule" : "org.apache.kafka.common.security.scram.ScramLoginModule";
        p.put("sasl.mechanism", mechanism);
        p.put("sasl.jaas.config", module + " required username=\"" + user + "\" password=\"" + password + "\";");
        return p;
    }

    private Properties alice(String... more) {
        return with(login("SCRAM-SHA-512", "alice", "alice-secret"), more);
    }

    private Properties bob(String... more) throws IOException {
        Properties p = trusting(ssl, "SSL");
        p.put("ssl.keystore.type", "PEM");
        p.put("ssl.keystore.certificate.chain", Files.readString(certificates.resolve("bob.pem")));
        p.put("ssl.keystore.key", Files.readString(certificates.resolve("bob.key")));
        return with(p, more);
    }

    private static Properties with(Properties p, String... more) {
        for (int i = 0; i < more.length; i += 2) {
            p.put(more[i], more[i + 1]);
        }
        return p;
    }

    private static void letsIn(Properties p) throws Exception {
        try (Admin a = Admin.create(p)) {
            equal(1, get(a.describeCluster().nodes()).size(), "nodes");
        }
    }

    private static void refuses(Class<? extends Exception> why, Properties p, String what) throws Exception {
        try (Admin a = Admin.create(p)) {
            fails(why, a.describeCluster().nodes(), what);
        }
    }

    private void whoGetsIn() throws Exception {
        step("who is not trusted, or gives a wrong password, is refused");
        Properties untrusting = new Properties();
        untrusting.put("bootstrap.servers", ssl);
        untrusting.put("security.protocol", "SSL");
        refuses(SslAuthenticationException.class, untrusting, "a broker that the client does not trust");
        refuses(SslAuthenticationException.class, trusting(ssl, "SSL"), "a client without a certificate");
        refuses(SaslAuthenticationException.class, login("PLAIN", "alice", "wrong"), "a wrong password, by PLAIN");
        refuses(SaslAuthenticationException.class, login("SCRAM-SHA-256", "alice", "wrong"), "a wrong password, by SCRAM");
        step("the others get in");
        for (String mechanism : List.of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")) {
            letsIn(login(mechanism, "alice", "alice-secret"));
        }
        letsIn(bob());
    }

    private void userWhoIsMade(Admin root) throws Exception {
        step("a user who is made, and removed");
        String carol = Check.unique("carol");
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
        get(root.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(carol, info, "carol-secret"))).all());
        equal(List.of(info), get(root.describeUserScramCredentials(List.of(carol)).description(carol)).credentialInfos(), "her credentials");
        letsIn(login("SCRAM-SHA-256", carol, "carol-secret"));
        get(root.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(carol, ScramMechanism.SCRAM_SHA_256))).all());
        refuses(SaslAuthenticationException.class, login("SCRAM-SHA-256", carol, "carol-secret"), "a user who is removed");
    }

    private static AclBinding rule(AclPermissionType type, String principal, AclOperation op, ResourceType kind, String name, PatternType pattern) {
        return new AclBinding(new ResourcePattern(kind, name, pattern), new AccessControlEntry(principal, "*", op, type));
    }

    private static void allow(Admin root, String principal, AclOperation op, ResourceType kind, String name, PatternType pattern) throws Exception {
        get(root.createAcls(List.of(rule(AclPermissionType.ALLOW, principal, op, kind, name, pattern))).all());
    }

    private static Throwable produced(Properties p, String topic, String value) throws Exception {
        try (Producer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, value)).get(Check.LIMIT.toMillis(), TimeUnit.MILLISECONDS);
            return null;
        } catch (ExecutionException e) {
            return e.getCause();
        }
    }

    private void whoMayWrite(Admin root) throws Exception {
        step("only who may write writes");
        Throwable no = produced(bob(), topic, "one");
        that(no instanceof TopicAuthorizationException e && e.unauthorizedTopics().equals(Set.of(topic)), "a record of who may not write: " + no);
        allow(root, BOB, AclOperation.WRITE, ResourceType.TOPIC, topic, PatternType.LITERAL);
        equal(null, produced(bob(), topic, "one"), "a record of who may");
        try (Admin a = Admin.create(bob())) {
            DescribeTopicsOptions rights = new DescribeTopicsOptions().includeAuthorizedOperations(true);
            equal(Set.of(AclOperation.WRITE, AclOperation.DESCRIBE), get(a.describeTopics(List.of(topic), rights).allTopicNames()).get(topic).authorizedOperations(),
                "what bob may do to the topic");
            fails(ClusterAuthorizationException.class, createdBy(a), "a rule that bob makes");
        }
    }

    private static KafkaFuture<Void> createdBy(Admin a) {
        return a.createAcls(List.of(rule(AclPermissionType.ALLOW, BOB, AclOperation.ALL, ResourceType.TOPIC, "*", PatternType.LITERAL))).all();
    }

    private Consumer<String, String> reader(String group) {
        Properties p = alice("group.id", group, "auto.offset.reset", "earliest");
        Consumer<String, String> c = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
        c.subscribe(List.of(topic));
        return c;
    }

    private interface Polls {
        ConsumerRecords<String, String> poll() throws Exception;
    }

    private static List<String> values(Polls polls) throws Exception {
        List<String> got = new ArrayList<>();
        return Check.eventually("a record", () -> {
            polls.poll().forEach(r -> got.add(r.value()));
            return got;
        }, all -> !all.isEmpty());
    }

    private static void refused(Class<? extends Exception> want, Polls polls, String what) throws Exception {
        Check.eventually(what, () -> {
            try {
                polls.poll();
                return null;
            } catch (Exception e) {
                return e;
            }
        }, want::isInstance);
    }

    private void whoMayRead(Admin root) throws Exception {
        step("only who may read reads, in a group that it may be in");
        try (Consumer<String, String> c = reader(ours + "-ordinary")) {
            refused(GroupAuthorizationException.class, () -> c.poll(Check.POLL), "a group that alice may not be in");
        }
        allow(root, ALICE, AclOperation.READ, ResourceType.GROUP, ours, PatternType.PREFIXED);
        allow(root, ALICE, AclOperation.READ, ResourceType.TOPIC, topic, PatternType.LITERAL);
        try (Consumer<String, String> c = reader(ours + "-ordinary")) {
            equal(List.of("one"), values(() -> c.poll(Check.POLL)), "values");
        }
    }

    private void whoMayShare(Admin root) throws Exception {
        step("a share group needs the same");
        plain.alterGroup(root, ours + "-share", Map.of("share.auto.offset.reset", "earliest"));
        Properties p = alice("group.id", ours + "-share");
        try (ShareConsumer<String, String> c = new KafkaShareConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            c.subscribe(List.of(topic));
            equal(List.of("one"), values(() -> c.poll(Check.POLL)), "values");
        }
        Properties other = alice("group.id", Check.unique("strangers"));
        try (ShareConsumer<String, String> c = new KafkaShareConsumer<>(other, new StringDeserializer(), new StringDeserializer())) {
            c.subscribe(List.of(topic));
            refused(GroupAuthorizationException.class, () -> c.poll(Check.POLL), "a share group that alice may not be in");
        }
    }

    private void denialWins(Admin root) throws Exception {
        step("a rule that denies wins");
        AclBinding no = rule(AclPermissionType.DENY, ALICE, AclOperation.READ, ResourceType.TOPIC, topic, PatternType.LITERAL);
        get(root.createAcls(List.of(no)).all());
        try (Consumer<String, String> c = reader(ours + "-denied")) {
            refused(TopicAuthorizationException.class, () -> c.poll(Check.POLL), "a topic that is denied");
        }
        equal(List.of(no), List.copyOf(get(root.deleteAcls(List.of(no.toFilter())).all())), "rules that were removed");
    }
}
