package scenario

import "slices"

// outcome is what an answer says of a partition.
type outcome struct {
	at   topicPartition
	text string
}

// result writes an error code, or ok.
func result(code int16) string {
	if code == 0 {
		return "ok"
	}
	return failure(code, nil)
}

// showOutcomes shows what an answer says partition by partition, in their order, or something else where it says nothing.
func (s *step) showOutcomes(all []outcome, none string) {
	slices.SortStableFunc(all, func(a, b outcome) int { return comparePartitions(a.at, b.at) })
	for _, o := range all {
		s.printf("%s: %s", o.at, o.text)
	}
	if len(all) == 0 {
		s.printf("%s", none)
	}
}

// groupLabel is the name of a group before what is said of it.
func groupLabel(group string) string {
	if group == "" {
		return `""`
	}
	return group
}

// topicPartitions are partitions of one topic, as requests name them.
type topicPartitions struct {
	topic      string
	partitions []int32
}

// byTopic groups partitions by topic, topics in the order of their first appearance.
func byTopic(all []topicPartition) (topics []topicPartitions) {
	for _, p := range all {
		i := slices.IndexFunc(topics, func(t topicPartitions) bool { return t.topic == p.topic })
		if i < 0 {
			i = len(topics)
			topics = append(topics, topicPartitions{topic: p.topic})
		}
		topics[i].partitions = append(topics[i].partitions, p.partition)
	}
	return topics
}

// partitionWords reads words that are partitions.
func partitionWords(words []string) (all []topicPartition, err error) {
	for _, w := range words {
		p, err := parsePartition(w)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
