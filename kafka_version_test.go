package kshare_test

import (
	"testing"

	"kshare"

	"github.com/stretchr/testify/require"
)

func TestKafkaVersion(t *testing.T) {
	_, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithKafkaVersion("3.9"))
	require.ErrorContains(t, err, `"3.9" is no line of Apache Kafka that is known here; there are 4.2, 4.3, 4.4`)
	_, err = kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithFeature("share.version", 2), kshare.WithKafkaVersion("4.3"))
	require.ErrorContains(t, err, "feature share.version cannot be finalised at level 2, the levels of Kafka 4.3 are 0 to 1")
	_, err = kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithConfig("errors.deadletterqueue.auto.create.topics.enable", "true"), kshare.WithKafkaVersion("4.3"))
	require.ErrorContains(t, err, "Apache Kafka 4.3 has no such key, 4.4 has")
}

// A cluster goes on as a later line, but not as an earlier one, whose brokers do not know what the later has finalised.
func TestUpgradeAndDowngrade(t *testing.T) {
	memory := kshare.NewMemory()
	start := func(version string) error {
		c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithMemory(memory), kshare.WithKafkaVersion(version))
		if err == nil {
			require.NoError(t, c.Close())
		}
		return err
	}
	require.NoError(t, start("4.2"))
	require.NoError(t, start("4.4"), "levels stay as they were finalised")
	require.NoError(t, start("4.2"))

	memory = kshare.NewMemory()
	require.NoError(t, start("4.4"))
	require.ErrorContains(t, start("4.3"), "the store was left by a later Kafka: feature metadata.version is finalised at level 33, and Kafka 4.3 has the levels 7 to 30")
}
