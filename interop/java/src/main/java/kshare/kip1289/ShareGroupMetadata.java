package kshare.kip1289;

/** Who acknowledges: a broker refuses a member that has left, or one with an old epoch. Members of share groups have no instance id. */
public record ShareGroupMetadata(String groupId, String memberId, int memberEpoch) { }
