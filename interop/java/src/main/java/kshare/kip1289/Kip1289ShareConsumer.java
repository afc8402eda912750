package kshare.kip1289;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.internals.Acknowledgements;
import org.apache.kafka.clients.consumer.internals.ConsumerNetworkThread;
import org.apache.kafka.clients.consumer.internals.MemberStateListener;
import org.apache.kafka.clients.consumer.internals.NodeAcknowledgements;
import org.apache.kafka.clients.consumer.internals.RequestManagers;
import org.apache.kafka.clients.consumer.internals.ShareAcknowledgementMode;
import org.apache.kafka.clients.consumer.internals.ShareConsumerImpl;
import org.apache.kafka.clients.consumer.internals.ShareFetch;
import org.apache.kafka.clients.consumer.internals.ShareMembershipManager;
import org.apache.kafka.clients.consumer.internals.events.ApplicationEventHandler;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.Deserializer;

/** Kafka's share consumer with what KIP-1289 adds to it. share.acknowledgement.mode has to be explicit. */
public final class Kip1289ShareConsumer<K, V> extends KafkaShareConsumer<K, V> {
    private final Object impl = Internals.get(KafkaShareConsumer.class, this, "delegate");
    private final String groupId = Internals.get(ShareConsumerImpl.class, impl, "groupId");
    private volatile ShareGroupMetadata metadata;

    public Kip1289ShareConsumer(Properties configs, Deserializer<K> key, Deserializer<V> value) {
        super(configs, key, value);
        // The epoch belongs to the consumer's network thread, which tells listeners of it. That thread has made its managers before super returns, and no
        // epoch comes before the consumer subscribes.
        Object network = Internals.get(ApplicationEventHandler.class, Internals.get(ShareConsumerImpl.class, impl, "applicationEventHandler"), "networkThread");
        Optional<ShareMembershipManager> member =
            Internals.get(RequestManagers.class, Internals.get(ConsumerNetworkThread.class, network, "requestManagers"), "shareMembershipManager");
        note(member.orElseThrow().memberId(), 0);
        member.get().registerStateListener((MemberStateListener) (epoch, memberId) -> note(memberId, epoch.orElse(0)));
    }

    private void note(String memberId, int memberEpoch) {
        metadata = new ShareGroupMetadata(groupId, memberId, memberEpoch);
    }

    /** Who the consumer is in its group now. The epoch is 0 while it is no member. */
    public ShareGroupMetadata shareGroupMetadata() {
        return metadata;
    }

    /**
     * Takes what was acknowledged and not sent yet, for a transaction to decide. The consumer lets go of these records: it neither acknowledges them nor waits for
     * them at the next poll. If the transaction never has them they come again when their lock ends.
     *
     * <p>RELEASE and RENEW cannot be part of a transaction, and are sent at once as commitAsync sends them.
     */
    public Map<TopicIdPartition, List<AcknowledgementBatch>> acknowledgementsForTransaction() {
        if (Internals.get(ShareConsumerImpl.class, impl, "acknowledgementMode") != ShareAcknowledgementMode.EXPLICIT) {
            throw new IllegalStateException("share.acknowledgement.mode has to be explicit for acknowledgements in transactions");
        }
        Map<TopicIdPartition, List<AcknowledgementBatch>> taken = new HashMap<>();
        Map<TopicIdPartition, NodeAcknowledgements> others = new HashMap<>();
        ShareFetch<K, V> fetch = Internals.get(ShareConsumerImpl.class, impl, "currentFetch");
        fetch.takeAcknowledgedRecords().forEach((partition, all) -> {
            TreeMap<Long, AcknowledgeType> decided = new TreeMap<>(all.acknowledgements().getAcknowledgementsTypeMap());
            Acknowledgements other = Acknowledgements.empty();
            decided.entrySet().removeIf(e -> {
                boolean out = e.getValue() == AcknowledgeType.RELEASE || e.getValue() == AcknowledgeType.RENEW;
                if (out) {
                    other.add(e.getKey(), e.getValue());
                }
                return out;
            });
            if (!decided.isEmpty()) {
                taken.put(partition, AcknowledgementBatch.of(decided));
            }
            if (!other.isEmpty()) {
                others.put(partition, new NodeAcknowledgements(all.nodeId(), other));
            }
        });
        if (!others.isEmpty()) {
            Internals.call(impl, "sendShareAcknowledgeAsyncEvent", Map.class, others);
        }
        return taken;
    }
}
