package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.step;
import static kshare.interop.Check.that;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import kshare.control.JudgeExample;
import kshare.control.KshareControl;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The control interface, by the example of examples/java, against a kshare of its own: the argument is its binary. */
public final class ControlProgram {
    private static final String TOPIC = "orders";
    private static final String GROUP = "workers";

    private final KshareControl kshare;
    private final Clients clients;

    private ControlProgram(KshareControl kshare) {
        this.kshare = kshare;
        this.clients = new Clients(kshare.bootstrap());
    }

    public static void main(String[] args) {
        Check.main("java control", () -> {
            try (KshareControl kshare = KshareControl.start(args[0], "--topic", TOPIC + ":1", "--clock", "virtual", "--judge")) {
                ControlProgram p = new ControlProgram(kshare);
                p.lockEnds();
                p.rulesAreKept();
                p.producerTriesAgain();
                p.resetLeavesNothing();
                p.mistakeIsTold();
                p.endIsTold();
            }
        });
    }

    private void produce(String value) throws Exception {
        try (Producer<String, String> p = clients.producer()) {
            p.send(new ProducerRecord<>(TOPIC, value)).get(Check.LIMIT.toMillis(), TimeUnit.MILLISECONDS);
        }
    }

    private ShareConsumer<String, String> worker() {
        ShareConsumer<String, String> c = clients.shareConsumer("group.id", GROUP, "share.acknowledgement.mode", "explicit");
        c.subscribe(List.of(TOPIC));
        return c;
    }

    private static ConsumerRecord<String, String> receive(ShareConsumer<String, String> c) throws Exception {
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        Check.eventually("a record", () -> {
            c.poll(Check.POLL).forEach(got::add);
            return got.size();
        }, n -> n > 0);
        return got.get(0);
    }

    private void rulesAreKept() throws Exception {
        step("the clients have kept the rules of the judge");
        equal("", JudgeExample.failures(kshare), "broken rules");
    }

    private void lockEnds() throws Exception {
        step("a record whose lock ends goes to another worker, and nobody waits for it");
        kshare.run("config group " + GROUP + " share.auto.offset.reset=earliest\n");
        produce("teapot");
        try (ShareConsumer<String, String> slow = worker(); ShareConsumer<String, String> other = worker()) {
            equal(Optional.of((short) 1), receive(slow).deliveryCount(), "first delivery");
            String state = kshare.sharePartition(GROUP, TOPIC, 0);
            equal("ACQUIRED", KshareControl.field(state, "state"), "state");
            equal("30000", KshareControl.field(state, "lockLeftMs"), "lock");
            kshare.advance("30s");
            ConsumerRecord<String, String> again = receive(other);
            equal(Optional.of((short) 2), again.deliveryCount(), "second delivery");
            other.acknowledge(again);
            other.commitSync();
        }
    }

    private void producerTriesAgain() throws Exception {
        step("a producer tries again");
        kshare.addFault("api=Produce topic=" + TOPIC + " times=1 error=NOT_LEADER_OR_FOLLOWER");
        produce("kettle");
        equal("1", KshareControl.field(kshare.get("/v1/faults"), "acts"), "faults that acted");
        kshare.delete("/v1/faults");
    }

    private void resetLeavesNothing() throws Exception {
        step("a reset leaves nothing");
        that(kshare.get("/v1/topics").contains("\"endOffset\":2"), "two records before it");
        kshare.reset();
        that(!kshare.get("/v1/topics").contains("\"endOffset\":2"), "none after it");
    }

    private void mistakeIsTold() throws Exception {
        step("a mistake is told");
        try {
            kshare.advance("soon");
            throw new AssertionError("a time that is none was taken");
        } catch (KshareControl.Refused e) {
            equal(400, e.status(), "status");
            that(e.getMessage().contains("soon is not a duration"), e.getMessage());
        }
    }

    private void endIsTold() throws Exception {
        step("a kshare that has ended is told of");
        kshare.close();
        try {
            kshare.reset();
            throw new AssertionError("a kshare that has ended was emptied");
        } catch (IOException e) {
            equal("kshare has ended with status 0", e.getMessage(), "message");
        }
    }
}
