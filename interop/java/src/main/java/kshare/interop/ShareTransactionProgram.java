package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.get;
import static kshare.interop.Check.step;
import static kshare.interop.Check.that;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import kshare.control.KshareControl;
import kshare.kip1289.AcknowledgementBatch;
import kshare.kip1289.ErrorClass;
import kshare.kip1289.Internals;
import kshare.kip1289.Kip1289Producer;
import kshare.kip1289.Kip1289ShareConsumer;
import kshare.kip1289.ShareGroupMetadata;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.internals.ShareConsumerImpl;
import org.apache.kafka.clients.consumer.internals.events.ApplicationEventHandler;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.clients.producer.internals.Sender;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidRecordStateException;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Acknowledgements in transactions (KIP-1289) by Kafka's own clients, against kshares of its own: the argument is their binary. */
public final class ShareTransactionProgram {
    private static final String ORDERS = "orders";
    private static final String INVOICES = "invoices";
    private static final String GROUP = "workers";
    private static final int PARTITIONS = 3;
    private static final int WORKERS = 4;
    private static final int RECORDS = 200;
    private static final int LOCK_MS = 3000;
    private static final Duration PATIENCE = Duration.ofSeconds(100);

    private final KshareControl kshare;
    private final Clients clients;

    private ShareTransactionProgram(KshareControl kshare) {
        this.kshare = kshare;
        this.clients = new Clients(kshare.bootstrap());
    }

    public static void main(String[] args) {
        Check.main("java transactions of acknowledgements", () -> {
            try (KshareControl kshare = KshareControl.start(args[0], "--kip1289", "--topic", ORDERS + ":1",
                    "--config", "group.share.min.record.lock.duration.ms=1000")) {
                ShareTransactionProgram p = new ShareTransactionProgram(kshare);
                p.acknowledgementsAlone();
                p.lockEnded();
                p.wrongMember();
                p.release();
                p.releaseInTransaction();
                p.crashed();
                p.outsideOfTransactions();
                p.errors();
            }
            try (KshareControl kshare = KshareControl.start(args[0], "--topic", ORDERS + ":1")) {
                new ShareTransactionProgram(kshare).notOffered();
            }
            try (KshareControl kshare = KshareControl.start(args[0], "--kip1289", "--brokers", "3", "--topic", ORDERS + ":" + PARTITIONS,
                    "--topic", INVOICES + ":" + PARTITIONS,
                    "--config", "group.share.min.record.lock.duration.ms=1000", "--config", "group.share.record.lock.duration.ms=" + LOCK_MS,
                    "--config", "group.share.min.session.timeout.ms=1000", "--config", "group.share.session.timeout.ms=3000",
                    "--config", "group.share.min.heartbeat.interval.ms=500", "--config", "group.share.heartbeat.interval.ms=500",
                    "--config", "group.share.delivery.count.limit=10")) {
                new ShareTransactionProgram(kshare).exactlyOnce();
            }
        });
    }

    private Kip1289Producer<String, String> producer(String transactionalId) {
        Kip1289Producer<String, String> p = new Kip1289Producer<>(clients.properties("transactional.id", transactionalId, "enable.metrics.push", "false",
            "retry.backoff.ms", "10", "retry.backoff.max.ms", "10"), new StringSerializer(), new StringSerializer());
        p.initTransactions();
        return p;
    }

    private Kip1289ShareConsumer<String, String> consumer(String... overrides) {
        List<String> all = new ArrayList<>(List.of("group.id", GROUP, "share.acknowledgement.mode", "explicit", "max.poll.records", "5",
            "share.acquire.mode", "record_limit"));
        all.addAll(List.of(overrides));
        Kip1289ShareConsumer<String, String> c =
            new Kip1289ShareConsumer<>(clients.properties(all.toArray(String[]::new)), new StringDeserializer(), new StringDeserializer());
        c.subscribe(List.of(ORDERS));
        return c;
    }

