package kshare.kip1289;

import org.apache.kafka.common.protocol.Errors;

/** What is left to do after an error of TxnShareAcknowledge, as the draft's TransactionManager has it. */
public enum ErrorClass {
    /** The same is sent again, for max.block.ms at most. */
    RETRIABLE,
    /** abortTransaction is all that is left; then the next transaction may begin. */
    ABORTABLE,
    /** The producer is of no more use: close it and make another. */
    FATAL;

    /** The class of an error other than NONE. What the draft does not know is fatal. */
    public static ErrorClass of(Errors error) {
        return switch (error) {
            case UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, NETWORK_EXCEPTION, COORDINATOR_LOAD_IN_PROGRESS,
                COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS, UNKNOWN_TOPIC_ID, REQUEST_TIMED_OUT -> RETRIABLE;
            case GROUP_AUTHORIZATION_FAILED, UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, TRANSACTION_ABORTABLE, INVALID_RECORD_STATE -> ABORTABLE;
            default -> FATAL;
        };
    }
}
