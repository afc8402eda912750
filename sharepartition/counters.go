package sharepartition

import "math/bits"

// Counters are what has happened in a share partition. They outlive the Partition: its caller keeps them and has the next one count on.
type Counters struct {
	// LockTimeouts are the records whose lock ended by itself (SharePartitionMetrics.AcquisitionLockTimeoutPerSec).
	LockTimeouts int64
	// Batches are the batches that came to be in flight (InFlightBatchMessageCount). Apache Kafka counts those that it restores, too: the caller adds them.
	Batches BatchSizes
}

// BatchSizes are numbers of batches by how many records they have.
type BatchSizes struct {
	// Count[i] are the batches of up to 2^i records that are too long for Count[i-1]. The last has all that are longer, too.
	Count [15]int64
	// Records are the records of all of them together.
	Records int64
}

// Add counts a batch of at least one record.
func (s *BatchSizes) Add(records int64) {
	s.Count[min(bits.Len64(uint64(records-1)), len(s.Count)-1)]++
	s.Records += records
}

// CountIn has the partition count what happens from now on. Without it nothing is counted.
func (p *Partition) CountIn(c *Counters) { p.counters = c }

// Batches is the number of batches in flight (SharePartitionMetrics.InFlightBatchCount).
func (p *Partition) Batches() int { return p.tail - p.head }