    private static List<ConsumerRecord<String, String>> poll(Kip1289ShareConsumer<String, String> c) {
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        c.poll(Check.POLL).forEach(got::add);
        return got;
    }

    /** Leaves a single order. */
    private void order() throws Exception {
        kshare.reset();
        kshare.run("config group " + GROUP + " share.auto.offset.reset=earliest\n");
        produce(1, 1);
    }

    /** Produces orders, which are as old as they are: those of {@link Clients#produce} are past their retention. */
    private void produce(int partitions, int n) throws Exception {
        try (Producer<String, String> p = clients.producer()) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < n; i++) {
                sent.add(p.send(new ProducerRecord<>(ORDERS, i % partitions, null, Integer.toString(i))));
            }
            p.flush();
            for (Future<RecordMetadata> f : sent) {
                f.get();
            }
        }
    }

    /** Polls the order, which is delivered for the n-th time, and accepts it. */
    private static Map<TopicIdPartition, List<AcknowledgementBatch>> accepted(Kip1289ShareConsumer<String, String> c, int delivery) throws Exception {
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        Check.eventually("the order", () -> {
            got.addAll(poll(c));
            return got.size();
        }, n -> n == 1);
        equal(Optional.of((short) delivery), got.get(0).deliveryCount(), "delivery");
        c.acknowledge(got.get(0));
        Map<TopicIdPartition, List<AcknowledgementBatch>> acks = c.acknowledgementsForTransaction();
        long offset = got.get(0).offset();
        equal(List.of(List.of(new AcknowledgementBatch(offset, offset, List.of((byte) 1)))), List.copyOf(acks.values()), "acknowledgements");
        return acks;
    }

    /** The state of the first record in flight; with none in flight, that of the last records that were. */
    private String state() throws Exception {
        return KshareControl.field(kshare.sharePartition(GROUP, ORDERS, 0), "state");
    }

    private static <T extends Exception> T fails(Class<T> want, Check.Body body, String what) {
        try {
            body.run();
        } catch (Exception e) {
            that(want.isInstance(e), what + ": want " + want.getSimpleName() + ", got " + e);
            return want.cast(e);
        }
        throw new AssertionError(what + ": want " + want.getSimpleName() + ", got nothing");
    }

    /** Commits acknowledgements, which shows that the producer can go on. */
    private void commits(Kip1289Producer<String, String> p, Map<TopicIdPartition, List<AcknowledgementBatch>> acks, ShareGroupMetadata member) throws Exception {
        p.beginTransaction();
        p.sendShareAcknowledgementsToTransaction(acks, member);
        equal("TX_PENDING", state(), "state before the commit");
        p.commitTransaction();
        Check.eventually("state after the commit", this::state, "ACKNOWLEDGED"::equals);
    }

    private void acknowledgementsAlone() throws Exception {
        step("acknowledgements alone are a transaction: aborted, then committed");
        order();
        try (Kip1289ShareConsumer<String, String> c = consumer(); Kip1289Producer<String, String> p = producer("alone")) {
            Map<TopicIdPartition, List<AcknowledgementBatch>> acks = accepted(c, 1);
            p.beginTransaction();
            p.sendShareAcknowledgementsToTransaction(acks, c.shareGroupMetadata());
            equal("TX_PENDING", state(), "state");
            p.sendShareAcknowledgementsToTransaction(acks, c.shareGroupMetadata()); // the broker takes the same twice
            equal(0, poll(c).size(), "the consumer misses no acknowledgement, and gets nothing");
            p.abortTransaction();
            commits(p, accepted(c, 2), c.shareGroupMetadata());
            p.beginTransaction();
            p.sendShareAcknowledgementsToTransaction(Map.of(), c.shareGroupMetadata());
            p.commitTransaction();
        }
    }

    private void lockEnded() throws Exception {
        step("a lock that has ended is abortable");
        order();
        kshare.run("config group " + GROUP + " share.record.lock.duration.ms=1000\n");
        // The consumer fetches ahead. A fetch that waits would bring the record to the same member again, whose late acknowledgement is then taken for the second
        // delivery: the protocol cannot tell.
        kshare.addFault("api=ShareFetch client=slow nth=2 hold name=ahead");
        try (Kip1289ShareConsumer<String, String> c = consumer("client.id", "slow"); Kip1289Producer<String, String> p = producer("slow")) {
            Map<TopicIdPartition, List<AcknowledgementBatch>> late = accepted(c, 1);
            Check.eventually("the end of the lock", this::state, "AVAILABLE"::equals);
            p.beginTransaction();
            fails(InvalidRecordStateException.class, () -> p.sendShareAcknowledgementsToTransaction(late, c.shareGroupMetadata()), "late");
            fails(KafkaException.class, p::commitTransaction, "commit");
            fails(KafkaException.class, () -> p.sendShareAcknowledgementsToTransaction(late, c.shareGroupMetadata()), "again");
            p.abortTransaction();
            kshare.run("config group " + GROUP + " share.record.lock.duration.ms=30000\n");
            kshare.delete("/v1/faults");
            commits(p, accepted(c, 2), c.shareGroupMetadata());
        }
    }

    private void wrongMember() throws Exception {
        step("a wrong member epoch and an unknown member are abortable");
        order();
        try (Kip1289ShareConsumer<String, String> c = consumer(); Kip1289Producer<String, String> p = producer("stranger")) {
            Map<TopicIdPartition, List<AcknowledgementBatch>> acks = accepted(c, 1);
            ShareGroupMetadata member = c.shareGroupMetadata();
            that(member.memberEpoch() > 0, "the epoch of a member: " + member);
            p.beginTransaction();
            fails(CommitFailedException.class, () -> p.sendShareAcknowledgementsToTransaction(acks,
                new ShareGroupMetadata(GROUP, member.memberId(), member.memberEpoch() + 5)), "wrong epoch");
            p.abortTransaction();
            p.beginTransaction();
            fails(CommitFailedException.class, () -> p.sendShareAcknowledgementsToTransaction(acks,
                new ShareGroupMetadata(GROUP, "somebody", member.memberEpoch())), "unknown member");
            p.abortTransaction();
            commits(p, acks, member);
        }
    }

    private void release() throws Exception {
        step("a release is left to the consumer");
        order();
        try (Kip1289ShareConsumer<String, String> c = consumer(); Kip1289Producer<String, String> p = producer("releasing")) {
            List<ConsumerRecord<String, String>> got = new ArrayList<>();
            Check.eventually("the order", () -> {
                got.addAll(poll(c));
                return got.size();
            }, n -> n == 1);
            c.acknowledge(got.get(0), AcknowledgeType.RELEASE);
            equal(Map.of(), c.acknowledgementsForTransaction(), "acknowledgements");
            commits(p, accepted(c, 2), c.shareGroupMetadata());
        }
    }

    private void releaseInTransaction() throws Exception {
        step("a release in a transaction is fatal");
        order();
        try (Kip1289ShareConsumer<String, String> c = consumer(); Kip1289Producer<String, String> p = producer("wrong")) {
            Map<TopicIdPartition, List<AcknowledgementBatch>> acks = accepted(c, 1);
            p.beginTransaction();
            KafkaException e = fails(KafkaException.class, () -> p.sendShareAcknowledgementsToTransaction(
                Map.of(acks.keySet().iterator().next(), List.of(new AcknowledgementBatch(0, 0, List.of(AcknowledgeType.RELEASE.id)))), c.shareGroupMetadata()), "release");
            that(e.getCause() instanceof InvalidRequestException, "cause: " + e.getCause());
            fails(KafkaException.class, p::abortTransaction, "abort");
            try (Kip1289Producer<String, String> next = producer("wrong")) {
                commits(next, acks, c.shareGroupMetadata());
            }
        }
    }

    private void crashed() throws Exception {
        step("what a crashed worker has staged waits for its successor");
        order();
        Kip1289ShareConsumer<String, String> gone = consumer();
        Kip1289Producer<String, String> dead = producer("mortal");
        Map<TopicIdPartition, List<AcknowledgementBatch>> acks = accepted(gone, 1);
        dead.beginTransaction();
        dead.sendShareAcknowledgementsToTransaction(acks, gone.shareGroupMetadata());
        crash(gone, dead);
        equal("TX_PENDING", state(), "state");
        try (Kip1289ShareConsumer<String, String> c = consumer(); Kip1289Producer<String, String> p = producer("mortal")) {
            commits(p, accepted(c, 2), c.shareGroupMetadata());
        }
    }

    private void outsideOfTransactions() throws Exception {
        step("outside of a transaction nothing is sent");
        order();
        try (Kip1289ShareConsumer<String, String> c = consumer(); Kip1289Producer<String, String> p = producer("idle");
                Kip1289Producer<String, String> plain = new Kip1289Producer<>(clients.properties(), new StringSerializer(), new StringSerializer())) {
            Map<TopicIdPartition, List<AcknowledgementBatch>> acks = accepted(c, 1);
            fails(IllegalStateException.class, () -> p.sendShareAcknowledgementsToTransaction(acks, c.shareGroupMetadata()), "outside");
            fails(IllegalStateException.class, () -> plain.sendShareAcknowledgementsToTransaction(acks, c.shareGroupMetadata()), "no transactional id");
            equal("ACQUIRED", state(), "state");
            commits(p, acks, c.shareGroupMetadata());
        }
    }

    private void notOffered() throws Exception {
        step("brokers without the KIP");
        try (Kip1289Producer<String, String> p = producer("early")) {
            p.beginTransaction();
            fails(UnsupportedVersionException.class, () -> p.sendShareAcknowledgementsToTransaction(Map.of(), new ShareGroupMetadata(GROUP, "m", 1)), "no such request");
            p.abortTransaction();
        }
    }

    private void errors() throws Exception {
        step("an answer's error is retried, abortable or fatal as its class says");
        order();
        Set<Errors> told = Arrays.stream(Errors.values()).filter(e -> e != Errors.NONE && ErrorClass.of(e) != ErrorClass.FATAL)
            .collect(Collectors.toCollection(() -> EnumSet.noneOf(Errors.class)));
        equal(15, told.size(), "errors that are not fatal");
        told.addAll(List.of(Errors.UNKNOWN_SERVER_ERROR, Errors.INVALID_REQUEST, Errors.INVALID_PRODUCER_EPOCH, Errors.INVALID_TXN_STATE,
            Errors.FENCED_MEMBER_EPOCH, Errors.FENCED_LEADER_EPOCH, Errors.TOPIC_AUTHORIZATION_FAILED));
        Kip1289Producer<String, String> p = producer("tester");
        try (Kip1289ShareConsumer<String, String> c = consumer()) {
            for (Errors error : told) {
                Map<TopicIdPartition, List<AcknowledgementBatch>> acks = accepted(c, 1);
                p.partitionsFor(ORDERS); // so that the client's next request is the one that is answered like this
                kshare.addFault("client=producer-tester times=1 hex=00000000" + HexFormat.of().toHexDigits(error.code()) + "0100");
                p.beginTransaction();
                ErrorClass got;
                try {
                    p.sendShareAcknowledgementsToTransaction(acks, c.shareGroupMetadata());
                    got = ErrorClass.RETRIABLE;
                    p.commitTransaction();
                } catch (KafkaException e) {
                    try {
                        p.abortTransaction();
                        got = ErrorClass.ABORTABLE;
                    } catch (KafkaException fatal) {
                        got = ErrorClass.FATAL;
                        p.close();
                        p = producer("tester");
                    }
                    commits(p, accepted(c, 2), c.shareGroupMetadata());
                }
                equal(ErrorClass.of(error), got, "class of " + error);
                equal("1", KshareControl.field(kshare.get("/v1/faults"), "acts"), "answers that were made up");
                kshare.delete("/v1/faults");
                produce(1, 1);
            }
        } finally {
            p.close();
        }
    }

    /** Ends clients as the end of their process would: connections close, nothing is aborted and nobody leaves. */
    private static void crash(Kip1289ShareConsumer<String, String> consumer, Kip1289Producer<String, String> producer) {
        Internals.<Sender>get(KafkaProducer.class, producer, "sender").forceClose();
        producer.close(Duration.ZERO);
        Object impl = Internals.get(KafkaShareConsumer.class, consumer, "delegate");
        Internals.<ApplicationEventHandler>get(ShareConsumerImpl.class, impl, "applicationEventHandler").close(Duration.ZERO);
    }

    /** What befalls a worker with what it has polled. */
    private enum Fate { NOTHING, ABORT, LOCK_ENDS, CRASH_BEFORE_STAGING, CRASH_STAGED, CRASH_COMMITTING }

    private static final class Crashed extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    private final Map<Fate, AtomicInteger> fates =
        Arrays.stream(Fate.values()).collect(Collectors.toMap(f -> f, f -> new AtomicInteger(), (a, b) -> a, () -> new EnumMap<>(Fate.class)));
    private final AtomicInteger aborted = new AtomicInteger();
    private final AtomicInteger fatal = new AtomicInteger();
    private final List<Fate> deck = new ArrayList<>();
    private final Random random = new Random(1);
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private volatile boolean done;

    /** Deals each fate before it deals any again, so that a run meets all of them, and none to a record that would be archived in the end. */
    private synchronized Fate deal(List<ConsumerRecord<String, String>> records) {
        if (records.stream().anyMatch(r -> r.deliveryCount().orElseThrow() > 4)) {
            return Fate.NOTHING;
        }
        if (deck.isEmpty()) {
            deck.addAll(List.of(Fate.values()));
            deck.addAll(Collections.nCopies(5, Fate.NOTHING));
            Collections.shuffle(deck, random);
        }
        return deck.remove(0);
    }

    /** Reads orders and writes an invoice for each. What it writes and that it has read take effect together. */
    private final class Worker {
        private final String id;
        private Kip1289ShareConsumer<String, String> consumer;
        private Kip1289Producer<String, String> producer;
        private Future<?> committing;

        Worker(String id) {
            this.id = id;
        }

        private void work() throws Exception {
            while (!done) {
                List<ConsumerRecord<String, String>> records = poll(consumer);
                if (records.isEmpty()) {
                    continue;
                }
                Fate fate = deal(records);
                // Taken before anything can fail: what is acknowledged and not taken the next poll would accept, whatever became of the transaction.
                records.forEach(consumer::acknowledge);
                Map<TopicIdPartition, List<AcknowledgementBatch>> acks = consumer.acknowledgementsForTransaction();
                producer.beginTransaction();
                try {
                    for (ConsumerRecord<String, String> r : records) {
                        producer.send(new ProducerRecord<>(INVOICES, "invoice for " + r.value()));
                    }
                    befallBeforeStaging(fate);
                    producer.sendShareAcknowledgementsToTransaction(acks, consumer.shareGroupMetadata());
                    befallStaged(fate);
                    producer.commitTransaction();
                } catch (KafkaException e) {
                    producer.abortTransaction(); // the records come again. After a fatal error it throws: the producer is of no more use
                    aborted.incrementAndGet();
                }
            }
        }

        private void befallBeforeStaging(Fate fate) throws Exception {
            fates.get(fate).incrementAndGet();
            switch (fate) {
                case LOCK_ENDS -> Thread.sleep(LOCK_MS + 500);
                case CRASH_BEFORE_STAGING -> throw new Crashed();
                default -> { }
            }
        }

        private void befallStaged(Fate fate) throws Exception {
            switch (fate) {
                case ABORT -> throw new KafkaException("the worker has changed its mind");
                case CRASH_STAGED -> throw new Crashed();
                case CRASH_COMMITTING -> {
                    committing = threads.submit(producer::commitTransaction);
                    TimeUnit.MICROSECONDS.sleep(random.nextInt(3000));
                    throw new Crashed();
                }
                default -> { }
            }
        }

        Void run() throws Exception {
            while (!done) {
                open();
                try {
                    work();
                } catch (Crashed e) {
                    crash(consumer, producer);
                    if (committing != null) {
                        try {
                            committing.get(Check.LIMIT.toMillis(), TimeUnit.MILLISECONDS);
                        } catch (ExecutionException e2) {
                            // It ended with its producer.
                        }
                    }
                    consumer = null;
                    producer = null;
                    committing = null;
                } catch (KafkaException e) {
                    fatal.incrementAndGet();
                    producer.close(Duration.ZERO);
                    producer = null;
                }
            }
            open(); // which aborts what the last crash has left
            producer.close();
            consumer.close();
            return null;
        }

        private void open() {
            if (consumer == null) {
                consumer = consumer();
            }
            if (producer == null) {
                producer = producer(id);
            }
        }
    }

    private void exactlyOnce() throws Exception {
        step(WORKERS + " workers, of which some abort, let locks end and crash: every order has one invoice");
        kshare.run("config group " + GROUP + " share.auto.offset.reset=earliest\n");
        produce(PARTITIONS, RECORDS);
        List<Future<Void>> workers = IntStream.range(0, WORKERS).mapToObj(i -> threads.submit(new Worker("worker-" + i)::run)).toList();
        try (Consumer<String, String> c = clients.consumer("isolation.level", "read_committed")) {
            List<TopicPartition> partitions = IntStream.range(0, PARTITIONS).mapToObj(i -> new TopicPartition(INVOICES, i)).toList();
            c.assign(partitions);
            c.seekToBeginning(partitions);
            List<String> invoices = new ArrayList<>();
            Set<String> distinct = new HashSet<>();
            long end = System.nanoTime() + PATIENCE.toNanos();
            while (distinct.size() < RECORDS) {
                that(System.nanoTime() < end, distinct.size() + " of " + RECORDS + " orders have invoices after " + PATIENCE);
                for (Future<Void> w : workers) {
                    if (w.isDone()) {
                        w.get(); // it has failed
                    }
                }
                c.poll(Check.POLL).forEach(r -> {
                    invoices.add(r.value());
                    distinct.add(r.value());
                });
            }
            done = true;
            for (Future<Void> w : workers) {
                w.get(Check.LIMIT.toMillis(), TimeUnit.MILLISECONDS);
            }
            // No transaction is open any more: what read_committed shows from here to the end is all there will be.
            Map<TopicPartition, Long> ends = c.endOffsets(partitions);
            Check.eventually("the end of the invoices", () -> {
                c.poll(Check.POLL).forEach(r -> invoices.add(r.value()));
                return partitions.stream().allMatch(p -> c.position(p) >= ends.get(p));
            }, ok -> ok);
            Collections.sort(invoices);
            equal(IntStream.range(0, RECORDS).mapToObj(i -> "invoice for " + i).sorted().toList(), invoices, "invoices");
        }
        try (Admin admin = clients.admin()) {
            Check.eventually("no lag", () -> get(admin.listShareGroupOffsets(Map.of(GROUP, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(GROUP))
                .values().stream().filter(o -> o != null && o.lag().equals(Optional.of(0L))).count(), n -> n == PARTITIONS);
        }
        System.out.println("  " + fates + ", " + aborted + " transactions aborted, " + fatal + " fatal errors");
        fates.forEach((fate, n) -> that(n.get() > 0, fate + " has befallen nobody"));
        that(aborted.get() > 0, "no transaction was aborted");
    }
}
