package kshare.interop;

import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import kshare.kip1289.AcknowledgementBatch;
import kshare.kip1289.ShareGroupMetadata;
import kshare.kip1289.TxnShareAcknowledge;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.internals.ProducerIdAndEpoch;

/** The bytes of a TxnShareAcknowledge, and what is understood of the answers that its arguments are, for a test in Go to compare with what it makes of them. */
public final class TxnShareAcknowledgeProgram {
    private static final int CORRELATION_ID = 7;

    private TxnShareAcknowledgeProgram() { }

    public static void main(String[] args) {
        Check.main("java TxnShareAcknowledge", () -> {
            List<AcknowledgementBatch> batches = List.of(
                new AcknowledgementBatch(0, 4, Collections.nCopies(5, (byte) 1)), // goes as one type
                new AcknowledgementBatch(7, 9, List.of((byte) 1, (byte) 0, (byte) 3)),
                new AcknowledgementBatch(1L << 40, 1L << 40, List.of((byte) 3)));
            ByteBuffer request = TxnShareAcknowledge.request(CORRELATION_ID, "a client", "worker-1", new ProducerIdAndEpoch(4711, (short) 12),
                new ShareGroupMetadata("workers", "b1946ac9-2492-4d37-9d7c-5f9e3a7f5f0e", 3),
                new TopicIdPartition(new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L), 5, "orders"), batches);
            byte[] bytes = new byte[request.remaining()];
            request.get(bytes);
            System.out.println("REQUEST " + HexFormat.of().formatHex(bytes));
            for (String hex : args) {
                TxnShareAcknowledge.Answer answer = TxnShareAcknowledge.answer(CORRELATION_ID, ByteBuffer.wrap(HexFormat.of().parseHex(hex)));
                System.out.println("ANSWER " + answer.error().code() + " " + answer.message());
            }
        });
    }
}
