package kshare.kip1289;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.types.CompactArrayOf;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Field.TaggedFieldsSection;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.utils.internals.ProducerIdAndEpoch;

/** TxnShareAcknowledge version 0 of the draft on the wire. ApiKeys is an enum that does not have it, so that no AbstractRequest can be made of it. */
public final class TxnShareAcknowledge {
    /** The API key in the latest draft; no number is given to it yet. */
    public static final short KEY = 95;

    private static final String TAGS = "_tagged_fields";

    private static final Schema BATCH = struct(new Field("first_offset", Type.INT64), new Field("last_offset", Type.INT64),
        new Field("acknowledge_types", new CompactArrayOf(Type.INT8)));
    private static final Schema PARTITION = struct(new Field("partition_index", Type.INT32), new Field("acknowledgement_batches", new CompactArrayOf(BATCH)));
    private static final Schema TOPIC = struct(new Field("topic_id", Type.UUID), new Field("partitions", new CompactArrayOf(PARTITION)));
    private static final Schema REQUEST = struct(new Field("transactional_id", Type.COMPACT_NULLABLE_STRING), new Field("group_id", Type.COMPACT_STRING),
        new Field("producer_id", Type.INT64), new Field("producer_epoch", Type.INT16), new Field("member_id", Type.COMPACT_STRING),
        new Field("member_epoch", Type.INT32), new Field("topics", new CompactArrayOf(TOPIC)));

    private static final Schema PARTITION_ANSWER = struct(new Field("partition_index", Type.INT32), new Field("error_code", Type.INT16),
        new Field("error_message", Type.COMPACT_NULLABLE_STRING));
    private static final Schema TOPIC_ANSWER = struct(new Field("topic_id", Type.UUID), new Field("partitions", new CompactArrayOf(PARTITION_ANSWER)));
    private static final Schema ANSWER = struct(new Field("throttle_time_ms", Type.INT32), new Field("error_code", Type.INT16),
        new Field("topics", new CompactArrayOf(TOPIC_ANSWER)));

    private TxnShareAcknowledge() { }

    /** What became of the acknowledgements of a partition. */
    public record Answer(Errors error, String message) { }

    /** The request of one partition, header and all, without its size. */
    public static ByteBuffer request(int correlationId, String clientId, String transactionalId, ProducerIdAndEpoch producer, ShareGroupMetadata group,
            TopicIdPartition of, List<AcknowledgementBatch> batches) {
        Struct header = filled(RequestHeaderData.SCHEMA_2, KEY, (short) 0, correlationId, clientId);
        Object[] ranges = batches.stream().map(b -> filled(BATCH, b.firstOffset(), b.lastOffset(), types(b))).toArray();
        Struct partition = filled(PARTITION, of.partition(), ranges);
        Struct topic = filled(TOPIC, of.topicId(), new Object[] {partition});
        Struct body = filled(REQUEST, transactionalId, group.groupId(), producer.producerId, producer.epoch, group.memberId(), group.memberEpoch(),
            new Object[] {topic});
        ByteBuffer all = ByteBuffer.allocate(header.sizeOf() + body.sizeOf());
        header.writeTo(all);
        body.writeTo(all);
        return all.flip();
    }

    /** The answer about one partition. */
    public static Answer answer(int correlationId, ByteBuffer bytes) {
        int answered = ResponseHeaderData.SCHEMA_1.read(bytes).getInt("correlation_id");
        if (answered != correlationId) {
            throw new IllegalStateException("the answer to " + answered + " has come for " + correlationId);
        }
        Struct all = ANSWER.read(bytes);
        Errors error = Errors.forCode(all.getShort("error_code"));
        if (error != Errors.NONE) {
            return new Answer(error, null);
        }
        for (Object topic : all.getArray("topics")) {
            for (Object partition : ((Struct) topic).getArray("partitions")) {
                Struct p = (Struct) partition;
                return new Answer(Errors.forCode(p.getShort("error_code")), p.getString("error_message"));
            }
        }
        return new Answer(Errors.UNKNOWN_SERVER_ERROR, "the answer is not about the partition");
    }

    /** The types as they are sent: one where all are the same. */
    private static Object[] types(AcknowledgementBatch b) {
        boolean same = b.acknowledgeTypes().stream().distinct().count() == 1;
        return (same ? b.acknowledgeTypes().subList(0, 1) : b.acknowledgeTypes()).toArray();
    }

    private static Schema struct(Field... fields) {
        Field[] all = Arrays.copyOf(fields, fields.length + 1);
        all[fields.length] = TaggedFieldsSection.of();
        return new Schema(all);
    }

    /** A struct with these values in order, and without tagged fields. */
    private static Struct filled(Schema schema, Object... values) {
        Struct s = new Struct(schema);
        for (int i = 0; i < values.length; i++) {
            s.set(schema.get(i), values[i]);
        }
        return s.set(TAGS, new TreeMap<Integer, Object>());
    }
}
