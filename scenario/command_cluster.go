package scenario

import (
	"strings"

	"kshare"
	"kshare/kip1289"
)

func init() {
	register(&command{
		name:    "cluster",
		usage:   "cluster [brokers=N] [timing=fast|kafka] [feature=NAME:LEVEL,...] [kafka-version=4.2|4.3|4.4] [kip1289=on|SWITCH:VALUE,...] [KEY=VALUE ...]",
		summary: "Says how the cluster is started: the first command of a file, where it is there. KEY=VALUE are broker configurations. kip1289 has the brokers take acknowledgements in transactions, on with the defaults of all switches.",
		example: `
cluster brokers=3 timing=kafka feature=share.version:1 group.share.record.lock.duration.ms=15000
topic orders
----
orders: 1 partition
`,
		optionNames: []string{"brokers", "timing", "feature", "kafka-version", "kip1289"},
		freeWords:   true, most: -1, ahead: true,
		check: func(c *call) error { _, err := clusterSettings(c); return err },
		run: func(s *step, c *call) error {
			with, err := clusterSettings(c)
			if err != nil {
				return err
			}
			return s.setUp(with)
		},
	})
}

// BrokerConfig is the configuration and the feature levels that the cluster command of a scenario asks for.
func BrokerConfig(f *File) (config map[string]string, features map[string]int16) {
	lines := f.commandLines()
	if len(lines) == 0 {
		return nil, nil
	}
	c, err := parseCommand(lines[0])
	if err != nil || c.name != "cluster" {
		return nil, nil
	}
	with, err := clusterSettings(c)
	if err != nil {
		return nil, nil
	}
	return with.config, with.features
}

// maxBrokers bounds the nodes of a scenario.
const maxBrokers = 100

func clusterSettings(c *call) (with settings, err error) {
	n, err := c.numberOption("brokers", 1, 1, maxBrokers)
	if err != nil {
		return with, err
	}
	with.brokers = int(n)
	if t, ok := c.options["timing"]; ok {
		timing, ok := kshare.TimingNamed(t)
		if !ok {
			return with, mistakef("timing=%s: fast or kafka", t)
		}
		with.timing = &timing
	}
	if f, ok := c.options["feature"]; ok {
		with.features = map[string]int16{}
		for one := range strings.SplitSeq(f, ",") {
			name, text, _ := strings.Cut(one, ":")
			level, err := number(text, 0, 1<<15-1)
			if err != nil {
				return with, mistakef("feature=%s: write NAME:LEVEL, like share.version:1", one)
			}
			with.features[name] = int16(level)
		}
	}
	with.kafka = c.options["kafka-version"]
	if text, ok := c.options["kip1289"]; ok {
		if with.kip1289, err = transactionalAcks(text); err != nil {
			return with, err
		}
	}
	with.config = map[string]string{}
	for _, w := range c.words {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			return with, mistakef("%q is no KEY=VALUE", w)
		}
		with.config[key] = value
	}
	return with, nil
}

// transactionalAcks reads the switches of KIP-1289.
func transactionalAcks(text string) (*[]string, error) {
	switches := []string{}
	if text != "on" {
		for one := range strings.SplitSeq(text, ",") {
			switches = append(switches, strings.Replace(one, ":", "=", 1))
		}
	}
	if _, err := kip1289.Parse(switches...); err != nil {
		return nil, mistakef("kip1289=%s: on, or SWITCH:VALUE,...: %v", text, err)
	}
	return &switches, nil
}
