// Package shareclient is a client for acknowledgements of share groups in transactions (KIP-1289): what is read with a share group and what is written for it take effect
// together or not at all. The KIP is proposed only, so a broker has to offer it, as kshare does with kshare.WithKIP1289.
//
// A [Consumer] is a member of a share group that acknowledges explicitly: a record that nothing is said about stays with the member until its lock ends.
// A [Producer] is a transactional producer that stages the consumer's acknowledgements in its transaction:
//
//	for {
//		records, err := consumer.Poll(ctx)
//		if err != nil { ... }
//		if err := producer.BeginTransaction(); err != nil { ... }
//		for _, r := range records {
//			err = errors.Join(err, producer.Produce(ctx, transform(r)), consumer.Acknowledge(r, shareclient.Accept))
//		}
//		err = errors.Join(err, producer.SendShareAcknowledgementsToTransaction(ctx, consumer.AcknowledgementsForTransaction(), consumer.GroupMetadata()))
//		if err == nil {
//			err = producer.CommitTransaction(ctx)
//		} else if !shareclient.IsFatal(err) {
//			err = producer.AbortTransaction(ctx)
//		}
//		if err != nil { ... } // a fatal error: the producer is of no more use, make another
//	}
//
// Both have a kgo.Client of their own that does no more than carry requests. Its share consumer accepts at the next poll what was not marked and does not tell
// its member epoch; its transactional producer sends no EndTxn where nothing was produced, which would leave what was only acknowledged waiting, and an EndTxn that
// is sent past it changes the producer epoch (KIP-890) behind its back.
package shareclient
