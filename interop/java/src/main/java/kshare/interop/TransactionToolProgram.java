package kshare.interop;

import static kshare.interop.Check.step;
import static kshare.interop.Check.that;
import static kshare.interop.Tools.line;
import static kshare.interop.Tools.noLine;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.tools.TransactionsCommand;

/** kafka-transactions: every command on a transaction that is open, aborted behind its producer's back, and ended. */
public final class TransactionToolProgram {
    private final String bootstrap;
    private final Clients clients;
    private final Admin admin;
    private final String id = Check.unique("java-txn-tool"); // of the topic and the transaction

    private TransactionToolProgram(String bootstrap, Clients clients, Admin admin) {
        this.bootstrap = bootstrap;
        this.clients = clients;
        this.admin = admin;
    }

    public static void main(String[] args) {
        Check.main("java kafka-transactions", () -> {
            Clients clients = new Clients(args[0]);
            try (Admin admin = clients.admin()) {
                new TransactionToolProgram(args[0], clients, admin).run();
            }
        });
    }

    private String tool(int status, String... args) throws Exception {
        return Tools.run(bootstrap, status, "", TransactionsCommand::main, args);
    }

    private void begin(Producer<String, String> p, String value) throws Exception {
        p.beginTransaction();
        p.send(new ProducerRecord<>(id, 0, "k", value)).get();
    }

    private void run() throws Exception {
        clients.createTopic(admin, id, 1);
        String unknown = tool(1, "describe", "--transactional-id", id);
        that(unknown.contains("the ID could not be found"), "the reason of the refusal is missing:\n" + unknown);
        try (Producer<String, String> p = clients.producer("transactional.id", id)) {
            p.initTransactions();
            begin(p, "a");

            step("list");
            String all = tool(0, "list");
            line("TransactionalId Coordinator ProducerId TransactionState", all);
            line(id + " \\d+ \\d+ Ongoing", all);
            line(id + " \\d+ \\d+ Ongoing", tool(0, "list", "--transactional-id-pattern", id.substring(0, id.length() - 1) + "."));
            noLine(id + " .*", tool(0, "list", "--transactional-id-pattern", id.substring(1)));
            noLine(id + " .*", tool(0, "list", "--duration-filter", "600000"));

            step("describe");
            String described = tool(0, "describe", "--transactional-id", id);
            line("CoordinatorId TransactionalId ProducerId ProducerEpoch TransactionState TransactionTimeoutMs CurrentTransactionStartTimeMs "
                + "TransactionDurationMs TopicPartitions", described);
            line("\\d+ " + id + " \\d+ 0 Ongoing 60000 \\d{13} \\d+ " + id + "-0", described);

            step("describe-producers");
            String producers = tool(0, "describe-producers", "--topic", id, "--partition", "0");
            line("ProducerId ProducerEpoch LatestCoordinatorEpoch LastSequence LastTimestamp CurrentTransactionStartOffset", producers);
            line("\\d+ 0 -1 0 \\d{13} 0", producers);

            step("find-hanging");
            String none = tool(0, "find-hanging", "--topic", id, "--max-transaction-timeout", "0");
            noLine(id + " .*", none);

            step("abort");
            tool(0, "abort", "--topic", id, "--partition", "0", "--start-offset", "0");
            line("\\d+ 0 0 0 \\d{13} None", tool(0, "describe-producers", "--topic", id, "--partition", "0"));
            String again = tool(1, "abort", "--topic", id, "--partition", "0", "--start-offset", "0");
            that(again.contains("Could not find any open transactions starting at offset 0"), "the reason of the refusal is missing:\n" + again);
            line("\\d+ " + id + " \\d+ 0 Ongoing 60000 \\d{13} \\d+ " + id + "-0", tool(0, "describe", "--transactional-id", id));
            p.commitTransaction();
            String committed = Check.eventually("the commit", () -> tool(0, "describe", "--transactional-id", id), d -> !d.contains("PrepareCommit"));
            line("\\d+ " + id + " \\d+ 1 CompleteCommit 60000 \\d{13} \\d+", committed);

            step("forceTerminateTransaction");
            begin(p, "b");
            tool(0, "forceTerminateTransaction", "--transactionalId", id);
            line("\\d+ " + id + " \\d+ 3 Empty \\d+ None None", tool(0, "describe", "--transactional-id", id));
        }
    }
}
