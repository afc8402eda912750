package kshare.kip1289;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import org.apache.kafka.clients.consumer.AcknowledgeType;

/** A range of offsets, inclusive, with the wire's acknowledge type of each: 1 ACCEPT, 3 REJECT, 0 where an offset has no record. */
public record AcknowledgementBatch(long firstOffset, long lastOffset, List<Byte> acknowledgeTypes) {
    /** The type of an offset that was acquired and has no record: a marker of a transaction, a hole that compaction has left. */
    static final byte GAP = 0;

    /** Puts offsets that follow each other into one batch. The type of a gap is null, as in the consumer's own acknowledgements. */
    static List<AcknowledgementBatch> of(SortedMap<Long, AcknowledgeType> types) {
        List<AcknowledgementBatch> all = new ArrayList<>();
        for (Map.Entry<Long, AcknowledgeType> e : types.entrySet()) {
            long offset = e.getKey();
            long first = offset;
            List<Byte> batch = new ArrayList<>();
            if (!all.isEmpty() && all.get(all.size() - 1).lastOffset == offset - 1) {
                AcknowledgementBatch before = all.remove(all.size() - 1);
                first = before.firstOffset;
                batch = before.acknowledgeTypes;
            }
            batch.add(e.getValue() == null ? GAP : e.getValue().id);
            all.add(new AcknowledgementBatch(first, offset, batch));
        }
        return all;
    }
}
