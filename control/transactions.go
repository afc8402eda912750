package control

import (
	"context"
	"time"
)

// Transactions is the transactions that are not complete.
type Transactions struct {
	Transactions []Transaction `json:"transactions" doc:"in the order of their transactional ids"`
}

// Transaction is a transaction that is not complete.
type Transaction struct {
	TransactionalID string                 `json:"transactionalId" doc:"empty where no transactional id has the producer whose acknowledgements wait: no marker will come for them"`
	State           string                 `json:"state" doc:"as Kafka names it, empty without a transactional id" values:"Ongoing,PrepareCommit,PrepareAbort,"`
	ProducerID      int64                  `json:"producerId" doc:"of what the transaction has written"`
	ProducerEpoch   int16                  `json:"producerEpoch"`
	TimeoutMs       *int64                 `json:"timeoutMs" doc:"null for none: it is part of a two-phase commit, and lasts until somebody ends it"`
	Began           *time.Time             `json:"began" doc:"null without a transactional id"`
	Partitions      []TransactionPartition `json:"partitions" doc:"what it writes to"`
	Staged          []StagedRecords        `json:"staged" doc:"records of share groups that wait for its end"`
}

// TransactionPartition is a partition that a transaction writes to.
type TransactionPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// StagedRecords are neighbouring records of a share partition whose acknowledgement is part of a transaction.
type StagedRecords struct {
	Group       string `json:"group"`
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	FirstOffset int64  `json:"firstOffset"`
	LastOffset  int64  `json:"lastOffset" doc:"inclusive"`
}

func (s *server) getTransactions(context.Context, *struct{}) (*Transactions, error) {
	all := &Transactions{Transactions: []Transaction{}}
	for _, t := range s.cluster.InspectTransactions() {
		x := Transaction{
			TransactionalID: t.ID, State: t.State, ProducerID: t.ProducerID, ProducerEpoch: t.ProducerEpoch, Partitions: []TransactionPartition{}, Staged: []StagedRecords{},
		}
		if t.Timeout > 0 {
			ms := t.Timeout.Milliseconds()
			x.TimeoutMs = &ms
		}
		if !t.Began.IsZero() {
			x.Began = &t.Began
		}
		for _, p := range t.Partitions {
			x.Partitions = append(x.Partitions, TransactionPartition(p))
		}
		for _, r := range t.Staged {
			x.Staged = append(x.Staged, StagedRecords(r))
		}
		all.Transactions = append(all.Transactions, x)
	}
	return all, nil
}

type abortTransaction struct {
	TransactionalID string `json:"transactionalId" doc:"one whose transaction is Ongoing"`
}

func (s *server) abortTransaction(_ context.Context, q *abortTransaction) (*nothing, error) {
	return conflict(s.cluster.AbortTransaction(q.TransactionalID))
}

type releaseStaged struct {
	ProducerID int64 `json:"producerId" doc:"of what is listed without a transactionalId"`
}

func (s *server) releaseStaged(_ context.Context, q *releaseStaged) (*nothing, error) {
	return conflict(s.cluster.ReleaseStaged(q.ProducerID))
}
