package kshare.kip1289;

import java.io.IOException;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.NodeApiVersions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.internals.Sender;
import org.apache.kafka.clients.producer.internals.TransactionManager;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiVersionsResponseData.ApiVersion;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Time;

/** Kafka's producer with what KIP-1289 adds to it. */
public final class Kip1289Producer<K, V> extends KafkaProducer<K, V> {
    private final TransactionManager transactions = Internals.get(KafkaProducer.class, this, "transactionManager"); // null without idempotence
    private final Metadata metadata = Internals.get(KafkaProducer.class, this, "metadata");
    private final Sender sender = Internals.get(KafkaProducer.class, this, "sender");
    private final ProducerConfig config = Internals.get(KafkaProducer.class, this, "producerConfig");
    private final Connections connections = new Connections(config);
    private int correlationId;

    public Kip1289Producer(Properties configs, Serializer<K> key, Serializer<V> value) {
        super(configs, key, value);
    }

    /**
     * Makes acknowledgements part of the transaction: a commit has them take effect, an abort gives the records back. There is one TxnShareAcknowledge for each
     * partition, to the partition's leader; the first error decides. Nothing is sent for no acknowledgements. It may be called more than once in a transaction,
     * and for several members. It blocks up to max.block.ms, after which abortTransaction is all that is left.
     *
     * @throws IllegalStateException outside of a transaction
     * @throws UnsupportedVersionException where the brokers do not have the request, or transaction.version is below 2
     * @throws CommitFailedException where the group does not know the member, or not with that epoch
     * @throws KafkaException otherwise; what {@link ErrorClass} calls fatal is thrown by abortTransaction again
     */
    public synchronized void sendShareAcknowledgementsToTransaction(Map<TopicIdPartition, List<AcknowledgementBatch>> acknowledgements, ShareGroupMetadata group) {
        if (transactions == null || !transactions.isTransactional()) {
            throw new IllegalStateException("acknowledgements need a producer with a transactional.id");
        }
        requireVersions();
        long deadline = Time.SYSTEM.milliseconds() + config.getLong(ProducerConfig.MAX_BLOCK_MS_CONFIG);
        acknowledgements.entrySet().stream()
            .filter(e -> !e.getValue().isEmpty())
            .sorted(Map.Entry.comparingByKey(Comparator.comparing(TopicIdPartition::topic).thenComparing(TopicIdPartition::partition)))
            .forEach(e -> {
                // It throws what belongs to the state: outside of a transaction, after an error. Of its partitions the client's transaction only keeps whether there
                // are any: without one it would send no EndTxn, and what is staged would wait for it until another producer begins with the transactional id.
                transactions.maybeAddPartition(e.getKey().topicPartition());
                stage(e.getKey(), e.getValue(), group, deadline);
            });
    }

    private void stage(TopicIdPartition of, List<AcknowledgementBatch> batches, ShareGroupMetadata group, long deadline) {
        while (true) {
            TxnShareAcknowledge.Answer answer = ask(of, batches, group, deadline);
            if (answer.error() == Errors.NONE) {
                return;
            }
            String what = "TxnShareAcknowledge for " + of + ": " + answer.error() + (answer.message() == null ? "" : ": " + answer.message());
            switch (ErrorClass.of(answer.error())) {
                case ABORTABLE -> throw abortable(switch (answer.error()) {
                    case UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH -> new CommitFailedException(what);
                    default -> answer.error().exception(what);
                });
                case FATAL -> throw fatal(switch (answer.error()) {
                    case INVALID_PRODUCER_EPOCH, PRODUCER_FENCED -> new ProducerFencedException(what);
                    default -> new KafkaException(what, answer.error().exception());
                });
                case RETRIABLE -> {
                    if (Time.SYSTEM.milliseconds() >= deadline) {
                        throw abortable(new TimeoutException(what));
                    }
                    // The leader may be another one. The broker takes the same acknowledgements twice.
                    metadata.requestUpdate(false);
                    sender.wakeup();
                    pause(config.getLong(ProducerConfig.RETRY_BACKOFF_MS_CONFIG));
                }
            }
        }
    }

    private TxnShareAcknowledge.Answer ask(TopicIdPartition of, List<AcknowledgementBatch> batches, ShareGroupMetadata group, long deadline) {
        Node leader;
        try {
            leader = partitionsFor(of.topic()).stream().filter(p -> p.partition() == of.partition()).map(PartitionInfo::leader).findAny().orElse(null);
        } catch (KafkaException e) {
            throw abortable(e); // else a commit would take what was staged of other partitions alone
        }
        if (leader == null || leader.isEmpty()) {
            return new TxnShareAcknowledge.Answer(Errors.LEADER_NOT_AVAILABLE, null);
        }
        long left = Math.min(deadline - Time.SYSTEM.milliseconds(), config.getInt(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG));
        int id = ++correlationId;
        try {
            return TxnShareAcknowledge.answer(id, connections.ask(leader, TxnShareAcknowledge.request(id, config.getString(ProducerConfig.CLIENT_ID_CONFIG),
                transactions.transactionalId(), Internals.get(TransactionManager.class, transactions, "producerIdAndEpoch"), group, of, batches), left));
        } catch (IOException e) {
            return new TxnShareAcknowledge.Answer(Errors.NETWORK_EXCEPTION, e.getMessage());
        }
    }

    /** What the brokers offer is what those told the producer that it is connected with; its transaction coordinator is one of them. */
    private void requireVersions() {
        ApiVersions versions = Internals.get(KafkaProducer.class, this, "apiVersions");
        boolean offered;
        synchronized (versions) {
            Map<String, NodeApiVersions> nodes = Internals.get(ApiVersions.class, versions, "nodeApiVersions");
            offered = nodes.values().stream().anyMatch(n -> {
                List<ApiVersion> unknown = Internals.get(NodeApiVersions.class, n, "unknownApis"); // to this client
                return unknown.stream().anyMatch(a -> a.apiKey() == TxnShareAcknowledge.KEY);
            });
        }
        if (!offered || !transactions.isTransactionV2Enabled()) {
            throw new UnsupportedVersionException("the brokers do not have what KIP-1289 needs: API key " + TxnShareAcknowledge.KEY + " and transaction.version 2");
        }
    }

    private RuntimeException abortable(RuntimeException e) {
        Internals.call(transactions, "transitionToAbortableError", RuntimeException.class, e);
        return e;
    }

    private RuntimeException fatal(RuntimeException e) {
        Internals.call(transactions, "transitionToFatalError", RuntimeException.class, e);
        return e;
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new InterruptException(e);
        }
    }

    /** Closes the connections of acknowledgements as well. */
    @Override
    public void close(Duration timeout) {
        super.close(timeout);
        connections.close();
    }
}
