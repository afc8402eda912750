package kshare.kip1289;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.kafka.clients.ClientUtils;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ByteBufferSend;
import org.apache.kafka.common.network.NetworkReceive;
import org.apache.kafka.common.network.NetworkSend;
import org.apache.kafka.common.network.Selectable;
import org.apache.kafka.common.network.Selector;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;

/**
 * A connection to each broker that was asked, for requests that NetworkClient cannot carry. They are made with the producer's security settings, of which
 * none but plaintext was tried.
 */
final class Connections implements AutoCloseable {
    private final Metrics metrics = new Metrics();
    private final Selector selector;

    Connections(ProducerConfig config) {
        LogContext log = new LogContext();
        selector = new Selector(config.getLong(CommonClientConfigs.CONNECTIONS_MAX_IDLE_MS_CONFIG), metrics, Time.SYSTEM, "kip-1289",
            ClientUtils.createChannelBuilder(config, Time.SYSTEM, log), log);
    }

    /** Sends a request and waits for its answer. A connection whose answer did not come in time is closed, so that it cannot come for the next request. */
    ByteBuffer ask(Node node, ByteBuffer request, long timeoutMs) throws IOException {
        String id = node.idString();
        long deadline = Time.SYSTEM.milliseconds() + timeoutMs;
        if (selector.channel(id) == null) {
            selector.connect(id, new InetSocketAddress(node.host(), node.port()), Selectable.USE_DEFAULT_BUFFER_SIZE, Selectable.USE_DEFAULT_BUFFER_SIZE);
        }
        await(id, deadline, () -> selector.isChannelReady(id) ? Optional.of(id) : Optional.empty());
        selector.clearCompletedReceives(); // the last answer stays among them until the next poll
        selector.send(new NetworkSend(id, ByteBufferSend.sizePrefixed(request)));
        return await(id, deadline, () -> selector.completedReceives().stream().filter(r -> r.source().equals(id)).map(NetworkReceive::payload).findAny());
    }

    private <T> T await(String id, long deadline, Supplier<Optional<T>> found) throws IOException {
        for (Optional<T> got = found.get();; got = found.get()) {
            if (got.isPresent()) {
                return got.get();
            }
            long left = deadline - Time.SYSTEM.milliseconds();
            if (left <= 0) {
                selector.close(id);
                throw new IOException("broker " + id + " did not answer in time");
            }
            selector.poll(left);
            if (selector.disconnected().containsKey(id)) {
                throw new IOException("broker " + id + " has closed the connection");
            }
        }
    }

    @Override
    public void close() {
        selector.close();
        metrics.close();
    }
}
